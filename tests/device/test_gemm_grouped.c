/* Groups of products: on every table and with one to four threads, each product has the bits that it has alone, and is
 * near its value in float64. The groups are experts with the tokens that they get: none, one, few, many, all. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "device/bf16.h"
#include "device/cuda_shim/cuda_shim_stream.h"
#include "device/gemm_check.h"
#include "device/stream_impl.h"

static const char *const table_names[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx", "cuda", "cuda-tc"};
enum { N_TABLES = sizeof(table_names) / sizeof(table_names[0]), MOST_GROUPS = 128, MOST_THREADS = 4, K2 = 45, K3 = 20 };

/* The products of a layer of experts. */
typedef enum kind {
    FORWARD,          /* x W^T + b, W stored (n,k) */
    FORWARD_STRAIGHT, /* x W, W stored (k,n) */
    FORWARD_VARIED,   /* x W^T + b, where n differs, and C has longer rows */
    ACTIVATED,        /* act(gate) * (x W^T) */
    GRADIENT_OF_ACT,  /* the gradients of gate and up */
    TWO_TERMS,        /* dy W + dz V */
    THREE_TERMS,      /* the same with a further term; n differs, and C has longer rows */
    TERMS_TO_FLOAT,   /* two terms, and C is float32 */
    LEAVES,           /* x W^T, K in leaves */
    WEIGHT,           /* dy^T x, where K is the tokens */
    WEIGHT_ADDED      /* the same, added to what is there */
} kind;

typedef struct group_case {
    const char *name;
    int64_t n, k;
    int n_groups;
    int64_t rows[8]; /* groups repeat them */
} group_case;

/* Sizes that no tile divides, K beyond a stretch, few and many groups. */
static const group_case group_cases[] = {
    {"mixed", 70, 131, 8, {0, 1, 5, 64, 256, 33, 0, 17}},
    {"all rows to one", 96, 64, 4, {0, 0, 300, 0}},
    {"128 groups", 33, 40, 128, {3, 0, 1, 2, 0, 7, 1, 0}},
    {"64 rows each", 160, 96, 6, {64, 64, 64, 64, 64, 64}},
    {"256 rows each", 65, 70, 3, {256, 256, 256}},
    {"long K", 40, 4200, 4, {2, 40, 0, 70}},
    {"many rows", 64, 48, 2, {1100, 530}},
    {"wide", 1056, 65, 3, {70, 9, 33}},
    {"no rows", 32, 32, 3, {0, 0, 0}},
    {"no groups", 32, 32, 0, {0}},
    {"no k", 40, 0, 3, {5, 0, 40}},
};
enum { N_CASES = sizeof(group_cases) / sizeof(group_cases[0]) };

static uint32_t seed = 7;

/* An array whose end the sanitizer watches. */
typedef struct array {
    void *data;
    size_t bytes;
    tess_dtype dtype;
} array;

static array array_make(int64_t count, tess_dtype dtype)
{
    array x = {.bytes = (size_t)count * tess_dtype_size(dtype), .dtype = dtype};
    EXPECT(posix_memalign(&x.data, 64, x.bytes > 0 ? x.bytes : 1) == 0);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float value = (float)(int32_t)seed * 0x1p-31f;
        if (dtype == TESS_F32)
            ((float *)x.data)[i] = value;
        else if (dtype == TESS_BF16)
            ((uint16_t *)x.data)[i] = tess_float_to_bf16(value);
    }
    return x;
}

static float get(const void *x, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F32 ? ((const float *)x)[i] : tess_bf16_to_float(((const uint16_t *)x)[i]);
}

/* A call. READ arrays stay; the others, which a call writes, are set to `before` at first. */
enum { X, X2, W, W2, BIAS, READ, C = READ, GATE, UP, Y, ARRAYS };
typedef struct problem {
    kind kind;
    const group_case *of;
    tess_dtype dtype;
    int64_t all_rows;
    array at[ARRAYS], before[ARRAYS], work;
    tess_gemm_fused products[MOST_GROUPS];
} problem;

static bool is_weight(kind kind)
{
    return kind == WEIGHT || kind == WEIGHT_ADDED;
}

