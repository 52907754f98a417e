/* exp, log, tanh, sigmoid and the normal distribution for the `vec` of the header that was included before. All
 * instruction sets and the scalar reference run the same operations and give the same bits. The polynomials are from
 * Remez's exchange algorithm. */
#ifndef TESS_DEVICE_VMATH_H
#define TESS_DEVICE_VMATH_H

#include "device/shared_code.h"

TESS_SHARED vec v_clamp(vec x, float limit)
{
    return v_min(v_set(limit), v_max(v_set(-limit), x));
}

/* exp(x) = 2^n (1 + r + r^2 P(r)), n = nearest(x / ln 2), |r| <= ln 2 / 2, for x in [-104, 90] or NaN. Sets n, and
 * returns the other factor. */
TESS_SHARED vec v_exp_factors(vec x, vec *n)
{
    const vec magic = v_set(12582912.0f); /* 1.5 * 2^23: adding it and subtracting it again rounds to an integer */
    *n = v_sub(v_fma(x, v_set(0x1.715476p+0f), magic), magic);
    vec r = v_fnma(*n, v_set(0x1.62e400p-1f), x);
    r = v_fnma(*n, v_set(0x1.7f7d1cp-20f), r);
    vec p = v_fma(v_set(0x1.6db41ap-10f), r, v_set(0x1.123b48p-7f));
    p = v_fma(p, r, v_set(0x1.55545ep-5f));
    p = v_fma(p, r, v_set(0x1.55548ep-3f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(v_mul(r, r), p, r);
    return v_add(p, v_set(1.0f));
}

/* exp(x) for x <= 90 or NaN. Error about 1 ulp; subnormal results are rounded once; 0 below -104, inf above 88.73, NaN
 * for NaN. */
TESS_SHARED vec v_exp_bounded(vec x)
{
    vec n, p = v_exp_factors(v_max(v_set(-104.0f), x), &n);
    return v_scale2(p, n);
}

/* v_exp_bounded for any x. */
TESS_SHARED vec v_exp(vec x)
{
    return v_exp_bounded(v_min(v_set(90.0f), x));
}

/* log(x) = e ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)). Error about 1 ulp; -inf for 0, NaN below 0, inf for inf.
 */
TESS_SHARED vec v_log(vec x)
{
    vmask tiny = v_less(x, v_set(0x1p-126f));
    vec y = v_select(tiny, v_mul(x, v_set(0x1p23f)), x);
    ivec e = v_ishift23(v_isub(v_bits(y), v_iset(0x3f3504f3)));
    vec n = v_sub(v_from_int(e), v_select(tiny, v_set(23.0f), v_set(0.0f)));
    /* Subtracting e from the exponent field leaves 1 + f. */
    vec f = v_sub(v_from_bits(v_isub(v_bits(y), v_ishift_left23(e))), v_set(1.0f));
    vec p = v_fma(v_set(-0x1.38b578p-4f), f, v_set(0x1.055b68p-3f));
    p = v_fma(p, f, v_set(-0x1.0d8542p-3f));
    p = v_fma(p, f, v_set(0x1.22da1ep-3f));
    p = v_fma(p, f, v_set(-0x1.547244p-3f));
    p = v_fma(p, f, v_set(0x1.99a008p-3f));
    p = v_fma(p, f, v_set(-0x1.000226p-2f));
    p = v_fma(p, f, v_set(0x1.555554p-2f));
    vec f2 = v_mul(f, f);
    p = v_fma(v_mul(f2, f), p, v_mul(n, v_set(0x1.7f7d1cp-20f)));
    p = v_add(v_fnma(v_set(0.5f), f2, p), f);
    vec result = v_fma(n, v_set(0x1.62e400p-1f), p);
    result = v_select(v_equal(x, v_set(__builtin_inff())), x, result);
    result = v_select(v_less(x, v_set(0.0f)), v_set(__builtin_nanf("")), result);
    result = v_select(v_equal(x, v_set(0.0f)), v_set(-__builtin_inff()), result);
    return v_select(v_equal(x, x), result, x);
}

#ifndef TESS_VEC_OWN_RANGES
/* v_scale2 for n <= 0, and for n >= -60. */
TESS_SHARED vec v_scale2_down(vec p, vec n)
{
    return v_scale2(p, n);
}

TESS_SHARED vec v_scale2_up(vec p, vec n)
{
    return v_scale2(p, n);
}
#endif

/* v_exp_bounded for x <= 0 or NaN. */
TESS_SHARED vec v_exp_negative(vec x)
{
    vec n, p = v_exp_factors(v_max(v_set(-104.0f), x), &n);
    return v_scale2_down(p, n);
}

/* Returns 1 + exp(x). Below -40, exp(x) is lost next to 1. */
TESS_SHARED vec v_one_plus_exp(vec x)
{
    vec n, p = v_exp_factors(v_min(v_set(90.0f), v_max(v_set(-40.0f), x)), &n);
    return v_add(v_set(1.0f), v_scale2_up(p, n));
}

/* Returns 1 / (1 + exp(-x)). */
TESS_SHARED vec v_sigmoid(vec x)
{
    return v_div(v_set(1.0f), v_one_plus_exp(v_sub(v_set(0.0f), x)));
}

/* tanh(x) = x P(x^2) / Q(x^2) up to 9.02 in magnitude, where it is 1 in float; all coefficients are positive. Error
 * below 5.3 ulp, which is 3.2e-7 of the value. */
TESS_SHARED vec v_tanh(vec x)
{
    x = v_clamp(x, 9.02f);
    const vec t = v_mul(x, x);
    vec p = v_fma(v_set(0x1.c9a3e8p-27f), t, v_set(0x1.59556cp-16f));
    p = v_fma(p, t, v_set(0x1.c9f85ep-9f));
    p = v_fma(p, t, v_set(0x1.120442p-3f));
    p = v_fma(p, t, v_set(1.0f));
    vec q = v_fma(v_set(0x1.a0b876p-21f), t, v_set(0x1.5841e2p-12f));
    q = v_fma(q, t, v_set(0x1.a7df28p-6f));
    q = v_fma(q, t, v_set(0x1.de576ap-2f));
    q = v_fma(q, t, v_set(1.0f));
    return v_clamp(v_div(v_mul(x, p), q), 1.0f);
}

/* Returns cap tanh(x / cap); inverse: 1 / cap. -inf remains, because a masked value must not return. */
TESS_SHARED vec v_soft_cap(vec x, float cap, float inverse)
{
    const vec y = v_mul(v_set(cap), v_tanh(v_mul(x, v_set(inverse))));
    return v_select(v_equal(x, v_set(-__builtin_inff())), x, y);
}

/* Returns the derivative at the x with v_soft_cap(x) = y; 0 for -inf. */
TESS_SHARED vec v_soft_cap_slope(vec y, float inverse)
{
    const vec t = v_clamp(v_mul(y, v_set(inverse)), 1.0f);
    return v_fnma(t, t, v_set(1.0f));
}

/* Returns the distribution function Phi(x) of the normal distribution, and its density phi(x). The tail Phi(-|x|) is
 * e t P(t) with e = exp(-x^2/2) and t = 1 / (1 + |x|/4). The rounding error of x^2 is corrected. Error of Phi
 * below 7.2 ulp and 4.8e-7 of the value, in the tail, too. Beyond 12.5 in magnitude e is 0, so that few products with
 * it are subnormal: AMX kernels flush those. */
TESS_SHARED vec v_normal(vec x, vec *density)
{
    const vec z = v_clamp(x, 16.0f), one = v_set(1.0f), half = v_set(0.5f);
    const vec size = v_from_bits(v_iand(v_bits(z), v_iset(INT32_MAX))), square = v_mul(z, z);
    const vec lost = v_fnma(z, z, square); /* square - x^2 */
    vec e = v_exp_bounded(v_mul(square, v_set(-0.5f)));
    e = v_select(v_less(v_set(12.5f), size), v_set(0), v_fma(v_mul(e, half), lost, e));
    const vec t = v_div(one, v_fma(v_set(0.25f), size, one));
    vec p = v_fma(v_set(0x1.0fa486p-6f), t, v_set(-0x1.0132eap-4f));
    p = v_fma(p, t, v_set(0x1.a72550p-5f));
    p = v_fma(p, t, v_set(0x1.d1de7ap-6f));
    p = v_fma(p, t, v_set(0x1.a09388p-7f));
    p = v_fma(p, t, v_set(0x1.62f1d6p-4f));
    p = v_fma(p, t, v_set(0x1.26e900p-4f));
    p = v_fma(p, t, v_set(0x1.873b78p-4f));
    p = v_fma(p, t, v_set(0x1.978582p-4f));
    p = v_fma(p, t, v_set(0x1.989142p-4f));
    const vec tail = v_mul(e, v_mul(t, p));
    *density = v_mul(v_set(0x1.988454p-2f), e); /* 1/sqrt(2 pi) */
    return v_select(v_less(x, v_set(0)), tail, v_sub(one, tail));
}

#endif
