/* Norms of the stream and of heads, computed row by row. */
#include "nn/layers/layers.h"

tess_status tess_norm_forward(const tess_layer_call *c, const tess_norm *norm, const void *x, const void *residual,
                              void *h, void *y, tess_norm_stats stats)
{
    int64_t C = c->config->hidden_size, begin, R = tess_own_rows(c, &begin);
    void *own = tess_own_part(c, y);
    const void *whole;
    if (!c->block->layer_norm)
        TESS_TRY(c->kernels->rmsnorm_forward(c->stream, x, residual, h, c->w[norm->weight], own, stats.rstd, R, C,
                                             (float)c->config->norm_eps, c->dtype));
    else
        TESS_TRY(c->kernels->layernorm_forward(c->stream, x, residual, h, c->w[norm->weight], c->w[norm->bias], own,
                                               stats.mean, stats.rstd, R, C, (float)c->config->norm_eps, c->dtype));
    return tess_stream_gather(c, own, y, &whole);
}

tess_status tess_norm_backward(const tess_layer_call *c, const tess_norm *norm, const void *h, tess_norm_stats stats,
                               const void *dy, const void *dresidual, void *dh)
{
    int64_t C = c->config->hidden_size, begin, R = tess_own_rows(c, &begin);
    float *dw = c->dw[norm->weight], *db = norm->bias >= 0 ? c->dw[norm->bias] : NULL;
    if (tess_is_split(c, c->rows)) {
        if (tess_norm_trains(c, norm))
            TESS_TRY(tess_stream_norm_params(c, norm, h, stats, dy));
        dw = db = NULL;
    }
    if (!c->block->layer_norm)
        return c->kernels->rmsnorm_backward(c->stream, h, c->w[norm->weight], stats.rstd, dy, dresidual, dh, dw, R, C,
                                            c->dtype);
    return c->kernels->layernorm_backward(c->stream, h, c->w[norm->weight], stats.mean, stats.rstd, dy, dresidual, dh,
                                          dw, db, R, C, c->dtype);
}

tess_status tess_norm_again(const tess_layer_call *c, const tess_norm *norm, const void *h, void *y)
{
    return tess_norm_forward(c, norm, h, NULL, NULL, y, (tess_norm_stats){NULL, NULL});
}

bool tess_norm_trains(const tess_layer_call *c, const tess_norm *norm)
{
    return tess_wants(c, norm->weight) || tess_wants(c, norm->bias);
}

tess_status tess_head_norm_forward(const tess_layer_call *c, const tess_norm *norm, int64_t n_heads, const void *x,
                                   float *rstd, void *y)
{
    return c->kernels->rmsnorm_forward(c->stream, x, NULL, NULL, c->w[norm->weight], y, rstd, c->T * n_heads,
                                       c->block->head_size, (float)c->config->norm_eps, c->dtype);
}

tess_status tess_head_norm_backward(const tess_layer_call *c, const tess_norm *norm, tess_cut heads, const void *x,
                                    const float *rstd, const void *dy, void *dx)
{
    int64_t begin, n_heads;
    if (tess_is_split(c, heads) && tess_wants(c, norm->weight))
        return tess_split_head_norm_backward(c, norm, heads, x, rstd, dy, dx);
    tess_own_range(c, heads, &begin, &n_heads);
    return c->kernels->rmsnorm_backward(c->stream, x, c->w[norm->weight], rstd, dy, NULL, dx, c->dw[norm->weight],
                                        c->T * n_heads, c->block->head_size, c->dtype);
}
