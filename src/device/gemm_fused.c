/* Fused products, computed with the other rows of the stream's table. This is their definition, and the implementation
 * for tables that have no faster one. */
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

static tess_status sum_terms(tess_stream *s, const tess_gemm_fused *f)
{
    tess_gemm g = f->g;
    if (g.c_dtype != TESS_F32) {
        g.c = f->work;
        g.c_dtype = TESS_F32;
        g.ldc = g.n;
    }
    TESS_TRY(s->kernels->gemm(s, &g));
    g.accumulate = true;
    for (int i = 0; i < f->n_terms; i++) {
        const tess_gemm_term *term = &f->terms[i];
        g.a = term->a;
        g.lda = term->lda;
        g.b = term->b;
        g.ldb = term->ldb;
        g.k = term->k;
        TESS_TRY(s->kernels->gemm(s, &g));
    }
    if (f->g.c_dtype == TESS_F32)
        return TESS_OK;
    int64_t whole = f->g.ldc == g.n ? g.m : 1; /* rows for each call */
    for (int64_t i = 0; i < g.m; i += whole)
        TESS_TRY(s->kernels->convert(s, &(tess_convert_args){.x = (float *)g.c + i * g.n,
                                                             .from = TESS_F32,
                                                             .y = (uint16_t *)f->g.c + i * f->g.ldc,
                                                             .to = f->g.c_dtype,
                                                             .n = whole * g.n}));
    return TESS_OK;
}

static tess_status activate(tess_stream *s, const tess_gemm_fused *f, const void *gate, const void *up, void *y,
                            int64_t rows)
{
    int64_t n = f->g.n;
    tess_dtype dtype = f->g.c_dtype;
    if (gate == NULL)
        return s->kernels->act_forward(s,
                                       &(tess_act_args){.x = up, .y = y, .n = rows * n, .act = f->act, .dtype = dtype});
    return s->kernels->glu_forward(
        s, &(tess_glu_args){
               .gate = gate, .up = up, .stride = n, .y = y, .T = rows, .F = n, .act = f->act, .dtype = dtype});
}

static void *row_of(const tess_gemm_fused *f, void *matrix, int64_t row)
{
    return matrix != NULL ? (char *)matrix + (size_t)(row * f->g.n) * tess_dtype_size(f->g.c_dtype) : NULL;
}

/* Replaces rows of up and, if there is one, of the gate by their gradients, for the gradient dy of y. */
static tess_status replace_by_gradients(tess_stream *s, const tess_gemm_fused *f, void *gate, void *up, const void *dy,
                                        int64_t rows)
{
    int64_t n = f->g.n;
    tess_dtype dtype = f->g.c_dtype;
    if (gate == NULL)
        return s->kernels->act_backward(
            s, &(tess_act_grad_args){.x = up, .dy = dy, .dx = up, .n = rows * n, .act = f->act, .dtype = dtype});
    return s->kernels->glu_backward(s, &(tess_glu_grad_args){.gate = gate,
                                                             .up = up,
                                                             .stride = n,
                                                             .dy = dy,
                                                             .dgate = gate,
                                                             .dup = up,
                                                             .dstride = n,
                                                             .T = rows,
                                                             .F = n,
                                                             .act = f->act,
                                                             .dtype = dtype});
}

/* Computes a few rows at a time. Their gradient of y, which is the product C, is stored in the work space. */
static tess_status backward(tess_stream *s, const tess_gemm_fused *f)
{
    tess_gemm g = f->g;
    g.c = f->work;
    for (int64_t row = 0; row < f->g.m; row += g.m) {
        g.m = f->g.m - row < TESS_FUSED_ROWS ? f->g.m - row : TESS_FUSED_ROWS;
        g.a = (const char *)f->g.a + (size_t)(row * g.lda) * tess_dtype_size(g.ab_dtype);
        void *gate = row_of(f, f->gate, row), *up = row_of(f, f->up, row), *y = row_of(f, f->y, row);
        TESS_TRY(s->kernels->gemm(s, &g));
        if (y != NULL)
            TESS_TRY(activate(s, f, gate, up, y, g.m));
        TESS_TRY(replace_by_gradients(s, f, gate, up, g.c, g.m));
    }
    return TESS_OK;
}

tess_status tess_gemm_fused_by_rows(tess_stream *s, const tess_gemm_fused *f)
{
    TESS_TRY(tess_gemm_fused_check(f));
    if (f->n_terms > 0 && f->g.leaf > 0)
        return tess_gemm_leaves_by_rows(s, f);
    if (f->n_terms > 0)
        return sum_terms(s, f);
    if (f->then == TESS_THEN_ACT_BACKWARD)
        return backward(s, f);
    TESS_TRY(s->kernels->gemm(s, &f->g));
    if (f->then == TESS_THEN_NOTHING)
        return TESS_OK;
    return activate(s, f, f->gate, f->g.c, f->y, f->g.m);
}

tess_status tess_ref_gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    return tess_gemm_fused_by_rows(s, f);
}
