/* Activations and their derivatives on `vec`. Include a header of vectors and device/vmath.h first.
 *
 * gelu_tanh(x) = x/2 (1 + tanh u) = x sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3). The second form needs one
 * exponential, and small negative results keep their digits. */
#ifndef TESS_DEVICE_ACTIVATION_H
#define TESS_DEVICE_ACTIVATION_H

#include "device/kernels.h"
#include "device/shared_code.h"

#define TESS_GELU_TWO_K 0x1.988454p+0f /* 2 sqrt(2/pi) */
#define TESS_GELU_CUBIC 0x1.6e4e26p-5f /* 0.044715 */

/* Returns 2u, for u as above. */
TESS_SHARED vec v_gelu_argument(vec x)
{
    vec cubic = v_fma(v_mul(x, x), v_set(TESS_GELU_CUBIC), v_set(1.0f));
    return v_mul(v_mul(x, v_set(TESS_GELU_TWO_K)), cubic);
}

TESS_SHARED vec v_activate(vec x, tess_activation act)
{
    if (act == TESS_ACT_GELU_ERF) {
        vec density;
        return v_mul(x, v_normal(x, &density));
    }
    return v_mul(x, v_sigmoid(act == TESS_ACT_SILU ? x : v_gelu_argument(x)));
}

/* Returns v_activate(x), and the derivative: s + z s (1 - s) with s = sigmoid(a(x)) and z = x a'(x); for gelu_erf it is
 * Phi + x phi. x is clamped where its factor is 0 in float, so that an infinite x gives 0 or 1. `rest` = 1 - s keeps
 * its digits when s is near 1. */
TESS_SHARED vec v_activate_with_slope(vec x, tess_activation act, vec *slope)
{
    const vec one = v_set(1.0f);
    if (act == TESS_ACT_GELU_ERF) {
        vec density, cdf = v_normal(x, &density);
        *slope = v_fma(v_clamp(x, 16.0f), density, cdf);
        return v_mul(x, cdf);
    }
    vec argument = x, z = v_clamp(x, 128.0f);
    if (act == TESS_ACT_GELU_TANH) {
        argument = v_gelu_argument(x);
        z = v_mul(v_mul(z, v_set(TESS_GELU_TWO_K)), v_fma(v_mul(z, z), v_set(3 * TESS_GELU_CUBIC), one));
    }
    vec e = v_exp(v_sub(v_set(0.0f), argument));
    vec s = v_div(one, v_add(one, e));
    vec rest = v_select(v_less(e, one), v_mul(e, s), v_sub(one, s));
    *slope = v_mul(s, v_fma(z, rest, one));
    return v_mul(x, s);
}

TESS_SHARED vec v_at_most(vec x, float limit)
{
    return v_select(v_less(v_set(limit), x), v_set(limit), x);
}

TESS_SHARED vec v_negative(vec x)
{
    return v_sub(v_set(0.0f), x);
}

/* Returns g sigmoid(alpha g) (u + 1) of a gate and an up, clamped (tess_clamped_glu_args). */
TESS_SHARED vec v_clamped_glu(vec gate, vec up, float alpha, float limit)
{
    const vec g = v_at_most(gate, limit), u = v_negative(v_at_most(v_negative(v_at_most(up, limit)), limit));
    return v_mul(v_mul(g, v_sigmoid(v_mul(g, v_set(alpha)))), v_add(u, v_set(1.0f)));
}

/* Returns v_clamped_glu, and replaces gate and up by the derivatives. */
TESS_SHARED vec v_clamped_glu_with_slopes(vec *gate, vec *up, float alpha, float limit)
{
    const vec one = v_set(1.0f), zero = v_set(0.0f), most = v_set(limit);
    const vec g = v_at_most(*gate, limit), u = v_negative(v_at_most(v_negative(v_at_most(*up, limit)), limit));
    const vec z = v_mul(g, v_set(alpha)), e = v_exp(v_negative(z)), s = v_div(one, v_add(one, e));
    const vec rest = v_select(v_less(e, one), v_mul(e, s), v_sub(one, s)), glu = v_mul(g, s), more = v_add(u, one);
    const vec dgate = v_mul(v_mul(s, v_fma(v_clamp(z, 128.0f), rest, one)), more);
    const vec dup = v_select(v_less(*up, v_negative(most)), zero, glu);
    *gate = v_select(v_less(most, *gate), zero, dgate);
    *up = v_select(v_less(most, *up), zero, dup);
    return v_mul(glu, more);
}

#endif
