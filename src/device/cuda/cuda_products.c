/* Products by cublasLt. A row of C must not depend on the number of rows (device/kernels.h), but cublasLt chooses an
 * algorithm by that number. So each shape of weights has one plan, made when it is first used. Its first member is the
 * first algorithm proposed for many rows whose rows have the same bits among 1, 7, 64, 129 and PROBE_ROWS rows. Another
 * member is the first algorithm proposed for a few rows that gives the same bits. If there is none, the plug-in's
 * kernel computes the product. Proposals depend only on the GPU and the library's version, so all ranks and all runs
 * have the same plans. Algorithms that split k or need work space are not used.
 *
 * For the gradient of a weight the sum is over tokens and the number of rows is fixed. Its plan is the first proposal
 * that the library does not refuse. It may split k, because a weight has few tiles: the parts are stored in work space
 * in float32, and a second kernel adds them in a fixed order. */
#include "device/cuda/cuda_products.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/mem/scoped.h"
#include "device/cuda/cublas_lt.h"

enum { PROPOSALS = 8, MEMBERS = 6, PROBE_ROWS = 2048, PROBE_COLUMNS = 1024, FEW_ROWS = 64, ALIGNMENT = 16, UNIT = 8 };
enum {
    WORKSPACE = 64 << 20,    /* most bytes of work space of a weight's gradient */
    SMALL_WEIGHTS = 1 << 22, /* most weights of a product of a group that the plug-in computes */
};

/* A way to compute a product. */
typedef struct product_way {
    cublas_algorithm algorithm;
    size_t workspace_bytes;
} product_way;

/* The key of a plan. m and n are the size of C; m is 0 if the plan serves any number of rows. */
typedef struct product_key {
    int64_t m, n, k;
    bool trans_a, trans_b, accumulate, bias, c_is_float;
} product_key;

/* The member of a plan that computes: the one proposed for the number of rows, or later the fastest. */
typedef struct product_choice {
    int member;
    bool is_timed;
    double seconds; /* time of one product by the member; 0: not timed */
} product_choice;

typedef struct product_plan {
    struct product_plan *next;
    product_key key;
    int n_members; /* 0: the plug-in's kernel computes the product */
    product_way members[MEMBERS];
    bool is_refused[MEMBERS]; /* whether the library has refused to compute a product with a member */
    bool has_computed;        /* whether results with the members' bits exist */
    product_choice many, few;
} product_plan;

struct cuda_products {
    cuda_device *device;
    const cublas_lt *lt;
    cublas_handle handle;
    pthread_mutex_t lock;
    product_plan *plans;
    bool times; /* whether members are timed: TESSERA_CUBLAS_TIMING is not off */
};

/* A product as the library describes it. The library's matrices are column-major, so it computes C^T = B^T A^T. */
typedef struct product_call {
    cublas_desc desc;
    cublas_matrix a, b, c; /* our A, B and C */
} product_call;

static tess_status check_lt(const cuda_products *p, int error, const tess_gemm *g)
{
    TESS_CHECK(error == CUBLAS_SUCCESS, TESS_E_INTERNAL,
               "%s: cuBLAS (%s) gives error %d for a product of m %" PRId64 ", n %" PRId64 ", k %" PRId64
               "; TESSERA_CUBLAS=own does without it",
               p->device->base.properties.name, p->lt->path, error, g->m, g->n, g->k);
    return TESS_OK;
}

/* ---- Calls ---- */
static void unmake_call(const cuda_products *p, product_call *call)
{
    if (call->desc != NULL)
        p->lt->desc_destroy(call->desc);
    cublas_matrix matrices[] = {call->a, call->b, call->c};
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++)
        if (matrices[i] != NULL)
            p->lt->matrix_destroy(matrices[i]);
    *call = (product_call){.desc = NULL};
}

