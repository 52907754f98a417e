/* The definition of products, C = op(A) op(B) + bias [+ C]: each element is a chain of float32 FMAs, k ascending, for
 * both element types. Tables for bf16 hardware sum pairs instead (kernels.h), so tests compare them with this one by
 * error, not by bits. */
#include <math.h>

#include "device/bf16.h"
#include "device/gemm_check.h"
#include "device/stream_impl.h"

static float load(const void *x, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F32 ? ((const float *)x)[i] : tess_bf16_to_float(((const uint16_t *)x)[i]);
}

/* Returns sum + a(i,p) b(p,j) for p in [begin, end) ascending. */
static float add_chain(const tess_gemm *g, int64_t i, int64_t j, int64_t begin, int64_t end, float sum)
{
    int64_t a_step = g->trans_a ? g->lda : 1, b_step = g->trans_b ? 1 : g->ldb;
    int64_t a = g->trans_a ? i : i * g->lda, b = g->trans_b ? j * g->ldb : j;
    for (int64_t p = begin; p < end; p++)
        sum = fmaf(load(g->a, a + p * a_step, g->ab_dtype), load(g->b, b + p * b_step, g->ab_dtype), sum);
    return sum;
}

/* Returns the tree of the leaves in [begin, end). Its left side has the largest power of two of leaves that is less
 * than all of them. */
static float add_leaves(const tess_gemm *g, int64_t i, int64_t j, int64_t begin, int64_t end)
{
    int64_t left = g->leaf;
    if (end - begin <= g->leaf)
        return add_chain(g, i, j, begin, end, 0);
    while (2 * left < end - begin)
        left *= 2;
    return add_leaves(g, i, j, begin, begin + left) + add_leaves(g, i, j, begin + left, end);
}

static void gemm_rows(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_gemm *g = context;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            int64_t c = i * g->ldc + j;
            float sum = g->accumulate ? ((const float *)g->c)[c] : 0;
            sum = g->leaf > 0 ? add_leaves(g, i, j, 0, g->k) : add_chain(g, i, j, 0, g->k, sum);
            if (g->bias != NULL)
                sum += load(g->bias, j, g->ab_dtype);
            if (g->c_dtype == TESS_F32)
                ((float *)g->c)[c] = sum;
            else
                ((uint16_t *)g->c)[c] = tess_float_to_bf16(sum);
        }
    }
}

tess_status tess_ref_gemm(tess_stream *s, const tess_gemm *g)
{
    TESS_TRY(tess_gemm_check(g));
    tess_threads_run(s->threads, gemm_rows, (void *)g, g->m, 1);
    return TESS_OK;
}
