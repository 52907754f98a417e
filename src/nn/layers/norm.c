/* Norms of the stream and of heads, computed row by row. */
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

tess_status tess_norm_rows(const tess_layer_call *c, const tess_norm *norm, const void *x, const void *residual,
                           void *h, void *y, tess_norm_stats stats)
{
    int64_t begin, R = tess_own_rows(c, &begin);
    const tess_norm_args args = {.x = x,
                                 .residual = residual,
                                 .h_out = h,
                                 .w = c->w[norm->weight],
                                 .b = norm->bias >= 0 ? c->w[norm->bias] : NULL,
                                 .y = y,
                                 .mean = stats.mean,
                                 .rstd = stats.rstd,
                                 .T = R,
                                 .C = c->block->hidden_size,
                                 .eps = (float)c->config->norm_eps,
                                 .one_plus_w = c->block->one_plus,
                                 .dtype = c->dtype};
    return c->block->layer_norm ? c->kernels->layernorm_forward(c->stream, &args)
                                : c->kernels->rmsnorm_forward(c->stream, &args);
}

/* h = x + residual, y (T, C) = norm(h), of all ranks' rows. */
static tess_status norm_all(const tess_layer_call *c, const tess_norm *norm, const void *x, const void *residual,
                            void *h, void *room, tess_norm_stats stats, const void **y)
{
    void *own = tess_own_part(c, room);
    TESS_TRY(tess_norm_rows(c, norm, x, residual, h, own, stats));
    TESS_TRY(tess_stream_gather(c, own, room, y));
    *y = room;
    return TESS_OK;
}

tess_status tess_norm_input(const tess_layer_call *c, const tess_norm *norm, const tess_tensors *t, const void *before,
                            tess_norm_stats stats, const void **y)
{
    int64_t begin, R = tess_own_rows(c, &begin);
    if (norm->weight >= 0)
        return before != NULL ? norm_all(c, norm, t->branch, before, t->in, t->y, stats, y)
                              : norm_all(c, norm, t->in, NULL, NULL, t->y, stats, y);
    if (before != NULL)
        TESS_TRY(c->kernels->add(
            c->stream,
            &(tess_add_args){
                .a = t->branch, .b = before, .y = t->in, .n = R * c->block->hidden_size, .dtype = c->dtype}));
    return tess_stream_gather(c, t->in, t->y, y);
}

tess_status tess_norm_backward(const tess_layer_call *c, const tess_norm *norm, const void *h, tess_norm_stats stats,
                               const void *dy, const void *dresidual, void *dh)
{
    int64_t C = c->block->hidden_size, begin, R = tess_own_rows(c, &begin);
    if (norm->weight < 0)
        return dresidual == NULL
                   ? TESS_OK
                   : c->kernels->add(c->stream,
                                     &(tess_add_args){.a = dy, .b = dresidual, .y = dh, .n = R * C, .dtype = c->dtype});
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
                                      .one_plus_w = c->block->one_plus,
                                      .dtype = c->dtype};
    return tess_norm_sums(c, c->block->layer_norm, &args);
}

tess_status tess_norm_again(const tess_layer_call *c, const tess_norm *norm, const tess_tensors *t, const void **y)
{
    return tess_norm_input(c, norm, t, NULL, (tess_norm_stats){NULL, NULL}, y);
}

bool tess_norm_trains(const tess_layer_call *c, const tess_norm *norm)
{
    return tess_wants(c, norm->weight) || tess_wants(c, norm->bias);
}

/* ---- The end of a branch ---- */
tess_status tess_branch_finish(const tess_layer_call *c, const tess_branch_end *end, const tess_tensors *t, void *raw,
                               tess_norm_stats stats)
{
    int64_t begin, n = tess_own_rows(c, &begin) * c->block->hidden_size;
    if (end->norm.weight >= 0)
        TESS_TRY(tess_norm_rows(c, &end->norm, raw, NULL, NULL, t->branch, stats));
    if (end->factor == 0)
        return TESS_OK;
    return c->kernels->scale(
        c->stream,
        &(tess_scale_args){.x = t->branch, .factor = end->factor, .y = t->branch, .n = n, .dtype = c->dtype});
}

tess_status tess_branch_gradient(const tess_layer_call *c, const tess_branch_end *end, const tess_tensors *t,
                                 const void *raw, tess_norm_stats stats, const void **gradient)
{
    int64_t begin, n = tess_own_rows(c, &begin) * c->block->hidden_size;
    const void *own = t->dout;
    if (end->factor != 0) {
        TESS_TRY(c->kernels->scale(
            c->stream, &(tess_scale_args){.x = own, .factor = end->factor, .y = t->branch, .n = n, .dtype = c->dtype}));
        own = t->branch;
    }
    if (end->norm.weight >= 0) {
        TESS_TRY(tess_norm_backward(c, &end->norm, raw, stats, own, NULL, t->branch));
        own = t->branch;
    }
    return tess_stream_gather(c, own, c->split.stream, gradient);
}

/* ---- Norms of heads ---- */
tess_status tess_head_norm_own_forward(const tess_layer_call *c, const tess_norm *norm, int64_t n, int64_t width,
                                       const void *x, float *rstd, void *y)
{
    return c->kernels->rmsnorm_forward(c->stream, &(tess_norm_args){.x = x,
                                                                    .w = c->w[norm->weight],
                                                                    .y = y,
                                                                    .rstd = rstd,
                                                                    .T = n,
                                                                    .C = width,
                                                                    .eps = (float)c->config->norm_eps,
                                                                    .one_plus_w = c->block->one_plus,
                                                                    .dtype = c->dtype});
}

tess_status tess_head_norm_own_backward(const tess_layer_call *c, const tess_norm *norm, int64_t n, int64_t width,
                                        const void *x, const float *rstd, const void *dy, void *dx)
{
    return tess_norm_sums(c, false,
                          &(tess_norm_grad_args){.h = x,
                                                 .w = c->w[norm->weight],
                                                 .rstd = rstd,
                                                 .dy = dy,
                                                 .dx = dx,
                                                 .dw = c->dw[norm->weight],
                                                 .T = n,
                                                 .C = width,
                                                 .one_plus_w = c->block->one_plus,
                                                 .dtype = c->dtype});
}
