#include "nn/layers/layers.h"

static tess_status rms_forward(const tess_layer_call *c, const tess_norm *norm, int64_t rows, int64_t width,
                               const void *x, const void *residual, void *h, void *y, float *rstd)
{
    return c->kernels->rmsnorm_forward(c->stream, x, residual, h, c->w[norm->weight], y, rstd, rows, width,
                                       (float)c->config->norm_eps, c->dtype);
}

static tess_status rms_backward(const tess_layer_call *c, const tess_norm *norm, int64_t rows, int64_t width,
                                const void *h, const float *rstd, const void *dy, const void *dresidual, void *dx)
{
    return c->kernels->rmsnorm_backward(c->stream, h, c->w[norm->weight], rstd, dy, dresidual, dx, c->dw[norm->weight],
                                        rows, width, c->dtype);
}

tess_status tess_norm_forward(const tess_layer_call *c, const tess_norm *norm, const void *x, const void *residual,
                              void *h, void *y, tess_norm_stats stats)
{
    int64_t C = c->config->hidden_size;
    if (!c->block->layer_norm)
        return rms_forward(c, norm, c->T, C, x, residual, h, y, stats.rstd);
    return c->kernels->layernorm_forward(c->stream, x, residual, h, c->w[norm->weight], c->w[norm->bias], y, stats.mean,
                                         stats.rstd, c->T, C, (float)c->config->norm_eps, c->dtype);
}

tess_status tess_norm_backward(const tess_layer_call *c, const tess_norm *norm, const void *h, tess_norm_stats stats,
                               const void *dy, const void *dresidual, void *dh)
{
    int64_t C = c->config->hidden_size;
    if (!c->block->layer_norm)
        return rms_backward(c, norm, c->T, C, h, stats.rstd, dy, dresidual, dh);
    return c->kernels->layernorm_backward(c->stream, h, c->w[norm->weight], stats.mean, stats.rstd, dy, dresidual, dh,
                                          c->dw[norm->weight], c->dw[norm->bias], c->T, C, c->dtype);
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
    return rms_forward(c, norm, c->T * n_heads, c->config->head_size, x, NULL, NULL, y, rstd);
}

tess_status tess_head_norm_backward(const tess_layer_call *c, const tess_norm *norm, int64_t n_heads, const void *x,
                                    const float *rstd, const void *dy, void *dx)
{
    return rms_backward(c, norm, c->T * n_heads, c->config->head_size, x, rstd, dy, NULL, dx);
}
