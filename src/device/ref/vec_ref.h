/* `vec` as one float: the scalar form of the operations of cpu/vec_avx512.h that device/vmath.h needs. So the reference
 * computes exp, log and tanh in the same steps as all instruction sets. */
#ifndef TESS_DEVICE_REF_VEC_REF_H
#define TESS_DEVICE_REF_VEC_REF_H

#include <math.h>
#include <stdbool.h>

#include "device/bf16.h"

typedef float vec;
typedef int32_t ivec;
typedef bool vmask;

TESS_SHARED vec v_set(float x)
{
    return x;
}

TESS_SHARED vec v_add(vec a, vec b)
{
    return a + b;
}

TESS_SHARED vec v_sub(vec a, vec b)
{
    return a - b;
}

TESS_SHARED vec v_mul(vec a, vec b)
{
    return a * b;
}

TESS_SHARED vec v_div(vec a, vec b)
{
    return a / b;
}

TESS_SHARED vec v_fma(vec a, vec b, vec c)
{
    return fmaf(a, b, c);
}

TESS_SHARED vec v_fnma(vec a, vec b, vec c)
{
    return fmaf(a, -b, c); /* b is a constant mostly */
}

#ifndef TESS_VEC_OWN_RANGES /* defined by code with its own v_max, v_min and scales: device/cuda/cuda_vec.h */
TESS_SHARED vec v_max(vec a, vec b)
{
    return a > b ? a : b;
}

TESS_SHARED vec v_min(vec a, vec b)
{
    return a < b ? a : b;
}
#endif

TESS_SHARED vmask v_less(vec a, vec b)
{
    return a < b;
}

TESS_SHARED vmask v_equal(vec a, vec b)
{
    return a == b;
}

TESS_SHARED vec v_select(vmask m, vec a, vec b)
{
    return m ? a : b;
}

TESS_SHARED ivec v_bits(vec a)
{
    return (int32_t)tess_float_bits(a);
}

TESS_SHARED vec v_from_bits(ivec a)
{
    return tess_bits_float((uint32_t)a);
}

TESS_SHARED ivec v_iset(int32_t x)
{
    return x;
}

TESS_SHARED ivec v_isub(ivec a, ivec b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

TESS_SHARED ivec v_iand(ivec a, ivec b)
{
    return a & b;
}

TESS_SHARED ivec v_ior(ivec a, ivec b)
{
    return a | b;
}

TESS_SHARED ivec v_ishift23(ivec a)
{
    return a >> 23;
}

TESS_SHARED ivec v_ishift_left23(ivec a)
{
    return (int32_t)((uint32_t)a << 23);
}

TESS_SHARED vec v_from_int(ivec a)
{
    return (float)a;
}

/* Returns 2^n, n in [-126, 127]. */
TESS_SHARED vec v_power_of_2(int n)
{
    return tess_bits_float((uint32_t)(n + 127) << 23);
}

#ifndef TESS_VEC_OWN_RANGES
/* Returns p 2^n, p in [1/2, 2), n whole in [-200, 200]. 2^n may not be a float, so it is applied as two factors. The
 * first product is exact, so there is one rounding. */
TESS_SHARED vec v_scale2(vec p, vec n)
{
    if (n != n)
        return p;
    int whole = (int)n, half = whole / 2;
    return p * v_power_of_2(half) * v_power_of_2(whole - half);
}
#endif

#endif
