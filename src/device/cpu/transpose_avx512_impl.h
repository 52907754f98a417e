/* Transposes 16 x 16 elements of 32 bits in place, with 64 shuffles of AVX-512. */
#ifndef TESS_DEVICE_CPU_TRANSPOSE_AVX512_IMPL_H
#define TESS_DEVICE_CPU_TRANSPOSE_AVX512_IMPL_H

#include <immintrin.h>

static inline void transpose_16x16_avx512(__m512i x[16])
{
    __m512i y[16];
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    /* Now 128-bit lane l of x[4g + c] holds column 4l + c of rows 4g .. 4g+3. */
    for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    for (int c = 0; c < 4; c++) {
        __m512i low_a = _mm512_shuffle_i32x4(x[c], x[4 + c], 0x44),
                low_b = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0x44);
        __m512i high_a = _mm512_shuffle_i32x4(x[c], x[4 + c], 0xee),
                high_b = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0xee);
        y[c] = _mm512_shuffle_i32x4(low_a, low_b, 0x88);
        y[4 + c] = _mm512_shuffle_i32x4(low_a, low_b, 0xdd);
        y[8 + c] = _mm512_shuffle_i32x4(high_a, high_b, 0x88);
        y[12 + c] = _mm512_shuffle_i32x4(high_a, high_b, 0xdd);
    }
    for (int i = 0; i < 16; i++)
        x[i] = y[i];
}

/* Transposes 16 x 16 floats. x[i] is row i before and column i after the call. */
static inline void turn_square(__m512 x[16])
{
    __m512i y[16];
    for (int i = 0; i < 16; i++)
        y[i] = _mm512_castps_si512(x[i]);
    transpose_16x16_avx512(y);
    for (int i = 0; i < 16; i++)
        x[i] = _mm512_castsi512_ps(y[i]);
}

#endif
