/* RMSNorm and LayerNorm, backward: one pass over the rows writes dx and, per block of TESS_NORM_BLOCK tokens, partial
 * sums of dw and db; a second pass adds the blocks. Threads own whole blocks, then whole columns. */
#ifndef TESS_DEVICE_CPU_NORM_BACKWARD_VEC_H
#define TESS_DEVICE_CPU_NORM_BACKWARD_VEC_H

#include "device/cpu/vec_typed.h"

typedef struct norm_grad {
    const void *h, *w, *dy, *dresidual;
    const float *mean, *rstd; /* mean NULL: RMSNorm */
    void *dx;
    float *dw, *db;               /* (C) each or NULL */
    float *blocks_dw, *blocks_db; /* (blocks, C) or NULL */
    int64_t T, C, n_blocks;
    tess_dtype dtype;
} norm_grad;

typedef struct norm_grad_row {
    const norm_grad *grad;
    float *block_dw, *block_db; /* (C) of the row's block or NULL */
    int64_t offset;
    float mean, rstd, mean_one, mean_xhat;
    tess_dtype dtype;
    bool layer;
} norm_grad_row;

TESS_INLINE vec norm_dh(const norm_grad_row *r, int64_t i, int64_t n)
{
    return v_mul(v_get(r->grad->dy, r->offset + i, n, r->dtype), v_get(r->grad->w, i, n, r->dtype));
}

TESS_INLINE vec norm_xhat(const norm_grad_row *r, int64_t i, int64_t n)
{
    vec h = v_get(r->grad->h, r->offset + i, n, r->dtype);
    return v_mul(r->layer ? v_sub(h, v_set(r->mean)) : h, v_set(r->rstd));
}

TESS_INLINE vec norm_xhat_term(const void *context, int64_t i, int64_t n, vec sum)
{
    return v_fma(norm_dh(context, i, n), norm_xhat(context, i, n), sum);
}

TESS_INLINE vec norm_one_term(const void *context, int64_t i, int64_t n, vec sum)
{
    return v_add(sum, norm_dh(context, i, n));
}

TESS_INLINE void norm_dx(const void *context, int64_t i, int64_t n)
{
    const norm_grad_row *r = context;
    vec dy = v_get(r->grad->dy, r->offset + i, n, r->dtype), w = v_get(r->grad->w, i, n, r->dtype);
    vec xhat = norm_xhat(r, i, n), dh = v_mul(dy, w);
    if (r->layer)
        dh = v_sub(dh, v_set(r->mean_one));
    vec dx = v_mul(v_sub(dh, v_mul(xhat, v_set(r->mean_xhat))), v_set(r->rstd));
    if (r->grad->dresidual != NULL)
        dx = v_add(dx, v_get(r->grad->dresidual, r->offset + i, n, r->dtype));
    v_put(r->grad->dx, r->offset + i, dx, n, r->dtype);
    if (r->block_dw != NULL)
        v_store(r->block_dw + i, v_fma(dy, xhat, v_load(r->block_dw + i, n)), n);
    if (r->block_db != NULL)
        v_store(r->block_db + i, v_add(v_load(r->block_db + i, n), dy), n);
}

TESS_INLINE float *norm_block(float *blocks, int64_t block, int64_t C)
{
    if (blocks == NULL)
        return NULL;
    memset(blocks + block * C, 0, (size_t)C * sizeof(float));
    return blocks + block * C;
}

TESS_INLINE void norm_grad_blocks(const norm_grad *g, int64_t begin, int64_t end, tess_dtype dtype, bool layer)
{
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * TESS_NORM_BLOCK, last = first + TESS_NORM_BLOCK;
        norm_grad_row r = {.grad = g, .dtype = dtype, .layer = layer};
        r.block_dw = norm_block(g->blocks_dw, block, g->C);
        r.block_db = norm_block(g->blocks_db, block, g->C);
        for (int64_t t = first; t < last && t < g->T; t++) {
            r.offset = t * g->C;
            r.mean = layer ? g->mean[t] : 0.0f;
            r.rstd = g->rstd[t];
            r.mean_xhat = row_sum(norm_xhat_term, &r, 0, g->C) / (float)g->C;
            if (layer)
                r.mean_one = row_sum(norm_one_term, &r, 0, g->C) / (float)g->C;
            row_each(norm_dx, &r, 0, g->C);
        }
    }
}

