#include "device/cpu/peak.h"

#include <immintrin.h>

double tess_peak_loop_avx2(int64_t rounds)
{
    /* Ten independent chains hide the latency of four cycles on two ports. */
    enum { CHAINS = 10 };
    __m256 sums[CHAINS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1e-3f);
    for (int i = 0; i < CHAINS; i++)
        sums[i] = _mm256_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < CHAINS; i++)
            sums[i] = _mm256_fmadd_ps(sums[i], x, y);
        __asm__ volatile("" ::: "memory"); /* no round may be skipped */
    }
    volatile float kept = 0;
    for (int i = 0; i < CHAINS; i++)
        kept = kept + _mm256_cvtss_f32(sums[i]);
    return (double)rounds * CHAINS * 8 * 2;
}
