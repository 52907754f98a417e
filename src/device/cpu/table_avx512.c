/* The table of kernels for AVX-512: every element-wise kernel and row reduction. */
#include "device/cpu/vec_avx512.h"
#include "device/cpu/vec_rows.h"

void tess_kernels_avx512(tess_kernels *k)
{
    fill_vec_rows(k);
}
