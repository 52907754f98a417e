#include "device/adamw.h"

#include <math.h>
#include <string.h>

#include "device/ref/ref_impl.h"

static void record(tess_undo *undo, int64_t i, int64_t n, const float *p, const float *m, const float *v)
{
    float(*old)[TESS_UNDO_BLOCK] = tess_undo_slot(undo);
    int64_t count = n - i < TESS_UNDO_BLOCK ? n - i : TESS_UNDO_BLOCK;
    memcpy(old[0], p + i, (size_t)count * sizeof(float));
    memcpy(old[1], m + i, (size_t)count * sizeof(float));
    memcpy(old[2], v + i, (size_t)count * sizeof(float));
    tess_undo_mark(undo, i, count);
}

static tess_status adamw(tess_stream *s, float *p, float *m, float *v, const float *g, int64_t n, float lr, float beta1,
                         float beta2, float eps, float weight_decay, float bias1, float bias2, float grad_scale,
                         void *copy, tess_dtype copy_dtype, tess_undo *undo)
{
    (void)s;
    TESS_TRY(tess_check_dtype("adamw", copy_dtype));
    adamw_step a = adamw_step_of(lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale);
    for (int64_t i = 0; i < n; i++) {
        if (undo != NULL && i % TESS_UNDO_BLOCK == 0)
            record(undo, i, n, p, m, v);
        float grad = g[i] * a.grad_scale;
        m[i] = m[i] + a.one_minus_beta1 * (grad - m[i]);
        v[i] = v[i] * a.beta2 + a.one_minus_beta2 * grad * grad;
        p[i] = p[i] * a.decay - a.step_size * m[i] / (sqrtf(v[i]) / a.sqrt_bias2 + a.eps);
        if (copy != NULL)
            ref_put(copy, i, p[i], copy_dtype);
    }
    return TESS_OK;
}

void tess_ref_adamw(tess_kernels *k)
{
    k->adamw = adamw;
}