static bool has_terms(kind kind)
{
    return kind == TWO_TERMS || kind == THREE_TERMS || kind == TERMS_TO_FLOAT;
}

static bool is_activated(kind kind)
{
    return kind == ACTIVATED || kind == GRADIENT_OF_ACT;
}

static tess_dtype dtype_of_c(kind kind, tess_dtype dtype)
{
    return is_weight(kind) || kind == TERMS_TO_FLOAT ? TESS_F32 : dtype;
}

static int64_t rows_of(const group_case *of, int group)
{
    return of->rows[group % 8];
}

/* The rows of some groups follow those of the group before in memory, others do not. */
static int64_t gap_after(int group)
{
    return group % 3 == 2;
}

static void *element(const problem *p, int of, int64_t i)
{
    return (char *)p->at[of].data + (size_t)i * tess_dtype_size(p->at[of].dtype);
}

/* The product of a group that begins at this row. */
static tess_gemm_fused product_of(const problem *p, int group, int64_t row)
{
    const int64_t n = p->of->n, k = p->of->k, rows = rows_of(p->of, group);
    const bool varied = p->kind == FORWARD_VARIED || p->kind == THREE_TERMS;
    tess_gemm_fused f = {.g = {.m = rows,
                               .n = varied ? n - 5 * (group % 3) - 1 : n,
                               .k = k,
                               .a = element(p, X, row * k),
                               .lda = k,
                               .b = element(p, W, group * n * k),
                               .ldb = k,
                               .c = element(p, C, row * n),
                               .ldc = n,
                               .trans_b = true,
                               .ab_dtype = p->dtype,
                               .c_dtype = dtype_of_c(p->kind, p->dtype)}};
    if (p->kind == FORWARD || p->kind == FORWARD_VARIED)
        f.g.bias = element(p, BIAS, group * n);
    if (p->kind == LEAVES)
        f.g.leaf = TESS_LEAF_UNIT;
    if (p->kind == FORWARD_STRAIGHT || has_terms(p->kind)) {
        f.g.trans_b = false;
        f.g.ldb = n;
    }
    if (has_terms(p->kind)) {
        f.n_terms = p->kind == THREE_TERMS ? 2 : 1;
        for (int i = 0; i < f.n_terms; i++)
            f.terms[i] =
                (tess_gemm_term){element(p, X2, row * K2), K2, element(p, W2, group * n * K2), n, i == 0 ? K2 : K3};
    }
    if (is_activated(p->kind)) {
        f.then = p->kind == ACTIVATED ? TESS_THEN_ACT : TESS_THEN_ACT_BACKWARD;
        f.act =
            (const tess_activation[]){TESS_ACT_SILU, TESS_ACT_SILU, TESS_ACT_GELU_TANH, TESS_ACT_GELU_ERF}[group % 4];
        f.gate = element(p, GATE, row * n);
        f.up = element(p, UP, row * n);
        f.y = element(p, Y, row * n);
    }
    if (is_weight(p->kind)) /* x is (rows, k), and C (k, n) */
        f.g = (tess_gemm){.m = k,
                          .n = n,
                          .k = rows,
                          .a = element(p, X, row * k),
                          .lda = k,
                          .b = element(p, UP, row * n),
                          .ldb = n,
                          .c = element(p, C, group * n * k),
                          .ldc = n,
                          .trans_a = true,
                          .accumulate = p->kind == WEIGHT_ADDED,
                          .ab_dtype = p->dtype,
                          .c_dtype = TESS_F32};
    return f;
}

static void set(array *x, int64_t i, float value)
{
    if (x->dtype == TESS_F32)
        ((float *)x->data)[i] = value;
    else
        ((uint16_t *)x->data)[i] = tess_float_to_bf16(value);
}

/* Some rows have subnormal results of SiLU: its value at -87, about -1e-36, times an `up` or a C below 0.006. */
static void set_subnormal_rows(problem *p, int64_t rows)
{
    const int64_t n = p->of->n, k = p->of->k;
    for (int64_t row = 1; row < rows && k > 0; row += 5) {
        for (int64_t i = 0; i < k; i++)
            set(&p->at[X], row * k + i, i == 0 ? 0x1p-8f : 0);
        for (int64_t j = 0; j < n; j++) {
            set(&p->before[GATE], row * n + j, -87);
            set(&p->before[UP], row * n + j, 0.005f);
        }
    }
}

