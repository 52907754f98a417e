#include <immintrin.h>

#include "comm/reduce_loops.h"

static __mmask16 tail(size_t left)
{
    return left >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1);
}

static __m512 load_bf16(__mmask16 mask, const uint16_t *x)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static void widen_bf16(const uint16_t *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = tail(n - i);
        _mm512_mask_storeu_ps(y + i, mask, load_bf16(mask, x + i));
    }
}

/* Nearest even in integers: VCVTNEPS2BF16 would flush denormals. */
static void narrow_bf16(const float *x, uint16_t *y, size_t n)
{
    const __m512i half = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1), quiet = _mm512_set1_epi32(0x40);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = tail(n - i);
        __m512 value = _mm512_maskz_loadu_ps(mask, x + i);
        __m512i bits = _mm512_castps_si512(value), top = _mm512_srli_epi32(bits, 16);
        __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, half), _mm512_and_si512(top, one));
        __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
        __m512i result = _mm512_mask_or_epi32(_mm512_srli_epi32(rounded, 16), nan, top, quiet);
        _mm256_mask_storeu_epi16(y + i, mask, _mm512_cvtepi32_epi16(result));
    }
}

static void add_f32(const float *a, const float *b, float *y, size_t n, bool accumulate)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = tail(n - i);
        __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, a + i), _mm512_maskz_loadu_ps(mask, b + i));
        if (accumulate)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, y + i));
        _mm512_mask_storeu_ps(y + i, mask, sum);
    }
}

static void add_bf16(const uint16_t *a, const uint16_t *b, float *y, size_t n, bool accumulate)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = tail(n - i);
        __m512 sum = _mm512_add_ps(load_bf16(mask, a + i), load_bf16(mask, b + i));
        if (accumulate)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, y + i));
        _mm512_mask_storeu_ps(y + i, mask, sum);
    }
}

static void add4_f32(const float *const *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = tail(n - i);
        __m512 low = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x[0] + i), _mm512_maskz_loadu_ps(mask, x[1] + i));
        __m512 high = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x[2] + i), _mm512_maskz_loadu_ps(mask, x[3] + i));
        _mm512_mask_storeu_ps(y + i, mask, _mm512_add_ps(low, high));
    }
}

static void add4_bf16(const uint16_t *const *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = tail(n - i);
        __m512 low = _mm512_add_ps(load_bf16(mask, x[0] + i), load_bf16(mask, x[1] + i));
        __m512 high = _mm512_add_ps(load_bf16(mask, x[2] + i), load_bf16(mask, x[3] + i));
        _mm512_mask_storeu_ps(y + i, mask, _mm512_add_ps(low, high));
    }
}

const tess_reduce_loops tess_reduce_loops_avx512 = {widen_bf16, narrow_bf16, add_f32, add_bf16, add4_f32, add4_bf16};
