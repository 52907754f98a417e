/* Normal numbers, sixteen counters at a time. The operations are those of rng_normal.c, one by one, so the bits are the
 * same. */
#include "base/core/rng_normal.h"

#include <immintrin.h>

static __m512 set(float value)
{
    return _mm512_set1_ps(value);
}

/* Returns c + x * rest with two roundings: an FMA would round once and change the bits. */
static __m512 step(float c, __m512 x, __m512 rest)
{
    return _mm512_add_ps(set(c), _mm512_mul_ps(x, rest));
}

static __m512 radius_of(__m512i words)
{
    __m512 x = _mm512_add_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(words, 8)), set(0.5f));
    __m512i shifted = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(TESS_NORMAL_ONE - TESS_NORMAL_EDGE));
    __m512 exponent = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srli_epi32(shifted, 23), _mm512_set1_epi32(127 + 24)));
    __m512 m = _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_and_si512(shifted, _mm512_set1_epi32(0x7fffff)), _mm512_set1_epi32(TESS_NORMAL_EDGE)));
    __m512 t = _mm512_div_ps(_mm512_sub_ps(m, set(1)), _mm512_add_ps(m, set(1))), t2 = _mm512_mul_ps(t, t);
    __m512 series = step(TESS_LOG_C3, t2, set(TESS_LOG_C4));
    series = step(TESS_LOG_C1, t2, step(TESS_LOG_C2, t2, series));
    series = _mm512_mul_ps(t, step(TESS_LOG_C0, t2, series));
    __m512 square = _mm512_mul_ps(set(-2), _mm512_add_ps(series, _mm512_mul_ps(exponent, set(TESS_LN2))));
    return _mm512_sqrt_ps(_mm512_max_ps(square, _mm512_setzero_ps()));
}

static void sin_cos(__m512i words, __m512 *sine, __m512 *cosine)
{
    __m512i turned = _mm512_add_epi32(words, _mm512_set1_epi32(0x20000000)), quadrant = _mm512_srli_epi32(turned, 30);
    __m512i rest =
        _mm512_sub_epi32(_mm512_and_si512(turned, _mm512_set1_epi32(0x3fffffff)), _mm512_set1_epi32(0x20000000));
    __m512 a = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(rest, 6)), set(TESS_QUARTER_TURN));
    __m512 a2 = _mm512_mul_ps(a, a);
    __m512 s = step(TESS_SIN_C2, a2, step(TESS_SIN_C3, a2, set(TESS_SIN_C4)));
    s = _mm512_mul_ps(a, step(1, a2, step(TESS_SIN_C1, a2, s)));
    __m512 c = step(TESS_COS_C2, a2, step(TESS_COS_C3, a2, set(TESS_COS_C4)));
    c = step(1, a2, step(TESS_COS_C1, a2, c));
    __m512i two = _mm512_set1_epi32(2), one = _mm512_set1_epi32(1);
    __mmask16 odd = _mm512_test_epi32_mask(quadrant, one);
    __m512i flip_sine = _mm512_slli_epi32(_mm512_and_si512(quadrant, two), 30);
    __m512i flip_cosine = _mm512_slli_epi32(_mm512_and_si512(_mm512_add_epi32(quadrant, one), two), 30);
    *sine = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(_mm512_mask_blend_ps(odd, s, c)), flip_sine));
    *cosine = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(_mm512_mask_blend_ps(odd, c, s)), flip_cosine));
}

/* Computes the low and high halves of x * factor. Even and odd lanes are multiplied separately. */
static void multiply(__m512i x, uint32_t factor, __m512i *low, __m512i *high)
{
    __m512i f = _mm512_set1_epi64((long long)factor);
    __m512i even = _mm512_mul_epu32(x, f), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), f);
    *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

