/* Chooses how a linear map's products are computed: with the ranks that share the map, with an adapter, or alone. Does
 * the same for the gradients of a norm of heads. */
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

tess_status tess_head_norm_backward(const tess_layer_call *c, const tess_norm *norm, tess_cut heads, const void *x,
                                    const float *rstd, const void *dy, void *dx)
{
    int64_t begin, n_heads;
    if (tess_is_split(c, heads) && tess_wants(c, norm->weight))
        return tess_split_head_norm_backward(c, norm, heads, x, rstd, dy, dx);
    tess_own_range(c, heads, &begin, &n_heads);
    return tess_head_norm_own_backward(c, norm, c->T * n_heads, x, rstd, dy, dx);
}
