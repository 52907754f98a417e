/* The constants of one AdamW step. They are computed in double and rounded once, as torch does with its Python numbers.
 * The elements are then updated in float32 without FMA, in torch's order:
 *   p' = p decay
 *   m += (1 - beta1) (g - m)
 *   v = v beta2 + ((1 - beta2) g) g
 *   p = p' - (step m) / (sqrt(v) / sqrt(bias2) + eps) */
#ifndef TESS_DEVICE_ADAMW_H
#define TESS_DEVICE_ADAMW_H

#include <math.h>

#include "device/kernels.h"

typedef struct adamw_step {
    float grad_scale, decay, one_minus_beta1, beta2, one_minus_beta2, step_size, sqrt_bias2, eps;
} adamw_step;

static inline adamw_step adamw_step_of(const tess_adamw_update *u)
{
    return (adamw_step){
        .grad_scale = u->grad_scale,
        .decay = (float)(1.0 - (double)u->lr * (double)u->weight_decay),
        .one_minus_beta1 = (float)(1.0 - (double)u->beta1),
        .beta2 = u->beta2,
        .one_minus_beta2 = (float)(1.0 - (double)u->beta2),
        .step_size = (float)((double)u->lr / (double)u->bias1),
        .sqrt_bias2 = (float)sqrt((double)u->bias2),
        .eps = u->eps,
    };
}

#endif
