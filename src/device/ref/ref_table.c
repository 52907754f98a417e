/* The table of reference kernels. */
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
#define FILL(name, ...) k->name = tess_ref_##name;
    TESS_KERNEL_ROWS(FILL)
    tess_ref_moments(k);
    k->peak_f32 = peak_loop;
    k->peak_bf16 = peak_loop;
}