static void problem_make(problem *p, kind kind, const group_case *of, tess_dtype dtype)
{
    int64_t rows = 0, groups = of->n_groups, n = of->n, k = of->k;
    *p = (problem){.kind = kind, .of = of, .dtype = dtype};
    for (int i = 0; i < groups; i++) {
        p->all_rows += rows_of(of, i);
        rows += rows_of(of, i) + gap_after(i);
    }
    const int64_t counts[ARRAYS] = {rows * k,        rows * K2,  groups * n * k,
                                    groups * n * K2, groups * n, is_weight(kind) ? groups * n * k : rows * n,
                                    rows * n,        rows * n,   rows * n};
    for (int i = 0; i < ARRAYS; i++) {
        const tess_dtype of_array = i == C ? dtype_of_c(kind, dtype) : dtype;
        p->at[i] = array_make(counts[i], of_array);
        p->before[i] = array_make(counts[i], of_array);
    }
    p->work = array_make(
        (int64_t)tess_gemm_fused_work(p->all_rows, n, has_terms(kind),
                                      kind == GRADIENT_OF_ACT ? TESS_THEN_ACT_BACKWARD : TESS_THEN_NOTHING, dtype),
        TESS_U8);
    if (is_activated(kind))
        set_subnormal_rows(p, rows);
    for (int64_t i = 0, row = 0; i < groups; i++) {
        p->products[i] = product_of(p, (int)i, row);
        row += rows_of(of, (int)i) + gap_after((int)i);
    }
}

static void problem_free(problem *p)
{
    for (int i = 0; i < ARRAYS; i++) {
        free(p->at[i].data);
        free(p->before[i].data);
    }
    free(p->work.data);
}

static void set_before(const problem *p)
{
    for (int i = READ; i < ARRAYS; i++)
        if (!(is_weight(p->kind) && i == UP))
            memcpy(p->at[i].data, p->before[i].data, p->at[i].bytes);
}

static void one_after_another(tess_stream *s, const problem *p)
{
    const tess_kernels *k = tess_stream_kernels(s);
    for (int i = 0; i < p->of->n_groups; i++) {
        tess_gemm_fused f = p->products[i];
        f.work = p->work.data;
        EXPECT_OK(f.n_terms == 0 && f.then == TESS_THEN_NOTHING ? k->gemm(s, &f.g) : k->gemm_fused(s, &f));
    }
}

static void together(tess_stream *s, const problem *p)
{
    EXPECT_OK(tess_stream_kernels(s)->gemm_grouped(
        s, &(tess_gemm_grouped){
               .products = p->products, .n_products = p->of->n_groups, .ab_dtype = p->dtype, .work = p->work.data}));
}

/* Expects a few elements of each product to be within the error of a float32 sum of its products, in any order. */
static void expect_accurate(const problem *p, const char *table)
{
    for (int group = 0; group < p->of->n_groups; group++) {
        const tess_gemm *g = &p->products[group].g;
        for (int64_t e = 0; e < g->m * g->n; e += 1 + g->m * g->n / 7) {
            int64_t i = e / g->n, j = e % g->n, in_c = i * g->ldc + j,
                    at = (int64_t)((const char *)g->c - (const char *)p->at[C].data) /
                         (int64_t)tess_dtype_size(g->c_dtype);
            double sum = g->accumulate ? get(p->before[C].data, at + in_c, g->c_dtype) : 0, size = fabs(sum);
            for (int64_t q = 0; q < g->k; q++) {
                double product = (double)get(g->a, g->trans_a ? q * g->lda + i : i * g->lda + q, g->ab_dtype) *
                                 get(g->b, g->trans_b ? j * g->ldb + q : q * g->ldb + j, g->ab_dtype);
                sum += product;
                size += fabs(product);
            }
            sum += g->bias != NULL ? get(g->bias, j, g->ab_dtype) : 0;
            size += fabs(sum);
            double bound = (double)(g->k + 2) * 0x1p-24 * size + (g->c_dtype == TESS_BF16 ? fabs(sum) * 0x1p-8 : 0);
            float got = get(g->c, in_c, g->c_dtype);
            if (!(fabs(got - sum) <= bound))
                test_fail(__FILE__, __LINE__, "%s: %s, group %d: C[%d,%d] is %.9g, expected %.9g", table, p->of->name,
                          group, (int)i, (int)j, got, sum);
        }
    }
}

