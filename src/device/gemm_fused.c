/* Fused products, computed with the other rows of the stream's table. This is their definition, and the implementation
 * for tables that have no faster one: the first term, then each further term, then what follows. The gradient of y,
 * which is the product C, is stored in y's memory. Without y it is stored in the work space, for a few rows at a time.
 */
#include "device/gemm_check.h"

#include <inttypes.h>

#include "device/stream_impl.h"

size_t tess_gemm_fused_work(int64_t m, int64_t n, bool terms, tess_then then, tess_dtype c_dtype)
{
    int64_t rows = m < TESS_FUSED_ROWS ? m : TESS_FUSED_ROWS;
    if (then == TESS_THEN_ACT_BACKWARD)
        return (size_t)(rows * n) * tess_dtype_size(c_dtype);
    return terms && c_dtype != TESS_F32 ? (size_t)(m * n) * sizeof(float) : 0;
}

tess_status tess_gemm_fused_check(const tess_gemm_fused *f)
{
    TESS_TRY(tess_gemm_check(&f->g));
    TESS_CHECK(f->n_terms >= 0 && f->n_terms <= TESS_GEMM_TERMS && !f->g.accumulate, TESS_E_INVALID,
               "gemm: %d further terms; at most %d, and no accumulation", f->n_terms, TESS_GEMM_TERMS);
    TESS_CHECK(f->n_terms == 0 || (f->g.bias == NULL && f->then == TESS_THEN_NOTHING), TESS_E_INVALID,
               "gemm: further terms go with neither a bias nor an activation");
    for (int i = 0; i < f->n_terms; i++)
        TESS_CHECK(f->g.leaf == 0 || f->terms[i].k == f->g.k, TESS_E_INVALID,
                   "gemm: terms of %" PRId64 " and %" PRId64 " k; with leaves they are alike", f->g.k, f->terms[i].k);
    if (f->then == TESS_THEN_NOTHING)
        return TESS_OK;
    TESS_CHECK(!f->g.trans_a && f->g.ldc == f->g.n && f->g.c_dtype == f->g.ab_dtype && f->g.leaf == 0, TESS_E_INVALID,
               "gemm: an activation needs A as stored, contiguous rows of C, one dtype and no leaves");
    bool needs = f->then == TESS_THEN_ACT ? f->y != NULL : f->up != NULL;
    TESS_CHECK(needs, TESS_E_INVALID, "gemm: an activation has nowhere to write to");
    return TESS_OK;
}

/* Adds the further terms to the sums. */
static tess_status add_terms(tess_stream *s, const tess_gemm_fused *f, const tess_gemm *sums)
{
    for (const tess_gemm_term *x = f->terms; x < f->terms + f->n_terms; x++) {
        tess_gemm g = *sums;
        g.accumulate = true;
        g.a = x->a;
        g.lda = x->lda;
        g.b = x->b;
        g.ldb = x->ldb;
        g.k = x->k;
        TESS_TRY(s->kernels->gemm(s, &g));
    }
    return TESS_OK;
}

/* Converts the sums of terms to C. */
static tess_status round_sums(tess_stream *s, const tess_gemm *sums, const tess_gemm *g)
{
    int64_t whole = g->ldc == g->n ? g->m : 1; /* rows for each call */
    for (int64_t i = 0; i < g->m; i += whole)
        TESS_TRY(s->kernels->convert(s, &(tess_convert_args){.x = (float *)sums->c + i * g->n,
                                                             .from = TESS_F32,
                                                             .y = (uint16_t *)g->c + i * g->ldc,
                                                             .to = g->c_dtype,
                                                             .n = whole * g->n}));
    return TESS_OK;
}