static void norm_grad_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const norm_grad *g = context;
    (void)worker;
    if (g->mean != NULL && g->dtype == TESS_F32)
        norm_grad_blocks(g, begin, end, TESS_F32, true);
    else if (g->mean != NULL)
        norm_grad_blocks(g, begin, end, TESS_BF16, true);
    else if (g->dtype == TESS_F32)
        norm_grad_blocks(g, begin, end, TESS_F32, false);
    else
        norm_grad_blocks(g, begin, end, TESS_BF16, false);
}

static void norm_add_blocks(const norm_grad *g, const float *blocks, float *out, int64_t i, int64_t n)
{
    vec sum = v_set(0);
    for (int64_t block = 0; block < g->n_blocks; block++)
        sum = v_add(sum, v_load(blocks + block * g->C + i, n));
    v_store(out + i, sum, n);
}

static void norm_add_blocks_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const norm_grad *g = context;
    (void)worker;
    for (int64_t i = begin; i < end; i += 16) {
        int64_t n = end - i < 16 ? end - i : 16;
        if (g->dw != NULL)
            norm_add_blocks(g, g->blocks_dw, g->dw, i, n);
        if (g->db != NULL)
            norm_add_blocks(g, g->blocks_db, g->db, i, n);
    }
}

static tess_status norm_backward(tess_stream *s, norm_grad *g)
{
    g->n_blocks = (g->T + TESS_NORM_BLOCK - 1) / TESS_NORM_BLOCK;
    size_t block_bytes = (size_t)(g->n_blocks * g->C) * sizeof(float);
    size_t n_sums = (g->dw != NULL) + (g->db != NULL);
    char *scratch = NULL;
    if (n_sums > 0)
        TESS_TRY(tess_stream_scratch(s, n_sums * block_bytes, (void **)&scratch));
    if (g->dw != NULL)
        g->blocks_dw = (float *)scratch;
    if (g->db != NULL)
        g->blocks_db = (float *)(scratch + (n_sums - 1) * block_bytes);
    tess_threads_run(s->threads, norm_grad_loop, g, g->n_blocks, tess_loop_grain(g->C * TESS_NORM_BLOCK));
    if (n_sums > 0)
        tess_threads_run(s->threads, norm_add_blocks_loop, g, g->C, 64 * tess_loop_grain(64 * g->n_blocks));
    return TESS_OK;
}

static tess_status rmsnorm_backward(tess_stream *s, const void *h, const void *w, const float *rstd, const void *dy,
                                    const void *dresidual, void *dx, float *dw, int64_t T, int64_t C, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("rmsnorm backward", dtype));
    norm_grad g = {.h = h, .w = w, .dy = dy, .dresidual = dresidual, .rstd = rstd, .dx = dx, .dw = dw, .T = T, .C = C};
    g.dtype = dtype;
    return norm_backward(s, &g);
}

static tess_status layernorm_backward(tess_stream *s, const void *h, const void *w, const float *mean,
                                      const float *rstd, const void *dy, const void *dresidual, void *dx, float *dw,
                                      float *db, int64_t T, int64_t C, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("layernorm backward", dtype));
    norm_grad g = {.h = h, .w = w, .dy = dy, .dresidual = dresidual, .mean = mean, .rstd = rstd, .dx = dx, .dw = dw};
    g.db = db;
    g.T = T;
    g.C = C;
    g.dtype = dtype;
    return norm_backward(s, &g);
}

#endif