static void philox(uint64_t seed, uint64_t high, uint64_t counter, __m512i words[4])
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i base = _mm512_set1_epi32((int)(uint32_t)counter), c0 = _mm512_add_epi32(base, lanes);
    __mmask16 carried = _mm512_cmplt_epu32_mask(c0, base);
    __m512i c1 = _mm512_set1_epi32((int)(uint32_t)(counter >> 32));
    c1 = _mm512_mask_add_epi32(c1, carried, c1, _mm512_set1_epi32(1));
    __m512i c2 = _mm512_set1_epi32((int)(uint32_t)high), c3 = _mm512_set1_epi32((int)(uint32_t)(high >> 32));
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < TESS_PHILOX_ROUNDS; round++) {
        __m512i low0, high0, low1, high1;
        multiply(c0, TESS_PHILOX_M0, &low0, &high0);
        multiply(c2, TESS_PHILOX_M1, &low1, &high1);
        c0 = _mm512_xor_si512(_mm512_xor_si512(high1, c1), _mm512_set1_epi32((int)k0));
        c1 = low1;
        c2 = _mm512_xor_si512(_mm512_xor_si512(high0, c3), _mm512_set1_epi32((int)k1));
        c3 = low0;
        k0 += TESS_PHILOX_K0;
        k1 += TESS_PHILOX_K1;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

/* Stores out[4c + k] = planes[k][c]: interleaves pairs, then fours within 128 bits, then orders the 128-bit parts. */
static void store_interleaved(const __m512 planes[4], float *out)
{
    __m512d low0 = _mm512_castps_pd(_mm512_unpacklo_ps(planes[0], planes[1]));
    __m512d low1 = _mm512_castps_pd(_mm512_unpacklo_ps(planes[2], planes[3]));
    __m512d high0 = _mm512_castps_pd(_mm512_unpackhi_ps(planes[0], planes[1]));
    __m512d high1 = _mm512_castps_pd(_mm512_unpackhi_ps(planes[2], planes[3]));
    /* c0 .. c3 hold the counters that are 0 .. 3 (mod 4). */
    __m512 c0 = _mm512_castpd_ps(_mm512_unpacklo_pd(low0, low1)), c1 = _mm512_castpd_ps(_mm512_unpackhi_pd(low0, low1));
    __m512 c2 = _mm512_castpd_ps(_mm512_unpacklo_pd(high0, high1));
    __m512 c3 = _mm512_castpd_ps(_mm512_unpackhi_pd(high0, high1));
    __m512 even01 = _mm512_shuffle_f32x4(c0, c1, 0x88), odd01 = _mm512_shuffle_f32x4(c0, c1, 0xdd);
    __m512 even23 = _mm512_shuffle_f32x4(c2, c3, 0x88), odd23 = _mm512_shuffle_f32x4(c2, c3, 0xdd);
    _mm512_storeu_ps(out, _mm512_shuffle_f32x4(even01, even23, 0x88));
    _mm512_storeu_ps(out + 16, _mm512_shuffle_f32x4(odd01, odd23, 0x88));
    _mm512_storeu_ps(out + 32, _mm512_shuffle_f32x4(even01, even23, 0xdd));
    _mm512_storeu_ps(out + 48, _mm512_shuffle_f32x4(odd01, odd23, 0xdd));
}

void tess_rng_fill_blocks_avx512(uint64_t seed, uint64_t high, uint64_t first_counter, int64_t n_blocks, float mean,
                                 float std, float *out)
{
    for (int64_t block = 0; block < n_blocks; block++, out += TESS_NORMAL_BLOCK) {
        __m512i words[4];
        __m512 planes[4];
        philox(seed, high, first_counter + 16 * (uint64_t)block, words);
        for (int pair = 0; pair < 4; pair += 2) {
            __m512 sine, cosine, radius = radius_of(words[pair]);
            sin_cos(words[pair + 1], &sine, &cosine);
            planes[pair] = _mm512_add_ps(set(mean), _mm512_mul_ps(set(std), _mm512_mul_ps(radius, cosine)));
            planes[pair + 1] = _mm512_add_ps(set(mean), _mm512_mul_ps(set(std), _mm512_mul_ps(radius, sine)));
        }
        store_interleaved(planes, out);
    }
}
