/* Scalar conversions between float and the two 16-bit formats. They round to nearest even; a NaN stays a NaN and
 * becomes quiet. Every vector conversion gives the same bits. */
#ifndef TESS_DEVICE_BF16_H
#define TESS_DEVICE_BF16_H

#include <stdint.h>
#include <string.h>

#include "device/shared_code.h"
#include "tessera/types.h"

TESS_SHARED uint32_t tess_float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

TESS_SHARED float tess_bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof(x));
    return x;
}

TESS_SHARED float tess_bf16_to_float(uint16_t h)
{
    return tess_bits_float((uint32_t)h << 16);
}

TESS_SHARED uint16_t tess_float_to_bf16(float x)
{
    uint32_t u = tess_float_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

TESS_SHARED float tess_f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31)
        return tess_bits_float(sign | 0x7f800000u | mantissa << 13 | (mantissa != 0 ? 0x400000u : 0));
    if (exponent != 0)
        return tess_bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    /* A subnormal: mantissa * 2^-24 is exact in float; the sign is added as a bit, which also gives -0. */
    return tess_bits_float(sign | tess_float_bits((float)mantissa * 0x1p-24f));
}

TESS_SHARED uint16_t tess_float_to_f16(float x)
{
    uint32_t u = tess_float_bits(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x47800000u) /* 65536 or more: infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude <
        0x38800000u) /* below 2^-14: adding 0.5 leaves multiples of 2^-24 in the low bits, rounded to even */
        return (uint16_t)(sign | (tess_float_bits(tess_bits_float(magnitude) + 0.5f) - 0x3f000000u));
    magnitude -= 112u << 23;
    return (uint16_t)(sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

/* Returns element i of x (F32, BF16 or F16) as a float. */
TESS_SHARED float tess_get_float(const void *x, tess_dtype dtype, size_t i)
{
    if (dtype == TESS_F32)
        return ((const float *)x)[i];
    uint16_t half = ((const uint16_t *)x)[i];
    return dtype == TESS_BF16 ? tess_bf16_to_float(half) : tess_f16_to_float(half);
}

TESS_SHARED void tess_put_float(void *x, tess_dtype dtype, size_t i, float value)
{
    if (dtype == TESS_F32)
        ((float *)x)[i] = value;
    else
        ((uint16_t *)x)[i] = dtype == TESS_BF16 ? tess_float_to_bf16(value) : tess_float_to_f16(value);
}

#endif
