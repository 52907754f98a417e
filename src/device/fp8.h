/* Scalar conversions between float32 and the two 8-bit formats (Micikevicius et al., arXiv:2209.05433), with the same
 * bits as torch 2.15. They round to nearest even. E4M3 has no infinity, and larger values become 448 (in older torch:
 * NaN). E5M2 is the upper half of float16, and larger values become infinite. Below are the scales of blocks. */
#ifndef TESS_DEVICE_FP8_H
#define TESS_DEVICE_FP8_H

#include <math.h>

#include "device/bf16.h"

typedef enum tess_fp8 { TESS_E4M3, TESS_E5M2 } tess_fp8;

#define TESS_E4M3_MAX 448.0f
#define TESS_E5M2_MAX 57344.0f

TESS_SHARED uint8_t tess_float_to_fp8(float x, tess_fp8 format)
{
    const bool e4m3 = format == TESS_E4M3;
    const uint32_t mantissa = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, shift = 23 - mantissa;
    uint32_t u = tess_float_bits(x), sign = u >> 24 & 0x80u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    if (e4m3 && magnitude > 0x43e00000u) /* more than 448 */
        return (uint8_t)(sign | 0x7eu);
    if (magnitude >= 0x47800000u) /* 65536 or more */
        return (uint8_t)(sign | 0x7cu);
    /* Below the smallest normal number: adding this power of two leaves the value's multiple of the smallest subnormal
     * number, rounded to even, in the low bits. */
    uint32_t power = (127 + 1 - bias - mantissa + 23) << 23;
    if (magnitude < (127 + 1 - bias) << 23)
        return (uint8_t)(sign | (tess_float_bits(tess_bits_float(magnitude) + tess_bits_float(power)) - power));
    magnitude -= (127 - bias) << 23;
    return (uint8_t)(sign | (magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1u)) >> shift);
}

TESS_SHARED float tess_fp8_to_float(uint8_t code, tess_fp8 format)
{
    if (format == TESS_E5M2)
        return tess_f16_to_float((uint16_t)(code << 8));
    uint32_t sign = (uint32_t)(code & 0x80u) << 24, exponent = code >> 3 & 15u, mantissa = code & 7u;
    if (exponent == 15 && mantissa == 7)
        return tess_bits_float(sign | 0x7ff00000u);
    if (exponent != 0)
        return tess_bits_float(sign | (exponent + 120) << 23 | mantissa << 20);
    return tess_bits_float(sign | tess_float_bits((float)mantissa * 0x1p-9f));
}

/* The scale of a block whose largest magnitude is `most`: the smallest power of two by which no value becomes too large
 * (DeepSeek-V3, arXiv:2412.19437, 3.3.2, with scales rounded up to E8M0). A code times a power of two is exact in
 * bfloat16. The scale is at least 2^-110, so that the values that are rounded are 0 or normal numbers. */
enum { TESS_FP8_BLOCK = 128, TESS_FP8_LEAST_SCALE = -110 };

TESS_SHARED float tess_fp8_scale(float most, tess_fp8 format)
{
    /* 1.75 x 2^top is the largest value */
    const uint32_t top = format == TESS_E4M3 ? 8 : 15, least = 127 + TESS_FP8_LEAST_SCALE;
    uint32_t bits = tess_float_bits(most), exponent = (bits >> 23) + ((bits & 0x7fffffu) > 0x600000u);
    return tess_bits_float((exponent > least + top ? exponent - top : least) << 23);
}

TESS_SHARED float tess_round_fp8(float x, float scale, tess_fp8 format)
{
    return scale * tess_fp8_to_float(tess_float_to_fp8(x * (1 / scale), format), format);
}

/* A block of codes has its scale as a byte: the exponent of a float32 (E8M0). TESS_FP8_NOT_FINITE is the exponent of
 * infinity, and zero times infinity is NaN. */
enum { TESS_FP8_NOT_FINITE = 255 };

/* Encodes a block of n floats, each rounded to bfloat16 first if `narrow`. Returns the scale's byte. */
TESS_SHARED uint8_t tess_fp8_encode(const float *x, int64_t n, bool narrow, uint8_t *codes)
{
    float most = 0, none = 0; /* none: NaN if a value is not finite */
    for (int64_t i = 0; i < n; i++) {
        float value = narrow ? tess_bf16_to_float(tess_float_to_bf16(x[i])) : x[i];
        most = fmaxf(most, fabsf(value));
        none += value - value;
    }
    float scale = tess_fp8_scale(most, TESS_E4M3);
    for (int64_t i = 0; i < n; i++) {
        float value = narrow ? tess_bf16_to_float(tess_float_to_bf16(x[i])) : x[i];
        codes[i] = none == 0 ? tess_float_to_fp8(value * (1 / scale), TESS_E4M3) : 0;
    }
    return none == 0 ? (uint8_t)(tess_float_bits(scale) >> 23) : (uint8_t)TESS_FP8_NOT_FINITE;
}

/* The lower bits of an E4M3 code, as the upper bits of a float32, are the value times 2^-120, even if it is subnormal.
 */
TESS_SHARED float tess_fp8_decode(uint8_t code, uint8_t scale_byte)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24, magnitude = (uint32_t)(code & 0x7fu) << 20;
    return tess_bits_float(sign | magnitude) * 0x1p120f * tess_bits_float((uint32_t)scale_byte << 23);
}

/* Returns the bytes of a row of C codes, followed by the scales of its blocks. */
TESS_SHARED int64_t tess_fp8_row_bytes(int64_t C)
{
    return C + (C + TESS_FP8_BLOCK - 1) / TESS_FP8_BLOCK;
}

#endif
