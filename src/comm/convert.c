/* Floats of 16 and 32 bits into each other. */
#include <string.h>

#include "comm/reduce.h"
#include "comm/reduce_loops.h"

enum { BLOCK = 1024 };

static inline float float_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00)
        return tess_float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 | ((rest & 0x3ff) != 0 ? 0x400000 : 0));
    if (rest >= 0x400)
        return tess_float_of(sign | ((rest << 13) + 0x38000000));
    float tiny = (float)rest * 0x1p-24f; /* subnormal: exact */
    return (sign != 0) ? -tiny : tiny;
}

static inline uint16_t f16_of(float x)
{
    uint32_t u = tess_bits_of(x), sign = (u >> 16) & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x477ff000) /* rounds to 65536 or beyond */
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) { /* below 2^-14: the unit is 2^-24, and adding 0.5 to x has just that unit */
        uint32_t sum = tess_bits_of(tess_float_of(u) + 0.5f);
        return (uint16_t)(sign | (sum - 0x3f000000));
    }
    return (uint16_t)(sign | ((u - 0x38000000 + 0xfff + ((u >> 13) & 1)) >> 13));
}

void tess_load_f32(const void *x, tess_dtype dtype, float *restrict y, size_t n)
{
    if (dtype == TESS_F32) {
        memcpy(y, x, n * sizeof(float));
    } else if (dtype == TESS_BF16) {
        tess_reduce_loops_best()->widen_bf16(x, y, n);
    } else {
        const uint16_t *h = x;
        for (size_t i = 0; i < n; i++)
            y[i] = float_of_f16(h[i]);
    }
}

void tess_store_f32(const float *x, void *y, tess_dtype dtype, size_t n)
{
    if (dtype == TESS_F32) {
        memcpy(y, x, n * sizeof(float));
    } else if (dtype == TESS_BF16) {
        tess_reduce_loops_best()->narrow_bf16(x, y, n);
    } else {
        uint16_t *h = y;
        for (size_t i = 0; i < n; i++)
            h[i] = f16_of(x[i]);
    }
}

static bool is_float(tess_dtype dtype)
{
    return dtype == TESS_F32 || dtype == TESS_BF16 || dtype == TESS_F16;
}

bool tess_convert_possible(tess_dtype from, tess_dtype to)
{
    return from == to || (is_float(from) && is_float(to));
}

void tess_convert_values(const void *x, tess_dtype from, void *y, tess_dtype to, size_t n)
{
    if (from == to) {
        if (x != y)
            memmove(y, x, n * tess_dtype_size(from));
    } else if (from == TESS_F32) {
        tess_store_f32(x, y, to, n);
    } else if (to == TESS_F32) {
        tess_load_f32(x, from, y, n);
    } else {
        float block[BLOCK];
        for (size_t i = 0; i < n; i += BLOCK) {
            size_t count = n - i < BLOCK ? n - i : BLOCK;
            tess_load_f32((const uint16_t *)x + i, from, block, count);
            tess_store_f32(block, (uint16_t *)y + i, to, count);
        }
    }
}
