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

#ifdef __cplusplus
}
#endif

#endif
