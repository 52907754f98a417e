/* RMSNorm and LayerNorm, backward. One pass over the rows writes dx and, for each block of TESS_NORM_BLOCK tokens,
 * partial sums of dw and db; a second pass adds the blocks. A thread computes whole blocks in the first pass and whole
 * columns in the second. */
#include "device/cpu/vec_rows.h"

typedef struct norm_grad {
    tess_norm_grad_args args;     /* mean NULL: RMSNorm */
    float *blocks_dw, *blocks_db; /* (blocks, width) or NULL; elements are in the order of a `pair` of dtype */
    int64_t n_blocks, width;      /* width: C, rounded up to whole pairs */
} norm_grad;

typedef struct norm_grad_row {
    const norm_grad *grad;
    float *block_dw, *block_db; /* (width) sums of the row's block, or NULL */
    void *dbranch;              /* a copy of the pointer in args, which stores might change */
    int64_t offset;
    float mean, rstd, mean_one, mean_xhat;
    tess_dtype dtype;
    bool layer, one_plus_w;
} norm_grad_row;

TESS_INLINE pair norm_xhat(const norm_grad_row *r, int64_t i, int64_t n)
{
    pair h = p_get(r->grad->args.h, r->offset + i, n, r->dtype);
    return p_scale(r->layer ? p_minus(h, r->mean) : h, r->rstd);
}

/* Returns dy w, or dy (1 + w). */
TESS_INLINE pair norm_dh(const norm_grad_row *r, int64_t i, int64_t n, pair dy)
{
    pair w = p_get(r->grad->args.w, i, n, r->dtype);
    return p_mul(dy, r->one_plus_w ? p_minus(w, -1) : w);
}

/* Adds the terms of the sum of dh xhat and, for LayerNorm, of the sum of dh. */
TESS_INLINE void norm_grad_terms(const void *context, int64_t i, int64_t n, pair *sums)
{
    const norm_grad_row *r = context;
    p_ahead(r->grad->args.dy, r->offset + i, r->dtype);
    p_ahead(r->grad->args.h, r->offset + i, r->dtype);
    pair dh = norm_dh(r, i, n, p_get(r->grad->args.dy, r->offset + i, n, r->dtype));
    sums[0] = p_fma(dh, norm_xhat(r, i, n), sums[0]);
    if (r->layer)
        sums[1] = p_add(sums[1], dh);
}

TESS_INLINE void norm_dx(const void *context, int64_t i, int64_t n)
{
    const norm_grad_row *r = context;
    pair dy = p_get(r->grad->args.dy, r->offset + i, n, r->dtype), xhat = norm_xhat(r, i, n);
    pair dh = norm_dh(r, i, n, dy);
    if (r->layer)
        dh = p_minus(dh, r->mean_one);
    pair dx = p_scale(p_sub(dh, p_scale(xhat, r->mean_xhat)), r->rstd);
    p_ahead(r->grad->args.dx, r->offset + i, r->dtype);
    if (r->grad->args.dresidual != NULL)
        dx = p_add(dx, p_get(r->grad->args.dresidual, r->offset + i, n, r->dtype));
    p_put(r->grad->args.dx, r->offset + i, dx, n, r->dtype);
    if (r->dbranch != NULL)
        p_put(r->dbranch, r->offset + i, p_scale(dx, r->grad->args.factor), n, r->dtype);
    if (r->block_dw != NULL)
        p_put(r->block_dw, i, p_fma(dy, xhat, p_get(r->block_dw, i, TESS_PAIR, TESS_F32)), TESS_PAIR, TESS_F32);
    if (r->block_db != NULL)
        p_put(r->block_db, i, p_add(p_get(r->block_db, i, TESS_PAIR, TESS_F32), dy), TESS_PAIR, TESS_F32);
}

TESS_INLINE float *norm_block(float *blocks, int64_t block, int64_t width)
{
    if (blocks == NULL)
        return NULL;
    memset(blocks + block * width, 0, (size_t)width * sizeof(float));
    return blocks + block * width;
}