static int describe_call(const cublas_lt *lt, const tess_gemm *g, product_call *call)
{
    const int32_t trans_a = g->trans_b, trans_b = g->trans_a, epilogue = CUBLAS_EPILOGUE_BIAS; /* trans flags for C^T */
    const int c_type = g->c_dtype == TESS_F32 ? CUBLAS_TYPE_F32 : CUBLAS_TYPE_BF16;
    const uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
    int error = lt->desc_create(&call->desc, CUBLAS_COMPUTE_F32, CUBLAS_TYPE_F32);
    if (error == 0)
        error = lt->desc_set(call->desc, CUBLAS_DESC_TRANS_A, &trans_a, sizeof(trans_a));
    if (error == 0)
        error = lt->desc_set(call->desc, CUBLAS_DESC_TRANS_B, &trans_b, sizeof(trans_b));
    if (error == 0 && g->bias != NULL)
        error = lt->desc_set(call->desc, CUBLAS_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    if (error == 0 && g->bias != NULL)
        error = lt->desc_set(call->desc, CUBLAS_DESC_BIAS, &g->bias, sizeof(g->bias));
    if (error == 0)
        error = lt->matrix_create(&call->a, CUBLAS_TYPE_BF16, g->trans_a ? m : k, g->trans_a ? k : m, g->lda);
    if (error == 0)
        error = lt->matrix_create(&call->b, CUBLAS_TYPE_BF16, g->trans_b ? k : n, g->trans_b ? n : k, g->ldb);
    return error != 0 ? error : lt->matrix_create(&call->c, c_type, n, m, g->ldc);
}

static tess_status make_call(const cuda_products *p, const tess_gemm *g, product_call *call)
{
    *call = (product_call){.desc = NULL};
    tess_status status = check_lt(p, describe_call(p->lt, g, call), g);
    if (status != TESS_OK)
        unmake_call(p, call);
    return status;
}

/* Returns whether an error says that the library cannot compute this product with this algorithm. Any other error
 * concerns the GPU, the driver or memory and may differ between ranks, so it must not change the choice, on which the
 * bits depend. */
static bool is_refusal(int error)
{
    return error == CUBLAS_INVALID_VALUE || error == CUBLAS_ARCH_MISMATCH || error == CUBLAS_NOT_SUPPORTED;
}

/* Computes a product. *fits is false if the library refuses; C is then unchanged. */
static tess_status multiply(cuda_products *p, tess_stream *s, const tess_gemm *g, const product_way *way, bool *fits)
{
    const float one = 1, start = g->accumulate ? 1 : 0;
    void *workspace = NULL;
    product_call call;
    TESS_TRY(tess_cuda_enter(p->device));
    if (way->workspace_bytes > 0)
        TESS_TRY(tess_stream_scratch(s, way->workspace_bytes, &workspace));
    TESS_TRY(make_call(p, g, &call));
    int error = p->lt->multiply(p->handle, call.desc, &one, g->b, call.b, g->a, call.a, &start, g->c, call.c, g->c,
                                call.c, &way->algorithm, workspace, way->workspace_bytes, ((cuda_stream *)s)->queue);
    unmake_call(p, &call);
    p->device->newest = "cublasLtMatmul";
    tess_cuda_note(s, "cublasLtMatmul", 0);
    *fits = error == CUBLAS_SUCCESS;
    return check_lt(p, is_refusal(error) ? CUBLAS_SUCCESS : error, g);
}

/* Returns the algorithms that the library proposes for a product of g's size, the fastest first by its own estimate. */
static tess_status propose(cuda_products *p, const tess_gemm *g, product_way ways[PROPOSALS], int *n)
{
    const size_t workspace = g->trans_a ? WORKSPACE : 0;
    const uint32_t reductions = g->trans_a ? CUBLAS_REDUCTION_IN_WORKSPACE : 0, alignment = ALIGNMENT;
    cublas_proposal proposals[PROPOSALS];
    cublas_preference preference = NULL;
    product_call call;
    int n_proposals = 0;
    *n = 0;
    TESS_TRY(tess_cuda_enter(p->device));
    TESS_TRY(make_call(p, g, &call));
    int error = p->lt->preference_create(&preference);
    if (error == 0)
        error = p->lt->preference_set(preference, CUBLAS_PREFERENCE_WORKSPACE, &workspace, sizeof(workspace));
    if (error == 0)
        error = p->lt->preference_set(preference, CUBLAS_PREFERENCE_REDUCTIONS, &reductions, sizeof(reductions));
    for (int i = 0; i < 4 && error == 0; i++)
        error = p->lt->preference_set(preference, CUBLAS_PREFERENCE_ALIGNMENT + i, &alignment, sizeof(alignment));
    if (error == 0)
        error = p->lt->propose(p->handle, call.desc, call.b, call.a, call.c, call.c, preference, PROPOSALS, proposals,
                               &n_proposals);
    if (preference != NULL)
        p->lt->preference_destroy(preference);
    unmake_call(p, &call);
    for (int i = 0; i < n_proposals && error == 0; i++)
        if (proposals[i].state == CUBLAS_SUCCESS && proposals[i].workspace_bytes <= workspace)
            ways[(*n)++] = (product_way){proposals[i].algorithm, proposals[i].workspace_bytes};
    return check_lt(p, is_refusal(error) ? CUBLAS_SUCCESS : error, g);
}

/* ---- Proof that rows do not depend on their number ---- */
typedef struct product_probe {
    tess_stream *stream;
    tess_gemm g; /* a product of PROBE_ROWS rows, with operands that belong to the probe */
    size_t row_bytes;
    char *all, *some; /* (PROBE_ROWS, row_bytes) memory of the host, each */
} product_probe;

static int64_t whole_units(int64_t n)
{
    return (n + UNIT - 1) / UNIT * UNIT;
}

/* Returns the product of a key, with contiguous rows. */
static tess_gemm product_of(const product_key *key, int64_t m, int64_t n)
{
    return (tess_gemm){.m = m,
                       .n = n,
                       .k = key->k,
                       .lda = whole_units(key->trans_a ? m : key->k),
                       .ldb = whole_units(key->trans_b ? key->k : n),
                       .ldc = whole_units(n),
                       .trans_a = key->trans_a,
                       .trans_b = key->trans_b,
                       .accumulate = key->accumulate,
                       .ab_dtype = TESS_BF16,
                       .c_dtype = key->c_is_float ? TESS_F32 : TESS_BF16};
}

/* Returns element k of row or column `other` of an operand. The second half of k repeats the first half, in B with the
 * opposite sign. The exact sum is 0, so the result consists of rounding errors, which show the order of additions. The
 * elements have 16 exponents, so that sums are rounded. */
static uint16_t draw(const product_key *key, int64_t other, int64_t k, bool negates)
{
    const int64_t half = key->k / 2;
    if (k >= 2 * half)
        return 0;
    uint32_t random = (uint32_t)(other * key->k + k % half) * 2654435761u;
    uint32_t sign = negates && k >= half ? 0x8000u : 0, exponent = 112 + (random >> 8 & 15);
    return (uint16_t)((random >> 16 & 0x807fu) ^ (sign | exponent << 7));
}

/* Creates an operand, (rows, ld). */
static tess_status create_operand(tess_stream *s, const product_key *key, int64_t rows, int64_t ld, bool is_b,
                                  bool along_k, const void **out)
{
    size_t bytes = (size_t)(rows * ld) * sizeof(uint16_t);
    TESS_AUTO(tess_mem_drop) uint16_t *numbers = NULL;
    void *memory;
    TESS_TRY(tess_device_alloc(tess_stream_device(s), TESS_POOL_MISC, bytes, "a product's proof", &memory));
    *out = memory;
    TESS_TRY(tess_mem_alloc(tess_stream_mem(s), TESS_POOL_MISC, bytes, "a product's proof", (void **)&numbers));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < ld; j++)
            numbers[i * ld + j] = draw(key, along_k ? i : j, along_k ? j : i, is_b);
    TESS_TRY(tess_stream_copy(s, memory, numbers, bytes));
    return tess_stream_synchronize(s);
}