/* Whether a table is that of a GPU, on the shim. */
static bool is_cuda(int table)
{
    return strncmp(table_names[table], "cuda", 4) == 0;
}

static tess_stream *open_stream(int table, int n_threads)
{
    tess_stream *s;
    EXPECT_OK(is_cuda(table) ? cuda_shim_stream(test_mem(), strcmp(table_names[table], "cuda-tc") == 0, &s)
                             : tess_stream_create(test_mem(), n_threads, table_names[table], &s));
    return s;
}

static void check_table(const problem *p, int table)
{
    array want[ARRAYS];
    tess_stream *alone = open_stream(table, 1);
    set_before(p);
    one_after_another(alone, p);
    for (int i = READ; i < ARRAYS; i++) {
        want[i] = array_make((int64_t)p->at[i].bytes, TESS_U8);
        memcpy(want[i].data, p->at[i].data, p->at[i].bytes);
    }
    for (int n_threads = 1; n_threads <= (is_cuda(table) ? 1 : MOST_THREADS); n_threads++) {
        tess_stream *s = open_stream(table, n_threads);
        set_before(p);
        together(s, p);
        for (int i = READ; i < ARRAYS; i++) {
            char what[160];
            snprintf(what, sizeof(what), "%s, %d threads: %s, kind %d, array %d", table_names[table], n_threads,
                     p->of->name, (int)p->kind, i);
            if (i != C || p->kind != GRADIENT_OF_ACT) /* C is not kept */
                test_expect_same(__FILE__, __LINE__, what, p->at[i].data, want[i].data, p->at[i].bytes, 1);
        }
        tess_stream_destroy(&s);
    }
    if (!has_terms(p->kind) && !is_activated(p->kind))
        expect_accurate(p, table_names[table]);
    for (int i = READ; i < ARRAYS; i++)
        free(want[i].data);
    tess_stream_destroy(&alone);
}

/* ref and the shim of a GPU take their time: the smaller calls show what they do. */
static bool worth_computing(const problem *p, int table)
{
    const tess_kernels *kernels;
    const bool is_slow = table == 0 || is_cuda(table);
    if (is_cuda(table) && cuda_shim_is_slow())
        return false;
    return (is_cuda(table) || tess_kernels_select(table_names[table], &kernels) == TESS_OK) &&
           !(is_slow && p->all_rows * p->of->n * p->of->k > 1000000);
}

static void check_kind(kind kind)
{
    static problem p;
    for (int i = 0; i < N_CASES; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            problem_make(&p, kind, &group_cases[i], bf16 ? TESS_BF16 : TESS_F32);
            for (int table = 0; table < N_TABLES; table++)
                if (worth_computing(&p, table))
                    check_table(&p, table);
            problem_free(&p);
        }
}

static void products_of_rows_have_the_bits_of_each_alone(void)
{
    check_kind(FORWARD);
    check_kind(FORWARD_STRAIGHT);
    check_kind(FORWARD_VARIED);
}

static void activations_follow_each_product(void)
{
    check_kind(ACTIVATED);
    check_kind(GRADIENT_OF_ACT);
}

static void terms_and_leaves_are_those_of_each_product(void)
{
    check_kind(TWO_TERMS);
    check_kind(THREE_TERMS);
    check_kind(TERMS_TO_FLOAT);
    check_kind(LEAVES);
}

static void gradients_of_weights_have_the_bits_of_each_alone(void)
{
    check_kind(WEIGHT);
    check_kind(WEIGHT_ADDED);
}

