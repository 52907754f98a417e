#include "device/cpu/cpu_peak.h"

#include <immintrin.h>

double tess_peak_loop_avx512_bf16(int64_t rounds)
{
    enum { CHAINS = 12 };
    __m512 sums[CHAINS];
    __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f80), y = (__m512bh)_mm512_set1_epi16(0x3c00); /* 1, 2^-7 */
    /* Unrolled by name: else gcc keeps the array in memory, and the loop measures the stack. */
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sums[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sums[i] = _mm512_dpbf16_ps(sums[i], x, y);
            __asm__ volatile("" : "+v"(sums[i])); /* in its register, every round */
        }
    volatile float kept = 0;
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        kept = kept + _mm512_cvtss_f32(sums[i]);
    return (double)rounds * CHAINS * 16 * 4;
}