static void destroy_probe(product_probe *probe)
{
    const void *const operands[] = {probe->g.a, probe->g.b, probe->g.c, probe->g.bias};
    for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++)
        tess_device_free(tess_stream_device(probe->stream), (void *)operands[i]);
    tess_mem_free(tess_stream_mem(probe->stream), probe->all);
    tess_mem_free(tess_stream_mem(probe->stream), probe->some);
}

static tess_status create_probe(tess_stream *s, const product_key *key, product_probe *probe)
{
    const int64_t n = key->n < PROBE_COLUMNS ? key->n : PROBE_COLUMNS;
    *probe = (product_probe){.stream = s, .g = product_of(key, PROBE_ROWS, n)};
    tess_gemm *g = &probe->g;
    probe->row_bytes = (size_t)g->ldc * tess_dtype_size(g->c_dtype);
    TESS_TRY(create_operand(s, key, PROBE_ROWS, g->lda, false, true, &g->a));
    TESS_TRY(create_operand(s, key, g->trans_b ? n : g->k, g->ldb, true, g->trans_b, &g->b));
    if (key->bias) { /* the bias is zeros */
        void *bias;
        TESS_TRY(tess_device_alloc(tess_stream_device(s), TESS_POOL_MISC, (size_t)n * sizeof(uint16_t),
                                   "a product's proof", &bias));
        g->bias = bias;
    }
    TESS_TRY(tess_device_alloc(tess_stream_device(s), TESS_POOL_MISC, PROBE_ROWS * probe->row_bytes,
                               "a product's proof", &g->c));
    TESS_TRY(tess_mem_alloc(tess_stream_mem(s), TESS_POOL_MISC, PROBE_ROWS * probe->row_bytes, "a product's proof",
                            (void **)&probe->all));
    return tess_mem_alloc(tess_stream_mem(s), TESS_POOL_MISC, PROBE_ROWS * probe->row_bytes, "a product's proof",
                          (void **)&probe->some);
}

