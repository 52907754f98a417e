#include "nn/layers/layers.h"

static bool gated(const tess_layout *layout)
{
    return layout->gate.weight >= 0;
}

tess_status tess_mlp_forward_up(const tess_run *run, const tess_layout *layout, const void *y,
                                const tess_mlp_saved *saved)
{
    if (gated(layout))
        TESS_TRY(tess_linear_forward(run, &layout->gate, y, saved->gate, run->dtype));
    return tess_linear_forward(run, &layout->up, y, saved->up, run->dtype);
}

tess_status tess_mlp_forward(const tess_run *run, const tess_layout *layout, const void *y, const tess_mlp_saved *saved,
                             void *act, void *out)
{
    if (gated(layout))
        TESS_TRY(tess_linear_forward(run, &layout->gate, y, saved->gate, run->dtype));
    tess_gemm_fused up = {.g = tess_linear_product(run, &layout->up, y, saved->up, run->dtype),
                          .then = TESS_THEN_ACT,
                          .act = layout->activation,
                          .gate = gated(layout) ? saved->gate : NULL,
                          .y = act};
    TESS_TRY(run->kernels->gemm_fused(run->stream, &up));
    return tess_linear_forward(run, &layout->down, act, out, run->dtype);
}

/* dout -> gradients of gate and up, in their place, and act again. */
static tess_status backward_act(const tess_run *run, const tess_layout *layout, const tess_mlp_saved *saved, void *act,
                                void *fusing, const void *dout)
{
    tess_gemm_fused down = {.g = tess_linear_input_product(run, &layout->down, dout, act),
                            .then = TESS_THEN_ACT_BACKWARD,
                            .act = layout->activation,
                            .gate = gated(layout) ? saved->gate : NULL,
                            .up = saved->up,
                            .y = tess_wants(run, layout->down.weight) ? act : NULL,
                            .work = fusing};
    return run->kernels->gemm_fused(run->stream, &down);
}

tess_status tess_mlp_backward(const tess_run *run, const tess_layout *layout, const void *y,
                              const tess_mlp_saved *saved, void *act, void *fusing, const void *dout, void *dy)
{
    const tess_linear *gate = &layout->gate, *up = &layout->up, *down = &layout->down;
    TESS_TRY(backward_act(run, layout, saved, act, fusing, dout));
    if (tess_linear_trains(run, down))
        TESS_TRY(tess_linear_backward_params(run, down, act, dout, false));
    if (gated(layout))
        TESS_TRY(tess_linear_backward_params(run, gate, y, saved->gate, false));
    TESS_TRY(tess_linear_backward_params(run, up, y, saved->up, false));
    const tess_linear_grad grads[] = {{gate, saved->gate}, {up, saved->up}};
    int first = gated(layout) ? 0 : 1;
    return tess_linear_backward_inputs(run, grads + first, 2 - first, fusing, dy);
}
