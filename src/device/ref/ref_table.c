/* The table of reference kernels. */
#include "device/finite.h"
#include "device/ref/ref_impl.h"

static double peak_loop(int64_t rounds)
{
    float sums[4] = {0, 1, 2, 3};
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < 4; i++) {
            sums[i] = sums[i] * 0.5f + 1e-3f;
            __asm__ volatile("" : "+m"(sums[i]));
        }
    return (double)rounds * 4 * 2;
}

void tess_kernels_ref(tess_kernels *k)
{
    tess_kernels_ref_gemm(k);
    tess_kernels_gemm_fused(k);
    tess_kernels_ref_attention(k);
    tess_ref_norm(k);
    tess_ref_rope(k);
    tess_ref_glu(k);
    tess_ref_embedding(k);
    tess_ref_cross_entropy(k);
    tess_ref_adamw(k);
    tess_ref_convert(k);
    tess_ref_fp8(k);
    tess_ref_sums(k);
    tess_ref_moments(k);
    tess_ref_copy_rows(k);
    tess_ref_runs(k);
    tess_kernels_finite(k);
    k->peak_f32 = peak_loop;
    k->peak_bf16 = peak_loop;
}
