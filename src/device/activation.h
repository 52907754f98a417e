/* Activations and their derivatives over `vec` (include a header of vectors and device/vmath.h first).
 *
 * gelu_tanh(x) = x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): one exponential, and small
 * negative results keep their digits. Derivatives clamp x where they are 0 or 1 in float, so that an infinite x gives
 * no NaN. */
#ifndef TESS_DEVICE_ACTIVATION_H
#define TESS_DEVICE_ACTIVATION_H

#include "device/kernels.h"

#define TESS_GELU_TWO_K 0x1.988454p+0f /* 2 sqrt(2/pi) */
#define TESS_GELU_CUBIC 0x1.6e4e26p-5f /* 0.044715 */

static inline vec v_clamp(vec x, float limit)
{
    return v_min(v_set(limit), v_max(v_set(-limit), x));
}

/* 2u */
static inline vec v_gelu_argument(vec x)
{
    vec cubic = v_fma(v_mul(x, x), v_set(TESS_GELU_CUBIC), v_set(1.0f));
    return v_mul(v_mul(x, v_set(TESS_GELU_TWO_K)), cubic);
}

/* s + z s (1 - s) for s = sigmoid(x), where 1 - s keeps its digits when s is near 1. */
static inline vec v_sigmoid_slope(vec x, vec z)
{
    const vec one = v_set(1.0f);
    vec e = v_exp(v_sub(v_set(0.0f), x));
    vec s = v_div(one, v_add(one, e));
    vec rest = v_select(v_less(e, one), v_mul(e, s), v_sub(one, s));
    return v_mul(s, v_fma(z, rest, one));
}

static inline vec v_activate(vec x, tess_activation act)
{
    if (act == TESS_ACT_SILU)
        return v_mul(x, v_sigmoid(x));
    if (act == TESS_ACT_GELU_TANH)
        return v_mul(x, v_sigmoid(v_gelu_argument(x)));
    vec erf = v_erf(v_mul(x, v_set(0x1.6a09e6p-1f))); /* 1/sqrt(2) */
    return v_mul(v_mul(v_set(0.5f), x), v_add(v_set(1.0f), erf));
}

static inline vec v_activate_grad(vec x, tess_activation act)
{
    const vec one = v_set(1.0f);
    if (act == TESS_ACT_SILU) {
        x = v_clamp(x, 128.0f);
        return v_sigmoid_slope(x, x);
    }
    x = v_clamp(x, 16.0f);
    if (act == TESS_ACT_GELU_TANH) { /* z = x (2u)' */
        vec slope = v_fma(v_mul(x, x), v_set(3 * TESS_GELU_CUBIC), one);
        return v_sigmoid_slope(v_gelu_argument(x), v_mul(v_mul(x, v_set(TESS_GELU_TWO_K)), slope));
    }
    vec cdf = v_mul(v_set(0.5f), v_add(one, v_erf(v_mul(x, v_set(0x1.6a09e6p-1f)))));
    vec density = v_mul(v_set(0x1.988454p-2f), v_exp(v_mul(v_mul(x, x), v_set(-0.5f)))); /* 1/sqrt(2 pi) */
    return v_fma(x, density, cdf);
}

#endif