/* Computes rows first .. first + m alone, and copies them to `rows`. C is filled with other numbers before. */
static tess_status compute_rows(cuda_products *p, const product_probe *probe, const product_way *way, int64_t first,
                                int64_t m, char *rows, bool *fits)
{
    tess_gemm g = probe->g;
    size_t bytes = (size_t)m * probe->row_bytes;
    g.m = m;
    g.a = (const uint16_t *)g.a + first * g.lda;
    TESS_TRY(tess_stream_fill(probe->stream, g.c, 0x3c, bytes));
    TESS_TRY(multiply(p, probe->stream, &g, way, fits));
    return *fits ? tess_fetch(probe->stream, rows, g.c, bytes) : TESS_OK;
}

/* Sets *good if a few rows, computed alone, equal the same rows of `probe->all`. With `sets`, it first computes
 * `probe->all`. */
static tess_status proves(cuda_products *p, const product_probe *probe, const product_way *way, bool sets, bool *good)
{
    static const struct {
        int64_t first, m;
    } parts[] = {{0, PROBE_ROWS}, {0, 1}, {129, 1}, {0, 7}, {0, 64}, {129, 64}, {0, 129}};
    if (sets)
        TESS_TRY(compute_rows(p, probe, way, 0, PROBE_ROWS, probe->all, good));
    else
        *good = true;
    for (size_t i = sets ? 1 : 0; i < sizeof(parts) / sizeof(parts[0]) && *good; i++) {
        TESS_TRY(compute_rows(p, probe, way, parts[i].first, parts[i].m, probe->some, good));
        *good = *good && memcmp(probe->some, probe->all + (size_t)parts[i].first * probe->row_bytes,
                                (size_t)parts[i].m * probe->row_bytes) == 0;
    }
    return TESS_OK;
}

/* Adds the algorithms proposed for m rows that pass the proof to the members. The first member of a plan determines its
 * bits. */
static tess_status add_members(cuda_products *p, const product_probe *probe, product_plan *plan, int64_t m)
{
    product_way ways[PROPOSALS];
    tess_gemm g = product_of(&plan->key, m, plan->key.n);
    int n;
    g.bias = plan->key.bias ? probe->g.bias : NULL;
    TESS_TRY(propose(p, &g, ways, &n));
    for (int i = 0; i < n && plan->n_members < MEMBERS; i++) {
        bool good;
        TESS_TRY(proves(p, probe, &ways[i], plan->n_members == 0, &good));
        if (good)
            plan->members[plan->n_members++] = ways[i];
    }
    return TESS_OK;
}

static tess_status prove_plan(cuda_products *p, const product_probe *probe, product_plan *plan)
{
    TESS_TRY(add_members(p, probe, plan, PROBE_ROWS));
    int n_many = plan->n_members;
    if (n_many == 0)
        return TESS_OK;
    TESS_TRY(add_members(p, probe, plan, FEW_ROWS));
    plan->few.member = n_many < plan->n_members ? n_many : 0;
    return TESS_OK;
}

