/* exp, log, erf and sigmoid for the `vec` of the header that was included before. All instruction sets and the scalar
 * reference run the same operations and give the same bits. The polynomials are from Remez's exchange algorithm. */
#ifndef TESS_DEVICE_VMATH_H
#define TESS_DEVICE_VMATH_H

#include "device/shared_code.h"

/* exp(x) = 2^n (1 + r + r^2 P(r)), n = nearest(x / ln 2), |r| <= ln 2 / 2, for x <= 90 or NaN. Error about 1 ulp;
 * subnormal results are rounded once; 0 below -104, inf above 88.73, NaN for NaN. */
TESS_SHARED vec v_exp_bounded(vec x)
{
    const vec magic = v_set(12582912.0f); /* 1.5 * 2^23: adding it and subtracting it again rounds to an integer */
    x = v_max(v_set(-104.0f), x);
    vec n = v_sub(v_fma(x, v_set(0x1.715476p+0f), magic), magic);
    vec r = v_fnma(n, v_set(0x1.62e400p-1f), x);
    r = v_fnma(n, v_set(0x1.7f7d1cp-20f), r);
    vec p = v_fma(v_set(0x1.6db41ap-10f), r, v_set(0x1.123b48p-7f));
    p = v_fma(p, r, v_set(0x1.55545ep-5f));
    p = v_fma(p, r, v_set(0x1.55548ep-3f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(v_mul(r, r), p, r);
    return v_scale2(v_add(p, v_set(1.0f)), n);
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

/* Returns 1 / (1 + exp(-x)). */
TESS_SHARED vec v_sigmoid(vec x)
{
    return v_div(v_set(1.0f), v_add(v_set(1.0f), v_exp(v_sub(v_set(0.0f), x))));
}

/* erf(x) = x + x P(x^2) below 1 in magnitude, else sign(x) (1 - exp(-Q(|x|))); 1 from 4 on. Error about 1 ulp. */
TESS_SHARED vec v_erf(vec x)
{
    const ivec sign_bit = v_iset(INT32_MIN);
    ivec sign = v_iand(v_bits(x), sign_bit);
    vec a = v_min(v_set(4.0f), v_from_bits(v_isub(v_bits(x), sign)));
    vec t = v_mul(x, x);
    vec p = v_fma(v_set(0x1.496a30p-14f), t, v_set(-0x1.a3f700p-11f));
    p = v_fma(p, t, v_set(0x1.5405b2p-8f));
    p = v_fma(p, t, v_set(-0x1.b7f90ep-6f));
    p = v_fma(p, t, v_set(0x1.ce2cf8p-4f));
    p = v_fma(p, t, v_set(-0x1.81273ep-2f));
    p = v_fma(p, t, v_set(0x1.06eba8p-3f));
    vec small = v_fma(x, p, x);
    vec q = v_fma(v_set(-0x1.87b2fap-13f), a, v_set(0x1.82e874p-9f));
    q = v_fma(q, a, v_set(-0x1.6617f8p-6f));
    q = v_fma(q, a, v_set(0x1.a67e76p-4f));
    q = v_fma(q, a, v_set(0x1.46b434p-1f));
    q = v_fma(q, a, v_set(0x1.208b1ap+0f));
    q = v_fma(q, a, v_set(0x1.5cda9ap-12f));
    vec large = v_sub(v_set(1.0f), v_exp(v_sub(v_set(0.0f), q)));
    large = v_from_bits(v_ior(v_bits(large), sign));
    return v_select(v_less(a, v_set(1.0f)), small, large);
}

#endif
