/* Activations, the definition: y = act(gate) * up or act(x), with act = silu or gelu, and their gradients. */
#include "device/ref/ref_impl.h"
#include "device/ref/vec_ref.h"
#include "device/vmath.h"
#include "device/activation.h"

static tess_status glu_forward(tess_stream *s, const void *gate, const void *up, int64_t stride, void *y, int64_t T,
                               int64_t F, tess_activation act, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("glu", dtype));
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < F; i++) {
            float activated = v_activate(ref_get(gate, t * stride + i, dtype), act);
            ref_put(y, t * F + i, activated * ref_get(up, t * stride + i, dtype), dtype);
        }
    return TESS_OK;
}

static tess_status glu_backward(tess_stream *s, const void *gate, const void *up, int64_t stride, const void *dy,
                                void *dgate, void *dup, int64_t dstride, int64_t T, int64_t F, tess_activation act,
                                tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("glu backward", dtype));
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < F; i++) {
            float g = ref_get(gate, t * stride + i, dtype), u = ref_get(up, t * stride + i, dtype);
            float d = ref_get(dy, t * F + i, dtype);
            float slope, activated = v_activate_with_slope(g, act, &slope);
            ref_put(dgate, t * dstride + i, d * u * slope, dtype);
            ref_put(dup, t * dstride + i, d * activated, dtype);
        }
    return TESS_OK;
}

static tess_status act_forward(tess_stream *s, const void *x, void *y, int64_t n, tess_activation act, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("activation", dtype));
    for (int64_t i = 0; i < n; i++)
        ref_put(y, i, v_activate(ref_get(x, i, dtype), act), dtype);
    return TESS_OK;
}

static tess_status act_backward(tess_stream *s, const void *x, const void *dy, void *dx, int64_t n, tess_activation act,
                                tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("activation backward", dtype));
    for (int64_t i = 0; i < n; i++) {
        float slope;
        v_activate_with_slope(ref_get(x, i, dtype), act, &slope);
        ref_put(dx, i, ref_get(dy, i, dtype) * slope, dtype);
    }
    return TESS_OK;
}

void tess_ref_glu(tess_kernels *k)
{
    k->glu_forward = glu_forward;
    k->glu_backward = glu_backward;
    k->act_forward = act_forward;
    k->act_backward = act_backward;
}
