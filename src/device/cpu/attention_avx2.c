/* Attention on AVX2: 16 queries in a pair of registers, products in tiles of 4 rows by 16 columns (8 of the 16
 * registers). */
#include "device/cpu/vec_avx2.h"
#include "device/vmath.h"

#include "device/cpu/transpose_avx2_impl.h"
#include "device/ref/ref_attention.h"

#define ATTENTION_MR 4
#define ATTENTION_NV 1

#include "device/cpu/attention_backward_vec.h"
#include "device/cpu/attention_forward_vec.h"

void tess_kernels_avx2_attention(tess_kernels *k)
{
    k->attention_forward = forward;
    k->attention_backward = backward;
}
