#include "nn/layers/layers.h"

tess_status tess_mlp_forward_up(const tess_run *run, const tess_layout *layout, const void *y,
                                const tess_mlp_saved *saved)
{
    if (layout->gate.weight >= 0)
        TESS_TRY(tess_linear_forward(run, &layout->gate, y, saved->gate, run->dtype));
    return tess_linear_forward(run, &layout->up, y, saved->up, run->dtype);
}

static tess_status activate(const tess_run *run, const tess_layout *layout, const tess_mlp_saved *saved, void *act)
{
    int64_t F = layout->up.n_out;
    if (layout->gate.weight >= 0)
        return run->kernels->glu_forward(run->stream, saved->gate, saved->up, F, act, run->T, F, layout->activation,
                                         run->dtype);
    return run->kernels->act_forward(run->stream, saved->up, act, run->T * F, layout->activation, run->dtype);
}

tess_status tess_mlp_forward_down(const tess_run *run, const tess_layout *layout, const tess_mlp_saved *saved,
                                  void *act, void *out)
{
    TESS_TRY(activate(run, layout, saved, act));
    return tess_linear_forward(run, &layout->down, act, out, run->dtype);
}

tess_status tess_mlp_backward(const tess_run *run, const tess_layout *layout, const void *y,
                              const tess_mlp_saved *saved, void *act, float *sum, const void *dout, void *dy)
{
    const tess_linear *gate = &layout->gate, *up = &layout->up, *down = &layout->down;
    int64_t F = up->n_out;
    if (tess_linear_trains(run, down)) {
        if (tess_wants(run, down->weight))
            TESS_TRY(activate(run, layout, saved, act));
        TESS_TRY(tess_linear_backward_params(run, down, act, dout, false));
    }
    void *dact = act;
    TESS_TRY(tess_linear_backward_input(run, down, dout, dact, run->dtype, false));
    if (gate->weight < 0) {
        TESS_TRY(
            run->kernels->act_backward(run->stream, saved->up, dact, dact, run->T * F, layout->activation, run->dtype));
        TESS_TRY(tess_linear_backward_params(run, up, y, dact, false));
        return tess_linear_backward_input(run, up, dact, dy, run->dtype, false);
    }
    TESS_TRY(run->kernels->glu_backward(run->stream, saved->gate, saved->up, F, dact, saved->gate, saved->up, F, run->T,
                                        F, layout->activation, run->dtype));
    TESS_TRY(tess_linear_backward_params(run, gate, y, saved->gate, false));
    TESS_TRY(tess_linear_backward_params(run, up, y, saved->up, false));
    const tess_linear_grad grads[] = {{gate, saved->gate}, {up, saved->up}};
    return tess_linear_backward_inputs(run, grads, 2, sum, dy);
}
