/* The constants of one AdamW step, worked out in double and rounded once, as torch does with its Python numbers; the
 * elements follow in float32 without FMA, in torch's order:
 *   p' = p decay; m += (1 - beta1) (g - m); v = v beta2 + ((1 - beta2) g) g; p = p' - (step m) / (sqrt(v) / sqrt(bias2)
 * + eps) */
#ifndef TESS_DEVICE_ADAMW_H
#define TESS_DEVICE_ADAMW_H

#include <math.h>

typedef struct adamw_step {
    float grad_scale, decay, one_minus_beta1, beta2, one_minus_beta2, step_size, sqrt_bias2, eps;
} adamw_step;

static inline adamw_step adamw_step_of(float lr, float beta1, float beta2, float eps, float weight_decay, float bias1,
                                       float bias2, float grad_scale)
{
    return (adamw_step){
        .grad_scale = grad_scale,
        .decay = (float)(1.0 - (double)lr * (double)weight_decay),
        .one_minus_beta1 = (float)(1.0 - (double)beta1),
        .beta2 = beta2,
        .one_minus_beta2 = (float)(1.0 - (double)beta2),
        .step_size = (float)((double)lr / (double)bias1),
        .sqrt_bias2 = (float)sqrt((double)bias2),
        .eps = eps,
    };
}

#endif
