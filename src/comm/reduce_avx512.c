#include <immintrin.h>

#include "comm/reduce_loops.h"

static const __mmask16 ALL = 0xffff; /* a constant where it is used: the compiler then leaves masks out */

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

/* As tess_reduce_larger, for each of 16. */
static __m512i larger(__m512i most, __m512 value)
{
    return _mm512_max_epu32(most, _mm512_slli_epi32(_mm512_castps_si512(value), 1));
}

static bool all_finite(__m512i most)
{
    return tess_reduce_finite(_mm512_reduce_max_epu32(most));
}

static inline __attribute__((always_inline)) __m512 add_f32_at(__mmask16 mask, const float *a, const float *b, float *y,
                                                               bool accumulate)
{
    __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, a), _mm512_maskz_loadu_ps(mask, b));
    if (accumulate)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, y));
    _mm512_mask_storeu_ps(y, mask, sum);
    return sum;
}

static bool add_f32(const float *a, const float *b, float *y, size_t n, bool accumulate)
{
    __m512i most = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        most = larger(most, add_f32_at(ALL, a + i, b + i, y + i, accumulate));
    if (i < n)
        most = larger(most, add_f32_at(tail(n - i), a + i, b + i, y + i, accumulate));
    return all_finite(most);
}

static inline __attribute__((always_inline)) __m512 add_bf16_at(__mmask16 mask, const uint16_t *a, const uint16_t *b,
                                                                float *y, bool accumulate)
{
    __m512 sum = _mm512_add_ps(load_bf16(mask, a), load_bf16(mask, b));
    if (accumulate)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, y));
    _mm512_mask_storeu_ps(y, mask, sum);
    return sum;
}

static bool add_bf16(const uint16_t *a, const uint16_t *b, float *y, size_t n, bool accumulate)
{
    __m512i most = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        most = larger(most, add_bf16_at(ALL, a + i, b + i, y + i, accumulate));
    if (i < n)
        most = larger(most, add_bf16_at(tail(n - i), a + i, b + i, y + i, accumulate));
    return all_finite(most);
}

static inline __attribute__((always_inline)) __m512 add4_f32_at(__mmask16 mask, const float *const *x, size_t i,
                                                                float *y)
{
    __m512 low = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x[0] + i), _mm512_maskz_loadu_ps(mask, x[1] + i));
    __m512 high = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x[2] + i), _mm512_maskz_loadu_ps(mask, x[3] + i));
    __m512 sum = _mm512_add_ps(low, high);
    _mm512_mask_storeu_ps(y + i, mask, sum);
    return sum;
}

static bool add4_f32(const float *const *rows, float *y, size_t n)
{
    const float *const x[4] = {rows[0], rows[1], rows[2], rows[3]};
    __m512i most = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        most = larger(most, add4_f32_at(ALL, x, i, y));
    if (i < n)
        most = larger(most, add4_f32_at(tail(n - i), x, i, y));
    return all_finite(most);
}

static inline __attribute__((always_inline)) __m512 add4_bf16_at(__mmask16 mask, const uint16_t *const *x, size_t i,
                                                                 float *y)
{
    __m512 low = _mm512_add_ps(load_bf16(mask, x[0] + i), load_bf16(mask, x[1] + i));
    __m512 high = _mm512_add_ps(load_bf16(mask, x[2] + i), load_bf16(mask, x[3] + i));
    __m512 sum = _mm512_add_ps(low, high);
    _mm512_mask_storeu_ps(y + i, mask, sum);
    return sum;
}

static bool add4_bf16(const uint16_t *const *rows, float *y, size_t n)
{
    const uint16_t *const x[4] = {rows[0], rows[1], rows[2], rows[3]};
    __m512i most = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        most = larger(most, add4_bf16_at(ALL, x, i, y));
    if (i < n)
        most = larger(most, add4_bf16_at(tail(n - i), x, i, y));
    return all_finite(most);
}

const tess_reduce_loops tess_reduce_loops_avx512 = {widen_bf16, narrow_bf16, add_f32, add_bf16, add4_f32, add4_bf16};
