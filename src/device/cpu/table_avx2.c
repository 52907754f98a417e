/* The table of kernels for AVX2: every element-wise kernel and row reduction. */
#include "device/cpu/vec_avx2.h"
#include "device/cpu/vec_rows.h"

static double peak_loop(int64_t rounds)
{
    /* Ten independent chains hide the latency of four cycles on two ports. */
    enum { CHAINS = 10 };
    __m256 sums[CHAINS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1e-3f);
    /* The loops are unrolled. Otherwise gcc keeps the array in memory, and the loop measures loads and stores. */
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sums[i] = _mm256_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sums[i] = _mm256_fmadd_ps(sums[i], x, y);
            __asm__ volatile("" : "+x"(sums[i])); /* keeps the sum in its register in every round */
        }
    volatile float kept = 0;
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        kept = kept + _mm256_cvtss_f32(sums[i]);
    return (double)rounds * CHAINS * 8 * 2;
}

void tess_kernels_avx2(tess_kernels *k)
{
    k->peak_f32 = peak_loop;
    k->peak_bf16 = peak_loop;
    fill_vec_rows(k);
}