/* ---- Plans ---- */
static tess_status make_plan(cuda_products *p, tess_stream *s, product_plan *plan)
{
    product_way ways[PROPOSALS];
    int n;
    if (plan->key.m == 0) {
        product_probe probe;
        tess_status status = create_probe(s, &plan->key, &probe);
        if (status == TESS_OK)
            status = prove_plan(p, &probe, plan);
        destroy_probe(&probe);
        return status;
    }
    tess_gemm g = product_of(&plan->key, plan->key.m, plan->key.n);
    TESS_TRY(propose(p, &g, ways, &n));
    plan->n_members = n < MEMBERS ? n : MEMBERS;
    memcpy(plan->members, ways, (size_t)plan->n_members * sizeof(ways[0]));
    return TESS_OK;
}

static bool is_plan_of(const product_plan *plan, const product_key *key)
{
    const product_key *k = &plan->key;
    return k->m == key->m && k->n == key->n && k->k == key->k && k->trans_a == key->trans_a &&
           k->trans_b == key->trans_b && k->accumulate == key->accumulate && k->bias == key->bias &&
           k->c_is_float == key->c_is_float;
}

static tess_status find_plan(cuda_products *p, tess_stream *s, const product_key *key, product_plan **out)
{
    product_plan *plan = p->plans;
    while (plan != NULL && !is_plan_of(plan, key))
        plan = plan->next;
    *out = plan;
    if (plan != NULL)
        return TESS_OK;
    TESS_TRY(TESS_NEW(p->device->base.mem, 1, "plan of a product", &plan));
    plan->key = *key;
    tess_status status = make_plan(p, s, plan);
    if (status != TESS_OK) {
        tess_mem_free(p->device->base.mem, plan);
        return status;
    }
    plan->next = p->plans;
    *out = p->plans = plan;
    return TESS_OK;
}

/* ---- The clock ---- */
/* Measures the seconds of a product, which is computed more than once. */
static tess_status time_member(cuda_products *p, tess_stream *s, const tess_gemm *g, const product_way *way,
                               tess_event *const between[2], bool *fits, double *seconds)
{
    TESS_TRY(multiply(p, s, g, way, fits));
    TESS_TRY(tess_event_record(between[0], s));
    for (int i = 0; i < 2 && *fits; i++)
        TESS_TRY(multiply(p, s, g, way, fits));
    TESS_TRY(tess_event_record(between[1], s));
    TESS_TRY(tess_event_synchronize(between[1]));
    return tess_event_elapsed(between[0], between[1], seconds);
}

/* Computes the product with all members, and chooses the fastest one. */
static tess_status choose_by_time(cuda_products *p, tess_stream *s, const tess_gemm *g, product_plan *plan,
                                  product_choice *choice)
{
    tess_event *between[2] = {NULL, NULL};
    double best_s = 0;
    bool found = false;
    tess_status status = tess_event_create_timed(&p->device->base, &between[0]);
    if (status == TESS_OK)
        status = tess_event_create_timed(&p->device->base, &between[1]);
    for (int i = 0; i < plan->n_members && status == TESS_OK; i++) {
        bool fits;
        double seconds;
        status = time_member(p, s, g, &plan->members[i], between, &fits, &seconds);
        if (status == TESS_OK && fits && (!found || seconds / 2 < best_s)) {
            choice->member = i;
            choice->seconds = best_s = seconds / 2;
            found = true;
        }
    }
    tess_event_destroy(&between[0]);
    tess_event_destroy(&between[1]);
    choice->is_timed = status == TESS_OK && found;
    return status;
}

/* ---- Rows of the table ---- */
static bool is_aligned(const void *memory, int64_t ld, tess_dtype dtype)
{
    return (uintptr_t)memory % ALIGNMENT == 0 && (size_t)ld * tess_dtype_size(dtype) % ALIGNMENT == 0;
}

/* Returns true if cublasLt computes the product. A product has the same strides in training and in generation, so they
 * may decide. */
