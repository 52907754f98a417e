/* Chooses how a linear map's products are computed: with the ranks that share the map, with an adapter, or alone. Does
 * the same for norms of heads. */
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

tess_status tess_linear_forward(const tess_layer_call *c, const tess_linear *linear, const void *x, void *y)
{
    bool adapted = linear->adapter.rank > 0;
    if (!adapted && tess_exchanges_sums(linear->in, linear->in_leaf, c->points->degree))
        return tess_sum_forward(c, linear, x, y);
    if (tess_is_split(c, linear->in))
        return tess_split_forward(c, linear, x, y);
    return adapted ? tess_low_rank_forward(c, linear, x, y) : tess_linear_own_forward(c, linear, x, y, c->dtype);
}

tess_status tess_linear_backward_inputs(const tess_layer_call *c, const tess_linear_grad *grads, int n, void *fusing,
                                        void *dx)
{
    const tess_linear *linear = grads[0].linear;
    bool adapted = false;
    for (int i = 0; i < n; i++)
        adapted |= grads[i].linear->adapter.rank > 0;
    if (!adapted && tess_exchanges_sums(linear->out, linear->out_leaf, c->points->degree))
        return tess_sum_backward_inputs(c, grads, n, fusing, dx);
    if (tess_is_split(c, linear->out))
        return tess_split_backward_inputs(c, grads, n, fusing, dx);
    return adapted ? tess_low_rank_backward_inputs(c, grads, n, fusing, dx)
                   : tess_linear_own_backward_inputs(c, grads, n, fusing, dx, c->dtype);
}

tess_status tess_linear_backward_input(const tess_layer_call *c, const tess_linear *linear, const void *dy, void *dx)
{
    const tess_linear_grad grad = {linear, dy};
    return linear->adapter.rank > 0 ? tess_low_rank_backward_inputs(c, &grad, 1, NULL, dx)
                                    : tess_linear_own_backward_input(c, linear, dy, dx);
}

tess_status tess_linear_backward_params(const tess_layer_call *c, const tess_linear *linear, const void *x,
                                        const void *dy)
{
    TESS_TRY(tess_linear_own_backward_params(c, linear, x, dy, false));
    if (linear->stored_whole && tess_is_split(c, linear->out))
        TESS_TRY(tess_split_gather_params(c, linear));
    return linear->adapter.rank > 0 ? tess_low_rank_backward_params(c, linear, x, dy) : TESS_OK;
}

tess_status tess_linear_act_forward(const tess_layer_call *c, const tess_linear *linear, const void *x, void *gate,
                                    void *up, void *act)
{
    return linear->adapter.rank > 0 ? tess_low_rank_act_forward(c, linear, x, gate, up, act)
                                    : tess_linear_own_act_forward(c, linear, x, gate, up, act);
}

tess_status tess_linear_act_backward(const tess_layer_call *c, const tess_linear *linear, const void *dy, void *gate,
                                     void *up, void *act, void *fusing)
{
    return linear->adapter.rank > 0 ? tess_low_rank_act_backward(c, linear, dy, gate, up, act, fusing)
                                    : tess_linear_own_act_backward(c, linear, dy, gate, up, act, fusing);
}

/* A row of a norm of heads: the channels of one head, or of all heads of a token. */
static int64_t rows_of(const tess_layer_call *c, tess_cut heads, int64_t *width)
{
    const tess_attention_params *p = c->own;
    int64_t begin, n;
    tess_own_range(c, heads, &begin, &n);
    *width = p->wide_norms ? n * p->head_size : p->head_size;
    return p->wide_norms ? c->T : c->T * n;
}

tess_status tess_head_norm_forward(const tess_layer_call *c, const tess_norm *norm, tess_cut heads, const void *x,
                                   float *rstd, void *y)
{
    const tess_attention_params *p = c->own;
    int64_t width, n = rows_of(c, heads, &width);
    return tess_is_split(c, heads) && p->wide_norms ? tess_split_head_norm_forward(c, norm, heads, x, rstd, y)
                                                    : tess_head_norm_own_forward(c, norm, n, width, x, rstd, y);
}

tess_status tess_head_norm_backward(const tess_layer_call *c, const tess_norm *norm, tess_cut heads, const void *x,
                                    const float *rstd, const void *dy, void *dx)
{
    const tess_attention_params *p = c->own;
    int64_t width, n = rows_of(c, heads, &width);
    if (tess_is_split(c, heads) && (p->wide_norms || tess_wants(c, norm->weight)))
        return tess_split_head_norm_backward(c, norm, heads, x, rstd, dy, dx);
    return tess_head_norm_own_backward(c, norm, n, width, x, rstd, dy, dx);
}
