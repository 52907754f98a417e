/* Norms of the stream and of heads, computed row by row. */
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

tess_status tess_norm_forward(const tess_layer_call *c, const tess_norm *norm, const void *x, const void *residual,
                              void *h, void *y, tess_norm_stats stats)
{
    int64_t C = c->block->hidden_size, begin, R = tess_own_rows(c, &begin);
    void *own = tess_own_part(c, y);
    const void *whole;
    const tess_norm_args args = {.x = x,
                                 .residual = residual,
                                 .h_out = h,
                                 .w = c->w[norm->weight],
                                 .b = norm->bias >= 0 ? c->w[norm->bias] : NULL,
                                 .y = own,
                                 .mean = stats.mean,
                                 .rstd = stats.rstd,
                                 .T = R,
                                 .C = C,
                                 .eps = (float)c->config->norm_eps,
                                 .dtype = c->dtype};
    TESS_TRY(c->block->layer_norm ? c->kernels->layernorm_forward(c->stream, &args)
                                  : c->kernels->rmsnorm_forward(c->stream, &args));
    return tess_stream_gather(c, own, y, &whole);
}

tess_status tess_norm_input(const tess_layer_call *c, const tess_norm *norm, const tess_tensors *t, const void *before,
                            tess_norm_stats stats)
{
    return before != NULL ? tess_norm_forward(c, norm, t->branch, before, t->in, t->y, stats)
                          : tess_norm_forward(c, norm, t->in, NULL, NULL, t->y, stats);
}

tess_status tess_norm_backward(const tess_layer_call *c, const tess_norm *norm, const void *h, tess_norm_stats stats,
                               const void *dy, const void *dresidual, void *dh)
{
    int64_t C = c->block->hidden_size, begin, R = tess_own_rows(c, &begin);
    float *dw = c->dw[norm->weight], *db = norm->bias >= 0 ? c->dw[norm->bias] : NULL;
    if (tess_is_split(c, c->rows)) {
        if (tess_norm_trains(c, norm))
            TESS_TRY(tess_stream_norm_params(c, norm, h, stats, dy));
        dw = db = NULL;
    }
    const tess_norm_grad_args args = {.h = h,
                                      .w = c->w[norm->weight],
                                      .mean = stats.mean,
                                      .rstd = stats.rstd,
                                      .dy = dy,
                                      .dresidual = dresidual,
                                      .dx = dh,
                                      .dw = dw,
                                      .db = db,
                                      .T = R,
                                      .C = C,
                                      .dtype = c->dtype};
    return c->block->layer_norm ? c->kernels->layernorm_backward(c->stream, &args)
                                : c->kernels->rmsnorm_backward(c->stream, &args);
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
    const tess_attention_params *p = c->own;
    return c->kernels->rmsnorm_forward(c->stream, &(tess_norm_args){.x = x,
                                                                    .w = c->w[norm->weight],
                                                                    .y = y,
                                                                    .rstd = rstd,
                                                                    .T = c->T * n_heads,
                                                                    .C = p->head_size,
                                                                    .eps = (float)c->config->norm_eps,
                                                                    .dtype = c->dtype});
}

tess_status tess_head_norm_own_backward(const tess_layer_call *c, const tess_norm *norm, int64_t n, const void *x,
                                        const float *rstd, const void *dy, void *dx)
{
    const tess_attention_params *p = c->own;
    return c->kernels->rmsnorm_backward(c->stream, &(tess_norm_grad_args){.h = x,
                                                                          .w = c->w[norm->weight],
                                                                          .rstd = rstd,
                                                                          .dy = dy,
                                                                          .dx = dx,
                                                                          .dw = c->dw[norm->weight],
                                                                          .T = n,
                                                                          .C = p->head_size,
                                                                          .dtype = c->dtype});
}
