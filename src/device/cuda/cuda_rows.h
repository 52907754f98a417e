/* The rows of the kernel table in CUDA, bits as device/ref has them; each fills its own. What is left to the host is
 * not there: the loops that measure a core. */
#ifndef TESS_DEVICE_CUDA_CUDA_ROWS_H
#define TESS_DEVICE_CUDA_CUDA_ROWS_H

#include "device/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Float32 chains for both element types. */
void tess_kernels_cuda_gemm(tess_kernels *k);
/* TESS_E_UNSUPPORTED: heads of more than 256 channels. */
void tess_kernels_cuda_attention(tess_kernels *k);
void tess_kernels_cuda_elementwise(tess_kernels *k);
void tess_kernels_cuda_norm(tess_kernels *k);
void tess_kernels_cuda_sums(tess_kernels *k);
void tess_kernels_cuda_reduce(tess_kernels *k);
void tess_kernels_cuda_embedding(tess_kernels *k);
void tess_kernels_cuda_cross_entropy(tess_kernels *k);
void tess_kernels_cuda_copies(tess_kernels *k);
void tess_kernels_cuda_runs(tess_kernels *k);

/* Tensor cores: over these rows those of bfloat16, whose bits are those of the GPU's architecture. Products without
 * leaves; heads of up to 128 channels. */
void tess_kernels_cuda_tensor_gemm(tess_kernels *k);
void tess_kernels_cuda_tensor_attention_forward(tess_kernels *k);
void tess_kernels_cuda_tensor_attention_backward(tess_kernels *k);

/* The rows of the first kind, for what tensor cores do not compute. */
tess_status tess_cuda_gemm(tess_stream *s, const tess_gemm *g);
tess_status tess_cuda_gemm_fused(tess_stream *s, const tess_gemm_fused *f);
tess_status tess_cuda_attention_forward(tess_stream *s, const tess_attention *a);
tess_status tess_cuda_attention_backward(tess_stream *s, const tess_attention *a, const tess_attention_grad *g);

#ifdef __cplusplus
}
#endif

#endif