TESS_INLINE void norm_grad_blocks(const norm_grad *g, int64_t begin, int64_t end, tess_dtype dtype, bool layer,
                                  bool one_plus_w)
{
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * TESS_NORM_BLOCK, last = first + TESS_NORM_BLOCK;
        norm_grad_row r = {.grad = g, .dtype = dtype, .layer = layer, .one_plus_w = one_plus_w};
        r.dbranch = g->args.dbranch;
        r.block_dw = norm_block(g->blocks_dw, block, g->width);
        r.block_db = norm_block(g->blocks_db, block, g->width);
        for (int64_t t = first; t < last && t < g->args.T; t++) {
            float sums[2];
            r.offset = t * g->args.C;
            r.mean = layer ? g->args.mean[t] : 0.0f;
            r.rstd = g->args.rstd[t];
            row_sums(norm_grad_terms, &r, 0, g->args.C, dtype, layer ? 2 : 1, sums);
            r.mean_xhat = sums[0] / (float)g->args.C;
            r.mean_one = layer ? sums[1] / (float)g->args.C : 0.0f;
            row_pairs(norm_dx, &r, 0, g->args.C);
        }
    }
}

static void norm_grad_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const norm_grad *g = context;
    if (g->args.mean != NULL && g->args.dtype == TESS_F32)
        norm_grad_blocks(g, begin, end, TESS_F32, true, false);
    else if (g->args.mean != NULL)
        norm_grad_blocks(g, begin, end, TESS_BF16, true, false);
    else if (g->args.one_plus_w && g->args.dtype == TESS_F32)
        norm_grad_blocks(g, begin, end, TESS_F32, false, true);
    else if (g->args.one_plus_w)
        norm_grad_blocks(g, begin, end, TESS_BF16, false, true);
    else if (g->args.dtype == TESS_F32)
        norm_grad_blocks(g, begin, end, TESS_F32, false, false);
    else
        norm_grad_blocks(g, begin, end, TESS_BF16, false, false);
}

static void norm_add_blocks(const norm_grad *g, const float *blocks, float *out, int64_t i, int64_t n)
{
    pair sum = {v_set(0), v_set(0)};
    for (int64_t block = 0; block < g->n_blocks; block++)
        sum = p_add(sum, p_get(blocks, block * g->width + i, TESS_PAIR, TESS_F32));
    p_put_floats(out + i, sum, n, g->args.dtype);
}

static void norm_add_blocks_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const norm_grad *g = context;
    for (int64_t i = begin; i < end; i += TESS_PAIR) {
        int64_t n = end - i < TESS_PAIR ? end - i : TESS_PAIR;
        if (g->args.dw != NULL)
            norm_add_blocks(g, g->blocks_dw, g->args.dw, i, n);
        if (g->args.db != NULL)
            norm_add_blocks(g, g->blocks_db, g->args.db, i, n);
    }
}

static tess_status norm_backward(tess_stream *s, const tess_norm_grad_args *a, bool layer)
{
    norm_grad g = {.args = *a, .n_blocks = (a->T + TESS_NORM_BLOCK - 1) / TESS_NORM_BLOCK};
    g.args.factor = tess_factor_of(a->factor);
    g.width = (a->C + TESS_PAIR - 1) / TESS_PAIR * TESS_PAIR;
    if (!layer) {
        g.args.mean = NULL;
        g.args.db = NULL;
    }
    size_t block_bytes = (size_t)(g.n_blocks * g.width) * sizeof(float);
    size_t n_sums = (g.args.dw != NULL) + (g.args.db != NULL);
    char *scratch = NULL;
    if (n_sums > 0)
        TESS_TRY(tess_stream_scratch(s, n_sums * block_bytes, (void **)&scratch));
    if (g.args.dw != NULL)
        g.blocks_dw = (float *)scratch;
    if (g.args.db != NULL)
        g.blocks_db = (float *)(scratch + (n_sums - 1) * block_bytes);
    tess_threads_run(s->threads, norm_grad_loop, &g, g.n_blocks, tess_loop_grain(a->C * TESS_NORM_BLOCK));
    if (n_sums > 0)
        tess_threads_run(s->threads, norm_add_blocks_loop, &g, a->C, 64 * tess_loop_grain(64 * g.n_blocks));
    return TESS_OK;
}

tess_status VEC_NAME(rmsnorm_backward)(tess_stream *s, const tess_norm_grad_args *a)
{
    TESS_TRY(tess_check_dtype("rmsnorm backward", a->dtype));
    return norm_backward(s, a, false);
}

tess_status VEC_NAME(layernorm_backward)(tess_stream *s, const tess_norm_grad_args *a)
{
    TESS_TRY(tess_check_dtype("layernorm backward", a->dtype));
    return norm_backward(s, a, true);
}
