/* Every element-wise kernel and row reduction on AVX2. */
#include "device/cpu/vec_avx2.h"
#include "device/cpu/elementwise_vec.h"

void tess_kernels_avx2(tess_kernels *k)
{
    k->name = "avx2";
    override_elementwise(k);
}
