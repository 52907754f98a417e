/* Normal numbers by Box-Muller: element 4c + k comes from word k of Philox counter c. Uses only additions,
 * multiplications, divisions and square roots, each rounded separately. rng_normal_avx512.c does the same operations on
 * sixteen counters at a time and gives the same bits. */
#include "base/core/rng_normal.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Returns sqrt(-2 log u) for u = (word / 2^8 + 1/2) / 2^24 in (0, 1). Exponent and mantissa are treated separately: the
 * logarithm of the mantissa, in [sqrt(1/2), sqrt(2)), is the series of atanh. */
static float radius_of(uint32_t word)
{
    float x = (float)(int32_t)(word >> 8) + 0.5f; /* u * 2^24 */
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    uint32_t shifted = bits + (TESS_NORMAL_ONE - TESS_NORMAL_EDGE);
    float exponent = (float)((int32_t)(shifted >> 23) - (127 + 24));
    float m;
    bits = (shifted & 0x7fffffu) + TESS_NORMAL_EDGE;
    memcpy(&m, &bits, sizeof(m));
    float t = (m - 1.0f) / (m + 1.0f), t2 = t * t;
    float series = t * (TESS_LOG_C0 + t2 * (TESS_LOG_C1 + t2 * (TESS_LOG_C2 + t2 * (TESS_LOG_C3 + t2 * TESS_LOG_C4))));
    float square = -2.0f * (series + exponent * TESS_LN2);
    return sqrtf(square > 0.0f ? square : 0.0f);
}

/* Computes sin and cos of 2 pi word / 2^32. The top two bits are the quadrant; the rest is an angle in [-pi/4,
 * pi/4). */
static void sin_cos(uint32_t word, float *sine, float *cosine)
{
    uint32_t turned = word + 0x20000000u, quadrant = turned >> 30;
    int32_t rest = (int32_t)(turned & 0x3fffffffu) - 0x20000000;
    float a = (float)(rest >> 6) * TESS_QUARTER_TURN, a2 = a * a;
    float s = a * (1.0f + a2 * (TESS_SIN_C1 + a2 * (TESS_SIN_C2 + a2 * (TESS_SIN_C3 + a2 * TESS_SIN_C4))));
    float c = 1.0f + a2 * (TESS_COS_C1 + a2 * (TESS_COS_C2 + a2 * (TESS_COS_C3 + a2 * TESS_COS_C4)));
    *sine = quadrant & 1 ? c : s;
    *cosine = quadrant & 1 ? s : c;
    if (quadrant & 2)
        *sine = -*sine;
    if ((quadrant + 1) & 2)
        *cosine = -*cosine;
}

static void four_normals(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t counter, float out[4])
{
    uint32_t words[4];
    tess_philox(seed, purpose, stream, counter, words);
    for (int pair = 0; pair < 4; pair += 2) {
        float sine, cosine, radius = radius_of(words[pair]);
        sin_cos(words[pair + 1], &sine, &cosine);
        out[pair] = radius * cosine;
        out[pair + 1] = radius * sine;
    }
}

float tess_rng_normal(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index)
{
    float four[4];
    four_normals(seed, purpose, stream, index / 4, four);
    return four[index % 4];
}

static void fill_scalar(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t first, int64_t n, float mean,
                        float std, float *out)
{
    for (int64_t i = 0; i < n;) {
        uint64_t index = first + (uint64_t)i;
        float four[4];
        four_normals(seed, purpose, stream, index / 4, four);
        for (uint64_t k = index % 4; k < 4 && i < n; k++, i++)
            out[i] = mean + std * four[k];
    }
}

#if defined(__x86_64__)
static bool has_avx512(void)
{
#ifdef TESS_EMULATE
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
#endif
}
#endif

void tess_rng_fill_normal(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t first, int64_t n, float mean,
                          float std, float *out)
{
#if defined(__x86_64__)
    if (has_avx512()) {
        /* Fills whole blocks in the middle with AVX-512, and the ends one counter at a time. */
        int64_t head = (int64_t)(-first % 4) < n ? (int64_t)(-first % 4) : n;
        int64_t middle = (n - head) / TESS_NORMAL_BLOCK * TESS_NORMAL_BLOCK;
        fill_scalar(seed, purpose, stream, first, head, mean, std, out);
        tess_rng_fill_blocks_avx512(seed, stream ^ ((uint64_t)purpose << 56), (first + (uint64_t)head) / 4,
                                    middle / TESS_NORMAL_BLOCK, mean, std, out + head);
        first += (uint64_t)(head + middle);
        out += head + middle;
        n -= head + middle;
    }
#endif
    fill_scalar(seed, purpose, stream, first, n, mean, std, out);
}
