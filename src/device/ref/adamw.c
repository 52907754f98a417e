#include "device/adamw.h"

#include <math.h>

#include "device/ref/ref_impl.h"

static tess_status adamw(tess_stream *s, float *p, float *m, float *v, const float *g, int64_t n, float lr, float beta1,
                         float beta2, float eps, float weight_decay, float bias1, float bias2, float grad_scale,
                         void *copy, tess_dtype copy_dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("adamw", copy_dtype));
    adamw_step a = adamw_step_of(lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale);
    for (int64_t i = 0; i < n; i++) {
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
