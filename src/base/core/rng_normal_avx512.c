/* Sixteen counters at a time; operation by operation what rng_normal.c does. */
#include "base/core/rng_normal.h"

#include <immintrin.h>

static __m512 set(float value)
{
    return _mm512_set1_ps(value);
}

/* c0 + x * rest, rounded twice: no FMA here. */
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

/* Low and high halves of x * factor: even lanes and odd lanes apart. */
static void multiply(__m512i x, uint32_t factor, __m512i *low, __m512i *high)
{
    __m512i f = _mm512_set1_epi64((long long)factor);
    __m512i even = _mm512_mul_epu32(x, f), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), f);
    *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

static void philox(uint64_t seed, uint64_t high, uint64_t counter, __m512i words[4])
{
    uint32_t low_words[16], high_words[16];
    for (int i = 0; i < 16; i++) {
        low_words[i] = (uint32_t)(counter + (uint64_t)i);
        high_words[i] = (uint32_t)((counter + (uint64_t)i) >> 32);
    }
    __m512i c0 = _mm512_loadu_si512(low_words), c1 = _mm512_loadu_si512(high_words);
    __m512i c2 = _mm512_set1_epi32((int)(uint32_t)high), c3 = _mm512_set1_epi32((int)(uint32_t)(high >> 32));
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        __m512i low0, high0, low1, high1;
        multiply(c0, 0xD2511F53u, &low0, &high0);
        multiply(c2, 0xCD9E8D57u, &low1, &high1);
        c0 = _mm512_xor_si512(_mm512_xor_si512(high1, c1), _mm512_set1_epi32((int)k0));
        c1 = low1;
        c2 = _mm512_xor_si512(_mm512_xor_si512(high0, c3), _mm512_set1_epi32((int)k1));
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

void tess_rng_fill_blocks_avx512(uint64_t seed, uint64_t high, uint64_t first_counter, int64_t n_blocks, float mean,
                                 float std, float *out)
{
    const __m512i every_fourth = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60);
    for (int64_t block = 0; block < n_blocks; block++, out += TESS_NORMAL_BLOCK) {
        __m512i words[4];
        philox(seed, high, first_counter + 16 * (uint64_t)block, words);
        for (int pair = 0; pair < 4; pair += 2) {
            __m512 sine, cosine, radius = radius_of(words[pair]);
            sin_cos(words[pair + 1], &sine, &cosine);
            __m512 x = _mm512_mul_ps(radius, cosine), y = _mm512_mul_ps(radius, sine);
            x = _mm512_add_ps(set(mean), _mm512_mul_ps(set(std), x));
            y = _mm512_add_ps(set(mean), _mm512_mul_ps(set(std), y));
            _mm512_i32scatter_ps(out + pair, every_fourth, x, 4);
            _mm512_i32scatter_ps(out + pair + 1, every_fourth, y, 4);
        }
    }
}
