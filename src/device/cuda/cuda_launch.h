/* How rows reach a GPU: launches, the queue of a stream, work space. A compiler that is not CUDA's includes a
 * header before this one that has the same macros, and CUDA's words, for the host (the tests' tests/device/cuda_shim).
 */
#ifndef TESS_DEVICE_CUDA_CUDA_LAUNCH_H
#define TESS_DEVICE_CUDA_CUDA_LAUNCH_H

#include "device/kernels.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

extern "C" {
/* Memory of the device, aligned to 64 bytes: for the inside of one row, until the stream's next row asks. */
tess_status tess_cuda_scratch(tess_stream *s, size_t bytes, void **memory);
/* Does what tess_upload does: memory of the host reaches the device in the stream's order, and may be changed on
 * return. */
tess_status tess_cuda_upload(tess_stream *s, void *to, const void *from, size_t bytes);
cudaStream_t tess_cuda_queue(tess_stream *s);
/* The status of the newest launch: of its shape, not of its run. */
tess_status tess_cuda_launched(tess_stream *s, const char *kernel);
}

#ifdef __CUDACC__
/* kernel: the name of a __global__ function. Gives a tess_status. */
#define TESS_CUDA_LAUNCH(kernel, blocks, threads, shared_bytes, s, ...)                                    \
    (kernel<<<(unsigned)(blocks), (unsigned)(threads), (shared_bytes), tess_cuda_queue(s)>>>(__VA_ARGS__), \
     tess_cuda_launched((s), #kernel))
/* Before a launch of it with more than 48 KiB of shared memory, up to 99: GPUs want to be asked. The launch has the
 * error. */
#define TESS_CUDA_ASK_SHARED(kernel, bytes, s) \
    (tess_cuda_queue(s), cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes)))
#define TESS_CUDA_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#define TESS_CUDA_UNROLL _Pragma("unroll")
#define TESS_CUDA_UNROLL_BY_4 _Pragma("unroll 4")
#endif

/* Blocks that give `n` items a thread each, or as many as keep a GPU busy: the loops below take what is left. */
static inline unsigned tess_cuda_blocks(int64_t n, int64_t a_block)
{
    int64_t blocks = (n + a_block - 1) / a_block;
    return (unsigned)(blocks < 1 << 16 ? blocks : 1 << 16);
}

/* A loop over each i of this thread, i below n. */
#define TESS_CUDA_EACH(i, n)                                                                                     \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i##_step = (int64_t)gridDim.x * blockDim.x; \
         i < (n); i += i##_step)

#endif
