/* The functions that rows use to run on a GPU: launches, the queue of a stream, scratch memory. A compiler other than
 * CUDA's must include a header before this one that defines the same macros, and CUDA's keywords, for the host
 * (tests/device/cuda_shim). */
#ifndef TESS_DEVICE_CUDA_CUDA_LAUNCH_H
#define TESS_DEVICE_CUDA_CUDA_LAUNCH_H

#include "device/kernels.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

extern "C" {
/* Returns memory of the device, aligned to 64 bytes. One row may use it until the stream's next row requests scratch
 * memory. */
tess_status tess_cuda_scratch(tess_stream *s, size_t bytes, void **memory);
/* Copies memory of the host to the device, in the stream's order, as tess_upload does. `from` may be changed when this
 * returns. */
tess_status tess_cuda_upload(tess_stream *s, void *to, const void *from, size_t bytes);
cudaStream_t tess_cuda_queue(tess_stream *s);
/* Returns the status of the newest launch. It reports wrong launch parameters, not errors of the running kernel. */
tess_status tess_cuda_launched(tess_stream *s, const char *kernel);
}

#ifdef __CUDACC__
/* Launches the __global__ function `kernel`. The value is a tess_status. */
#define TESS_CUDA_LAUNCH(kernel, blocks, threads, shared_bytes, s, ...)                                    \
    (kernel<<<(unsigned)(blocks), (unsigned)(threads), (shared_bytes), tess_cuda_queue(s)>>>(__VA_ARGS__), \
     tess_cuda_launched((s), #kernel))
/* Allows a kernel more than 48 KiB of shared memory, up to 99. It is needed before the launch; an error is reported by
 * the launch. */
#define TESS_CUDA_ASK_SHARED(kernel, bytes, s) \
    (tess_cuda_queue(s), cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes)))
#define TESS_CUDA_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#define TESS_CUDA_UNROLL _Pragma("unroll")
#define TESS_CUDA_UNROLL_BY_4 _Pragma("unroll 4")
#endif

/* Returns a number of blocks that gives each of `n` items a thread, but not more than keep a GPU busy. The loops below
 * compute the remaining items. */
static inline unsigned tess_cuda_blocks(int64_t n, int64_t a_block)
{
    int64_t blocks = (n + a_block - 1) / a_block;
    return (unsigned)(blocks < 1 << 16 ? blocks : 1 << 16);
}

/* A loop over the elements i < n of this thread. */
#define TESS_CUDA_EACH(i, n)                                                                                     \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i##_step = (int64_t)gridDim.x * blockDim.x; \
         i < (n); i += i##_step)

#endif
