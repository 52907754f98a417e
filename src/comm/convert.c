/* Floats of 16 and 32 bits into each other. */
#include <string.h>

#include "comm/reduce.h"
#include "comm/reduce_loops.h"
#include "device/bf16.h"

enum { BLOCK = 1024 };

void tess_load_f32(const void *x, tess_dtype dtype, float *restrict y, size_t n)
{
    if (dtype == TESS_F32) {
        memcpy(y, x, n * sizeof(float));
    } else if (dtype == TESS_BF16) {
        tess_reduce_loops_best()->widen_bf16(x, y, n);
    } else {
        const uint16_t *h = x;
        for (size_t i = 0; i < n; i++)
            y[i] = tess_f16_to_float(h[i]);
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
            h[i] = tess_float_to_f16(x[i]);
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