static bool takes(const tess_gemm *g)
{
    return g->ab_dtype == TESS_BF16 && g->leaf == 0 && g->m > 0 && g->n > 0 && g->k > 0 &&
           (g->bias == NULL || (g->c_dtype == TESS_BF16 && is_aligned(g->bias, 0, TESS_BF16))) &&
           is_aligned(g->a, g->lda, TESS_BF16) && is_aligned(g->b, g->ldb, TESS_BF16) &&
           is_aligned(g->c, g->ldc, g->c_dtype);
}

/* Returns the chosen member, or the first member that is not refused if the chosen one is. Returns -1 if there is
 * none. */
static int usable_member(const product_plan *plan, const product_choice *choice)
{
    if (plan->n_members > 0 && !plan->is_refused[choice->member])
        return choice->member;
    for (int i = 0; i < plan->n_members; i++)
        if (!plan->is_refused[i])
            return i;
    return -1;
}

/* Computes the product with the library. *is_computed is false if the library refuses the product and no result with
 * the members' bits exists yet. */
static tess_status compute_by_plan(cuda_products *p, tess_stream *s, const tess_gemm *g, product_plan *plan,
                                   bool *is_computed)
{
    product_choice *choice = g->m <= FEW_ROWS ? &plan->few : &plan->many;
    const bool any_number = plan->key.m == 0; /* all members then have the same bits, so the fastest may be chosen */
    *is_computed = false;
    if (any_number && p->times && !choice->is_timed && plan->n_members > 1 && !g->accumulate) {
        TESS_TRY(choose_by_time(p, s, g, plan, choice));
        *is_computed = choice->is_timed;
    }
    for (int i; !*is_computed && (i = usable_member(plan, choice)) >= 0; plan->is_refused[i] = !*is_computed)
        TESS_TRY(multiply(p, s, g, &plan->members[i], is_computed));
    TESS_CHECK(*is_computed || !plan->has_computed || !any_number, TESS_E_UNSUPPORTED,
               "%s: cuBLAS (%s) has computed products of n %" PRId64 ", k %" PRId64 ", and refuses one of m %" PRId64
               "; the plug-in's kernel would give other bits than before: start again with TESSERA_CUBLAS=own",
               p->device->base.properties.name, p->lt->path, g->n, g->k, g->m);
    plan->has_computed |= *is_computed;
    return TESS_OK;
}

static tess_status gemm(tess_stream *s, const tess_gemm *g)
{
    cuda_products *p = ((cuda_device *)s->device)->products;
    bool is_computed = false;
    TESS_TRY(tess_gemm_check(g));
    if (takes(g)) {
        const product_key key = {
            g->trans_a ? g->m : 0, g->n, g->k, g->trans_a, g->trans_b, g->accumulate, g->bias != NULL,
            g->c_dtype == TESS_F32};
        product_plan *plan;
        pthread_mutex_lock(&p->lock);
        tess_status status = find_plan(p, s, &key, &plan);
        if (status == TESS_OK)
            status = compute_by_plan(p, s, g, plan, &is_computed);
        pthread_mutex_unlock(&p->lock);
        TESS_TRY(status);
    }
    return is_computed ? TESS_OK : ((cuda_stream *)s)->own.gemm(s, g);
}

/* The plug-in computes products with leaves, here and in `gemm`. */
static tess_status gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    return f->g.ab_dtype == TESS_BF16 && f->g.leaf == 0 ? tess_gemm_fused_by_rows(s, f)
                                                        : ((cuda_stream *)s)->own.gemm_fused(s, f);
}

/* Whether the plug-in computes a product of a group, all of them in one launch. A call of cuBLAS each leaves most of
 * the GPU idle while rows are few, and computes faster once they are many. The choice must not depend on their number,
 * nor on that of the products, because the bits do: it depends on the size of the weights. */
static bool is_of_small_weights(const tess_gemm *g)
{
    return (g->trans_a ? g->m : g->k) * g->n <= SMALL_WEIGHTS;
}

