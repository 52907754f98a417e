/* The rows of the kernel table in CUDA, with the same bits as device/ref. Each function fills its own rows. The rows
 * that measure a core's speed remain the host's. */
#ifndef TESS_DEVICE_CUDA_CUDA_ROWS_H
#define TESS_DEVICE_CUDA_CUDA_ROWS_H

#include "device/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Products are float32 chains for both element types. */
void tess_kernels_cuda_gemm(tess_kernels *k);
/* TESS_E_UNSUPPORTED: a head has more than 256 channels. */
void tess_kernels_cuda_attention(tess_kernels *k);
void tess_kernels_cuda_elementwise(tess_kernels *k);
void tess_kernels_cuda_norm(tess_kernels *k);
void tess_kernels_cuda_sums(tess_kernels *k);
void tess_kernels_cuda_reduce(tess_kernels *k);
void tess_kernels_cuda_embedding(tess_kernels *k);
void tess_kernels_cuda_cross_entropy(tess_kernels *k);
void tess_kernels_cuda_copies(tess_kernels *k);
void tess_kernels_cuda_runs(tess_kernels *k);
void tess_kernels_cuda_routing(tess_kernels *k);

/* Rows for tensor cores, which replace the bfloat16 rows above. Their bits depend on the GPU's architecture. They
 * compute heads of up to 128 channels. */
void tess_kernels_cuda_tensor_gemm(tess_kernels *k);
void tess_kernels_cuda_tensor_gemm_grouped(tess_kernels *k);
void tess_kernels_cuda_tensor_attention_forward(tess_kernels *k);
void tess_kernels_cuda_tensor_attention_backward(tess_kernels *k);
void tess_kernels_cuda_tensor_cross_entropy(tess_kernels *k);

/* The rows above, called directly for calls that tensor cores do not compute. */
tess_status tess_cuda_gemm(tess_stream *s, const tess_gemm *g);
tess_status tess_cuda_gemm_fused(tess_stream *s, const tess_gemm_fused *f);
tess_status tess_cuda_attention_forward(tess_stream *s, const tess_attention *a);
tess_status tess_cuda_attention_backward(tess_stream *s, const tess_attention_grad *g);
tess_status tess_cuda_cross_entropy(tess_stream *s, const tess_cross_entropy *a);

/* A product with leaves is computed in blocks of C. The sums of a block's leaves take at most this many bytes. */
enum { TESS_CUDA_LEAF_BYTES = 64 << 20 };
/* Returns TESS_CUDA_LEAF_BYTES. Tests return fewer bytes. */
int64_t tess_cuda_leaf_bytes(void);
/* Computes C of a bfloat16 product. The function adds the bias and the tree of the sums (n_leaves, m, n). It reads no
 * other operands. */
tess_status tess_cuda_add_leaves(tess_stream *s, const tess_gemm *g, int64_t n_leaves, const float *sums);

#ifdef __cplusplus
}
#endif

#endif
