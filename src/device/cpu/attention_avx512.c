/* Attention on AVX-512: 16 queries in a vector, products in tiles of 8 rows by 32 columns (16 of the 32 registers). */
#include "device/cpu/vec_avx512.h"
#include "device/vmath.h"

#include "device/cpu/transpose_avx512_impl.h"
#include "device/ref/ref_attention.h"

#define ATTENTION_MR 8
#define ATTENTION_NV 2

#include "device/cpu/attention_backward_vec.h"
#include "device/cpu/attention_forward_vec.h"

tess_status tess_attention_forward_avx512(tess_stream *stream, const tess_attention *a)
{
    return forward(stream, a);
}

tess_status tess_attention_backward_avx512(tess_stream *stream, const tess_attention_grad *g)
{
    return backward(stream, g);
}

void tess_kernels_avx512_attention(tess_kernels *k)
{
    k->attention_forward = forward;
    k->attention_backward = backward;
}
