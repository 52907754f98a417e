/* Work space of groups of products: what a dry run counts, where the first experts have all tokens, is enough however
 * the router distributes them. Streams of dry devices compute no large product. */
#include "device/dry_device.h"
#include "device/stream_impl.h"
#include "support/test.h"

enum { EXPERTS = 4, TOKENS = 200, CHOICES = 2, MOST_EXPERTS = 40, MOST_THREADS = 3 };

/* All operands and results, with room for the largest one: small products are computed even here, where nobody reads
 * what comes out. */
static char nothing[32 << 20];

typedef enum kind { STORED_NK, STORED_KN, ACTIVATED, GRADIENT_OF_ACT, TERMS, LEAVES, WEIGHT, KINDS } kind;

typedef struct room_case {
    int64_t n, k, k2;
} room_case;

/* k that few rows take whole; a second term that is larger than the first one; many columns. */
static const room_case room_cases[] = {{96, 28672, 45}, {64, 48, 30000}, {4096, 300, 300}, {17000, 7, 1}};
enum { N_CASES = sizeof(room_cases) / sizeof(room_cases[0]) };

/* Tokens of each expert; the first line is the dry run's. */
static const int64_t routings[][EXPERTS] = {{200, 200, 0, 0},   {100, 100, 100, 100}, {64, 200, 64, 72},
                                            {1, 199, 0, 200},   {60, 140, 17, 183},   {33, 167, 12, 188},
                                            {16, 184, 63, 137}, {65, 135, 13, 187},   {8, 192, 32, 168}};
enum { N_ROUTINGS = sizeof(routings) / sizeof(routings[0]) };

static tess_gemm_fused product_of(kind kind, const room_case *c, int64_t rows, tess_dtype dtype)
{
    tess_gemm_fused f = {.g = {.m = rows,
                               .n = c->n,
                               .k = c->k,
                               .a = nothing,
                               .lda = c->k,
                               .b = nothing,
                               .ldb = kind == STORED_KN || kind == TERMS ? c->n : c->k,
                               .trans_b = kind != STORED_KN && kind != TERMS,
                               .c = nothing,
                               .ldc = c->n,
                               .leaf = kind == LEAVES ? TESS_LEAF_UNIT : 0,
                               .ab_dtype = dtype,
                               .c_dtype = dtype}};
    if (kind == ACTIVATED || kind == GRADIENT_OF_ACT) {
        f.then = kind == ACTIVATED ? TESS_THEN_ACT : TESS_THEN_ACT_BACKWARD;
        f.gate = f.up = f.y = nothing;
    }
    if (kind == TERMS) {
        f.n_terms = 1;
        f.terms[0] = (tess_gemm_term){nothing, c->k2, nothing, c->n, c->k2};
    }
    if (kind == WEIGHT) /* dy^T x, where K is the tokens */
        f.g = (tess_gemm){.m = c->n,
                          .n = c->k,
                          .k = rows,
                          .a = nothing,
                          .lda = c->n,
                          .b = nothing,
                          .ldb = c->k,
                          .c = nothing,
                          .ldc = c->k,
                          .trans_a = true,
                          .ab_dtype = dtype,
                          .c_dtype = TESS_F32};
    return f;
}

/* Returns the bytes of work space that the experts' products take. Experts after the first ones have no tokens. */
static size_t work_of(const char *table, kind kind, const room_case *c, const int64_t *rows, int n_experts,
                      tess_dtype dtype, int n_threads)
{
    tess_gemm_fused products[MOST_EXPERTS];
    tess_stream *s;
    for (int i = 0; i < n_experts; i++)
        products[i] = product_of(kind, c, i % (n_experts / EXPERTS) == 0 ? rows[i / (n_experts / EXPERTS)] : 0, dtype);
    EXPECT_OK(tess_dry_stream_create(test_mem(), n_threads, table, &s));
    EXPECT_OK(tess_stream_kernels(s)->gemm_grouped(
        s, &(tess_gemm_grouped){.products = products, .n_products = n_experts, .ab_dtype = dtype, .work = nothing}));
    const size_t bytes = s->scratch_bytes;
    tess_stream_destroy(&s);
    return bytes;
}

static void expect_room(const char *table, kind kind, const room_case *c, int n_experts, tess_dtype dtype,
                        int n_threads)
{
    const size_t planned = work_of(table, kind, c, routings[0], n_experts, dtype, n_threads);
    for (int i = 1; i < N_ROUTINGS; i++) {
        const size_t used = work_of(table, kind, c, routings[i], n_experts, dtype, n_threads);
        if (used > planned)
            test_fail(__FILE__, __LINE__, "%s, kind %d, %s, n %d, k %d, %d experts, routing %d: %zu bytes, planned %zu",
                      table, (int)kind, tess_dtype_name(dtype), (int)c->n, (int)c->k, n_experts, i, used, planned);
    }
}

static void any_routing_fits_the_planned_work_space(void)
{
    static const char *const tables[] = {"avx2", "avx512", "avx512_bf16", "amx"};
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        const tess_kernels *kernels;
        if (tess_kernels_select(tables[t], &kernels) != TESS_OK)
            continue;
        for (int i = 0; i < N_CASES * KINDS * 2; i++)
            for (int n_threads = 1; n_threads <= MOST_THREADS; n_threads += 2)
                for (int n_experts = EXPERTS; n_experts <= MOST_EXPERTS; n_experts *= MOST_EXPERTS / EXPERTS)
                    expect_room(tables[t], (kind)(i / 2 % KINDS), &room_cases[i / 2 / KINDS], n_experts,
                                i % 2 ? TESS_BF16 : TESS_F32, n_threads);
    }
}

static const test_case cases[] = {CASE(any_routing_fits_the_planned_work_space)};
TEST_MAIN(cases)