static tess_status gemm_grouped(tess_stream *s, const tess_gemm_grouped *x)
{
    const tess_gemm_fused *const products = x->products;
    tess_gemm_grouped part = *x;
    TESS_TRY(tess_gemm_grouped_check(x)); /* before any of them is computed */
    for (int64_t begin = 0, end; begin < x->n_products; begin = end) {
        const bool small = is_of_small_weights(&products[begin].g);
        for (end = begin + 1; end < x->n_products && is_of_small_weights(&products[end].g) == small;)
            end++;
        part.products = products + begin;
        part.n_products = end - begin;
        TESS_TRY(small ? ((cuda_stream *)s)->own.gemm_grouped(s, &part) : tess_gemm_grouped_by_rows(s, &part));
    }
    return TESS_OK;
}

void tess_cuda_products_fill(cuda_stream *stream)
{
    stream->table.gemm = gemm;
    stream->table.gemm_fused = gemm_fused;
    stream->table.gemm_grouped = gemm_grouped;
}

/* ---- Creation ---- */
tess_status tess_cuda_products_create(cuda_device *device, cuda_products **out)
{
    const cublas_lt *lt;
    cuda_products *p;
    *out = NULL;
    TESS_TRY(tess_cublas_lt_open(&lt));
    if (lt == NULL)
        return TESS_OK;
    TESS_TRY(tess_cuda_enter(device));
    TESS_TRY(TESS_NEW(device->base.mem, 1, "products by cuBLAS", &p));
    p->device = device;
    p->lt = lt;
    const char *timing = tess_variable_value(TESS_VAR_CUBLAS_TIMING);
    p->times = timing == NULL || strcmp(timing, "off") != 0;
    const size_t named = strlen(device->kernels);
    snprintf(device->kernels + named, sizeof(device->kernels) - named, " lt %zu", lt->version());
    int error = lt->create(&p->handle);
    if (error != CUBLAS_SUCCESS) {
        tess_mem_free(device->base.mem, p);
        return TESS_FAIL(TESS_E_UNSUPPORTED,
                         "%s: cuBLAS (%s) does not start (error %d): install one for this GPU and its driver, or do "
                         "without it (TESSERA_CUBLAS=own)",
                         device->base.properties.name, lt->path, error);
    }
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return TESS_OK;
}

static void describe_choice(const product_plan *plan, const product_choice *choice, const char *rows, char *text,
                            size_t bytes)
{
    const int member = usable_member(plan, choice);
    if (member >= 0)
        snprintf(text, bytes, "; %s rows: %d, algorithm %016" PRIx64 "%016" PRIx64 ", %zu bytes of work space, %.4f ms",
                 rows, member, plan->members[member].algorithm.data[0], plan->members[member].algorithm.data[1],
                 plan->members[member].workspace_bytes, choice->seconds * 1e3);
}

int tess_cuda_products_log(const tess_device *device, FILE *to)
{
    cuda_products *p = ((const cuda_device *)device)->products;
    int n_unproven = 0;
    if (p == NULL)
        return 0;
    pthread_mutex_lock(&p->lock);
    for (const product_plan *plan = p->plans; plan != NULL; plan = plan->next) {
        char many[192] = "", few[192] = "";
        const product_key *k = &plan->key;
        describe_choice(plan, &plan->many, k->m == 0 ? "many" : "all", many, sizeof(many));
        if (k->m == 0)
            describe_choice(plan, &plan->few, "few", few, sizeof(few));
        fprintf(to, "plan: m %" PRId64 ", n %" PRId64 ", k %" PRId64 "%s%s%s%s%s: %d members%s%s\n", k->m, k->n, k->k,
                k->trans_a ? ", A^T" : "", k->trans_b ? ", B^T" : "", k->accumulate ? ", adds" : "",
                k->bias ? ", bias" : "", k->c_is_float ? ", float32" : "", plan->n_members, many, few);
        n_unproven += usable_member(plan, &plan->many) < 0;
    }
    pthread_mutex_unlock(&p->lock);
    return n_unproven;
}

void tess_cuda_products_destroy(cuda_products **handle)
{
    cuda_products *p = *handle;
    if (p == NULL)
        return;
    for (product_plan *plan = p->plans; plan != NULL; plan = p->plans) {
        p->plans = plan->next;
        tess_mem_free(p->device->base.mem, plan);
    }
    p->lt->destroy(p->handle);
    pthread_mutex_destroy(&p->lock);
    tess_mem_drop(handle);
}