/* Computes y from C. */
static tess_status activate(tess_stream *s, const tess_gemm_fused *f)
{
    const tess_gemm *g = &f->g;
    if (f->gate == NULL)
        return s->kernels->act_forward(
            s, &(tess_act_args){.x = g->c, .y = f->y, .n = g->m * g->n, .act = f->act, .dtype = g->c_dtype});
    return s->kernels->glu_forward(s, &(tess_glu_args){.gate = f->gate,
                                                       .up = g->c,
                                                       .stride = g->n,
                                                       .y = f->y,
                                                       .T = g->m,
                                                       .F = g->n,
                                                       .act = f->act,
                                                       .dtype = g->c_dtype});
}

static void *row_of(const tess_gemm_fused *f, void *matrix, int64_t row)
{
    return matrix != NULL ? (char *)matrix + (size_t)(row * f->g.n) * tess_dtype_size(f->g.c_dtype) : NULL;
}

/* Replaces up and, if there is one, the gate by their gradients, for the gradient dy of y. Writes y, if it is wanted,
 * which may be dy's memory. */
static tess_status replace_by_gradients(tess_stream *s, const tess_gemm_fused *f, const void *dy)
{
    int64_t n = f->g.n, rows = f->g.m;
    tess_dtype dtype = f->g.c_dtype;
    if (f->gate == NULL)
        return s->kernels->act_backward(
            s, &(tess_act_grad_args){
                   .x = f->up, .dy = dy, .dx = f->up, .y = f->y, .n = rows * n, .act = f->act, .dtype = dtype});
    return s->kernels->glu_backward(s, &(tess_glu_grad_args){.gate = f->gate,
                                                             .up = f->up,
                                                             .stride = n,
                                                             .dy = dy,
                                                             .dgate = f->gate,
                                                             .dup = f->up,
                                                             .dstride = n,
                                                             .y = f->y,
                                                             .T = rows,
                                                             .F = n,
                                                             .act = f->act,
                                                             .dtype = dtype});
}

tess_status tess_gemm_follow(tess_stream *s, const tess_gemm_fused *f)
{
    switch (f->then) {
    case TESS_THEN_ACT:
        return activate(s, f);
    case TESS_THEN_ACT_BACKWARD:
        return replace_by_gradients(s, f, f->g.c);
    default:
        return TESS_OK;
    }
}

/* Computes all rows of f. */
static tess_status compute(tess_stream *s, const tess_gemm_fused *f)
{
    tess_gemm_fused x = *f;
    const bool sums = f->n_terms > 0 && f->g.c_dtype != TESS_F32;
    if (sums || f->then == TESS_THEN_ACT_BACKWARD) {
        x.g.c_dtype = sums ? TESS_F32 : f->g.c_dtype;
        x.g.ldc = f->g.n;
        x.g.c = f->then == TESS_THEN_ACT_BACKWARD && f->y != NULL ? f->y : f->work;
    }
    TESS_TRY(s->kernels->gemm(s, &x.g));
    TESS_TRY(add_terms(s, f, &x.g));
    return sums ? round_sums(s, &x.g, &f->g) : tess_gemm_follow(s, &x);
}

tess_status tess_gemm_fused_by_rows(tess_stream *s, const tess_gemm_fused *f)
{
    TESS_TRY(tess_gemm_fused_check(f));
    if (f->n_terms > 0 && f->g.leaf > 0)
        return tess_gemm_leaves_by_rows(s, f);
    if (f->then != TESS_THEN_ACT_BACKWARD || f->y != NULL)
        return compute(s, f);
    for (int64_t row = 0; row < f->g.m; row += TESS_FUSED_ROWS) {
        tess_gemm_fused part = *f;
        part.g.m = f->g.m - row < TESS_FUSED_ROWS ? f->g.m - row : TESS_FUSED_ROWS;
        part.g.a = (const char *)f->g.a + (size_t)(row * f->g.lda) * tess_dtype_size(f->g.ab_dtype);
        part.gate = row_of(f, f->gate, row);
        part.up = row_of(f, f->up, row);
        TESS_TRY(compute(s, &part));
    }
    return TESS_OK;
}

tess_status tess_ref_gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    return tess_gemm_fused_by_rows(s, f);
}
