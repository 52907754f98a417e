/* Transposes squares of floats in place, with AVX2. */
#ifndef TESS_DEVICE_CPU_TRANSPOSE_AVX2_IMPL_H
#define TESS_DEVICE_CPU_TRANSPOSE_AVX2_IMPL_H

#include "device/cpu/vec_avx2.h"

static inline void transpose_8x8(__m256 x[8])
{
    __m256 y[8];
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm256_shuffle_ps(y[i], y[i + 2], 0x44);
        x[i + 1] = _mm256_shuffle_ps(y[i], y[i + 2], 0xee);
        x[i + 2] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0x44);
        x[i + 3] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        y[i] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
        y[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i++)
        x[i] = y[i];
}

/* Transposes 16 x 16 floats. x[i] is row i before and column i after the call. */
static inline void turn_square(vec x[16])
{
    __m256 quarter[4][8]; /* rows 0-7: left, right half; rows 8-15: left, right half */
    for (int i = 0; i < 8; i++) {
        quarter[0][i] = x[i].lo;
        quarter[1][i] = x[i].hi;
        quarter[2][i] = x[8 + i].lo;
        quarter[3][i] = x[8 + i].hi;
    }
    for (int i = 0; i < 4; i++)
        transpose_8x8(quarter[i]);
    for (int i = 0; i < 8; i++) {
        x[i] = (vec){quarter[0][i], quarter[2][i]};
        x[8 + i] = (vec){quarter[1][i], quarter[3][i]};
    }
}

#endif
