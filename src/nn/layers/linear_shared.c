/* The two of a linear map's products that ranks may have to meet for: how they do. Ranks do not share adapters. */
#include "nn/layers/layers.h"

tess_status tess_linear_forward(const tess_layer_call *c, const tess_linear *linear, const void *x, void *y)
{
    if (linear->adapter.rank > 0)
        return tess_low_rank_forward(c, linear, x, y);
    if (tess_exchanges_sums(linear->in, linear->in_leaf, c->points->degree))
        return tess_sum_forward(c, linear, x, y);
    if (tess_is_split(c, linear->in))
        return tess_split_forward(c, linear, x, y);
    return tess_linear_own_forward(c, linear, x, y, c->dtype);
}

tess_status tess_linear_backward_inputs(const tess_layer_call *c, const tess_linear_grad *grads, int n, void *fusing,
                                        void *dx)
{
    const tess_linear *linear = grads[0].linear;
    for (int i = 0; i < n; i++)
        if (grads[i].linear->adapter.rank > 0)
            return tess_low_rank_backward_inputs(c, grads, n, fusing, dx);
    if (tess_exchanges_sums(linear->out, linear->out_leaf, c->points->degree))
        return tess_sum_backward_inputs(c, grads, n, fusing, dx);
    if (tess_is_split(c, linear->out))
        return tess_split_backward_inputs(c, grads, n, fusing, dx);
    return tess_linear_own_backward_inputs(c, grads, n, fusing, dx, c->dtype);
}
