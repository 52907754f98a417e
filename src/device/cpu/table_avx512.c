/* The table of kernels for AVX-512: every element-wise kernel and row reduction. */
#include "device/cpu/vec_avx512.h"
#include "device/cpu/elementwise_vec.h"

void tess_kernels_avx512(tess_kernels *k)
{
    override_elementwise(k);
}
