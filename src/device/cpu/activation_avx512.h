/* Activations on 16 floats (__m512), for store routines that follow a product with act_forward or act_backward in
 * bfloat16: the same bits as storing the product and calling those rows. `act` is meant to be a constant after
 * inlining: branch on it once, outside the loops. */
#ifndef TESS_DEVICE_CPU_ACTIVATION_AVX512_H
#define TESS_DEVICE_CPU_ACTIVATION_AVX512_H

#include "device/cpu/vmath_avx512.h"
#include "device/activation.h"

/* What act_forward gives for the product x: store v_round_bf16(x) for backward and this, rounded, as the result. */
static inline vec v_activate_product(vec x, tess_activation act)
{
    return v_activate(v_round_bf16(x), act);
}

/* What act_backward gives for the product dy and the saved input x of the activation. */
static inline vec v_activate_product_backward(vec dy, vec x, tess_activation act)
{
    vec slope;
    v_activate_with_slope(x, act, &slope);
    return v_mul(v_round_bf16(dy), slope);
}

#endif