/* The shim's sanitizers and the interpreter of PTX see both tiles of tensor cores, too: of few rows, and of more. */
static void a_gpu_computes_small_groups_of_all_kinds(void)
{
    static const group_case of[] = {{"small", 40, 72, 5, {0, 1, 20, 3, 17}}, {"small weights", 24, 9, 3, {5, 0, 30}}};
    static problem p;
    for (int i = 0; i < 2 * (WEIGHT_ADDED + 1); i++)
        for (int table = 0; table < N_TABLES; table++)
            if (is_cuda(table)) {
                problem_make(&p, (kind)(i / 2), &of[i % 2], TESS_BF16);
                check_table(&p, table);
                problem_free(&p);
            }
}

/* Returns the number of lines of a file that name a launch of the kernel. */
static int count_launches(const char *path, const char *kernel)
{
    char line[256];
    int n = 0;
    FILE *log = fopen(path, "r");
    EXPECT(log != NULL);
    while (fgets(line, sizeof(line), log) != NULL)
        n += strstr(line, kernel) != NULL;
    fclose(log);
    return n;
}

/* Few rows and more are a launch each, whatever the number of products; one of these alone would be 80. */
static void a_group_is_a_few_launches(void)
{
    static const struct {
        int of, launches;
    } expected[] = {{0, 2}, {2, 2}};
    static problem p;
    const int table = N_TABLES - 1;
    char path[512];
#ifdef TESS_TEST_PTX /* the interpreter keeps no such log */
    return;
#endif
    snprintf(path, sizeof(path), "%s/launches.log", test_folder());
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        problem_make(&p, FORWARD, &group_cases[expected[i].of], TESS_BF16);
        tess_stream *s = open_stream(table, 1);
        remove(path);
        EXPECT_INT(setenv("CUDA_SHIM_LOG", path, 1), 0);
        together(s, &p);
        EXPECT_INT(unsetenv("CUDA_SHIM_LOG"), 0);
        EXPECT_INT(count_launches(path, "tensor_gemm_grouped_kernel"), expected[i].launches);
        EXPECT_INT(count_launches(path, "tensor_gemm_kernel"), 0);
        remove(path);
        tess_stream_destroy(&s);
        problem_free(&p);
    }
}

/* One call may hold products of every kind. */
static void kinds_may_be_mixed(void)
{
    static problem p, q;
    for (int table = 0; table < N_TABLES; table++) {
        problem_make(&p, ACTIVATED, &group_cases[3], TESS_BF16);
        problem_make(&q, FORWARD, &group_cases[3], TESS_BF16);
        for (int i = 0; i < p.of->n_groups; i += 2) {
            void *c = p.products[i].g.c;
            p.products[i] = q.products[i];
            p.products[i].g.c = c;
        }
        if (worth_computing(&p, table))
            check_table(&p, table);
        problem_free(&p);
        problem_free(&q);
    }
}

static void a_product_that_is_wrong_is_named(void)
{
    static problem p;
    tess_stream *s = open_stream(0, 1);
    problem_make(&p, FORWARD, &group_cases[3], TESS_BF16);
    const tess_gemm_grouped x = {.products = p.products, .n_products = p.of->n_groups, .ab_dtype = TESS_BF16};
    p.products[4].g.ab_dtype = TESS_F32;
    EXPECT_FAILS(tess_stream_kernels(s)->gemm_grouped(s, &x), TESS_E_INVALID, "product 4 has operands");
    p.products[4].g.ab_dtype = TESS_BF16;
    p.products[5].g.lda = 1;
    EXPECT_FAILS(tess_stream_kernels(s)->gemm_grouped(s, &x), TESS_E_INVALID, "product 5");
    EXPECT_FAILS(tess_stream_kernels(s)->gemm_grouped(s, &(tess_gemm_grouped){.n_products = -1}), TESS_E_INVALID,
                 "-1 products");
    problem_free(&p);
    tess_stream_destroy(&s);
}

static const test_case cases[] = {
    CASE(products_of_rows_have_the_bits_of_each_alone),
    CASE(activations_follow_each_product),
    CASE(terms_and_leaves_are_those_of_each_product),
    CASE(gradients_of_weights_have_the_bits_of_each_alone),
    CASE(a_gpu_computes_small_groups_of_all_kinds),
    CASE(a_group_is_a_few_launches),
    CASE(kinds_may_be_mixed),
    CASE(a_product_that_is_wrong_is_named),
};

TEST_MAIN(cases)
