/* `vec`: one float. The scalar form of the operations in cpu/vec_avx512.h that device/vmath.h needs, so that the
 * reference computes exp, log and erf in the same steps as every instruction set. */
#ifndef TESS_DEVICE_REF_VEC_REF_H
#define TESS_DEVICE_REF_VEC_REF_H

#include <math.h>
#include <stdbool.h>

#include "device/bf16.h"

typedef float vec;
typedef int32_t ivec;
typedef bool vmask;

static inline vec v_set(float x)
{
    return x;
}

static inline vec v_add(vec a, vec b)
{
    return a + b;
}

static inline vec v_sub(vec a, vec b)
{
    return a - b;
}

static inline vec v_mul(vec a, vec b)
{
    return a * b;
}

static inline vec v_div(vec a, vec b)
{
    return a / b;
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return fmaf(a, b, c);
}

static inline vec v_fnma(vec a, vec b, vec c)
{
    return fmaf(-a, b, c);
}

static inline vec v_max(vec a, vec b)
{
    return a > b ? a : b;
}

static inline vec v_min(vec a, vec b)
{
    return a < b ? a : b;
}

static inline vmask v_less(vec a, vec b)
{
    return a < b;
}

static inline vmask v_equal(vec a, vec b)
{
    return a == b;
}

static inline vec v_select(vmask m, vec a, vec b)
{
    return m ? a : b;
}

static inline ivec v_bits(vec a)
{
    return (int32_t)tess_float_bits(a);
}

static inline vec v_from_bits(ivec a)
{
    return tess_bits_float((uint32_t)a);
}

static inline ivec v_iset(int32_t x)
{
    return x;
}

static inline ivec v_isub(ivec a, ivec b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static inline ivec v_iand(ivec a, ivec b)
{
    return a & b;
}

static inline ivec v_ior(ivec a, ivec b)
{
    return a | b;
}

static inline ivec v_ishift23(ivec a)
{
    return a >> 23;
}

static inline ivec v_ishift_left23(ivec a)
{
    return (int32_t)((uint32_t)a << 23);
}

static inline vec v_from_int(ivec a)
{
    return (float)a;
}

static inline vec v_scale2(vec p, vec n)
{
    return n == n ? ldexpf(p, (int)n) : p;
}

#endif
