/* Activations, the definition: y = act(gate) * up or act(x), with act = silu or gelu, and their gradients. */
#include "device/ref/ref_impl.h"
#include "device/ref/vec_ref.h"
#include "device/vmath.h"
#include "device/activation.h"

tess_status tess_ref_glu_forward(TESS_UNUSED tess_stream *s, const tess_glu_args *a)
{
    TESS_TRY(tess_check_dtype("glu", a->dtype));
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t i = 0; i < a->F; i++) {
            float activated = v_activate(ref_get(a->gate, t * a->stride + i, a->dtype), a->act);
            ref_put(a->y, t * a->F + i, activated * ref_get(a->up, t * a->stride + i, a->dtype), a->dtype);
        }
    return TESS_OK;
}

tess_status tess_ref_glu_backward(TESS_UNUSED tess_stream *s, const tess_glu_grad_args *a)
{
    TESS_TRY(tess_check_dtype("glu backward", a->dtype));
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t i = 0; i < a->F; i++) {
            int64_t at = t * a->stride + i, to = t * a->dstride + i;
            float g = ref_get(a->gate, at, a->dtype), u = ref_get(a->up, at, a->dtype);
            float d = ref_get(a->dy, t * a->F + i, a->dtype);
            float slope, activated = v_activate_with_slope(g, a->act, &slope);
            ref_put(a->dgate, to, d * u * slope, a->dtype);
            ref_put(a->dup, to, d * activated, a->dtype);
            if (a->y != NULL)
                ref_put(a->y, t * a->F + i, activated * u, a->dtype);
        }
    return TESS_OK;
}

tess_status tess_ref_clamped_glu_forward(TESS_UNUSED tess_stream *s, const tess_clamped_glu_args *a)
{
    TESS_TRY(tess_check_dtype("clamped glu", a->dtype));
    for (int64_t i = 0; i < a->T * (a->C / 2); i++) {
        float gate = ref_get(a->x, 2 * i, a->dtype), up = ref_get(a->x, 2 * i + 1, a->dtype);
        ref_put(a->y, i, v_clamped_glu(gate, up, a->alpha, a->limit), a->dtype);
    }
    return TESS_OK;
}

tess_status tess_ref_clamped_glu_backward(TESS_UNUSED tess_stream *s, const tess_clamped_glu_grad_args *a)
{
    TESS_TRY(tess_check_dtype("clamped glu backward", a->dtype));
    for (int64_t i = 0; i < a->T * (a->C / 2); i++) {
        float gate = ref_get(a->x, 2 * i, a->dtype), up = ref_get(a->x, 2 * i + 1, a->dtype);
        float d = ref_get(a->dy, i, a->dtype);
        ref_put(a->y, i, v_clamped_glu_with_slopes(&gate, &up, a->alpha, a->limit), a->dtype);
        ref_put(a->dx, 2 * i, d * gate, a->dtype);
        ref_put(a->dx, 2 * i + 1, d * up, a->dtype);
    }
    return TESS_OK;
}

tess_status tess_ref_act_forward(TESS_UNUSED tess_stream *s, const tess_act_args *a)
{
    TESS_TRY(tess_check_dtype("activation", a->dtype));
    for (int64_t i = 0; i < a->n; i++)
        ref_put(a->y, i, v_activate(ref_get(a->x, i, a->dtype), a->act), a->dtype);
    return TESS_OK;
}

tess_status tess_ref_act_backward(TESS_UNUSED tess_stream *s, const tess_act_grad_args *a)
{
    TESS_TRY(tess_check_dtype("activation backward", a->dtype));
    for (int64_t i = 0; i < a->n; i++) {
        float slope, activated = v_activate_with_slope(ref_get(a->x, i, a->dtype), a->act, &slope);
        ref_put(a->dx, i, ref_get(a->dy, i, a->dtype) * slope, a->dtype);
        if (a->y != NULL)
            ref_put(a->y, i, activated, a->dtype);
    }
    return TESS_OK;
}
