/* Enough of CUDA C++ to compile the rows of src/device/cuda for the host and run them there, for tests without a GPU.
 * A block's threads are fibres on one thread: each runs until it ends or meets others, then the next. A kernel whose
 * threads do not meet as CUDA demands ends the program with a message. Memory is the host's, so sanitizers see it. */
#ifndef TESS_TESTS_DEVICE_CUDA_SHIM_CUDA_SHIM_H
#define TESS_TESTS_DEVICE_CUDA_SHIM_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __shared__ static /* one block runs at a time */
#define __launch_bounds__(...)

#define CUDART_VERSION 13000

typedef struct CUstream_st *cudaStream_t;

/* Of the newest launch. CUDA_SHIM_ERROR=LAUNCH:ERROR in the environment has one of them fail, counted from 1. */
int cudaGetLastError(void);

typedef struct cuda_shim_index {
    unsigned x;
} cuda_shim_index;

extern cuda_shim_index threadIdx, blockIdx, blockDim, gridDim;

/* Each thread calls kernel(self). */
void cuda_shim_run(unsigned blocks, unsigned threads, size_t shared_bytes, void (*kernel)(const void *self),
                   const void *self);

template <typename K>
static inline void cuda_shim_launch(unsigned blocks, unsigned threads, size_t shared_bytes, const K &kernel)
{
    cuda_shim_run(
        blocks, threads, shared_bytes, [](const void *self) { (*(const K *)self)(); }, &kernel);
}

void *cuda_shim_dynamic_shared(void);

/* The calling thread waits for all others of its block, or of its warp. */
void cuda_shim_meet_block(void);
void cuda_shim_meet_warp(void);
/* Every thread of the warp gives up to 8 bytes, and gets those of thread `from` of it. */
uint64_t cuda_shim_exchange(uint64_t mine, unsigned from);

#define TESS_CUDA_LAUNCH(kernel, blocks, threads, shared_bytes, s, ...)                                       \
    (tess_cuda_queue(s),                                                                                      \
     cuda_shim_launch((unsigned)(blocks), (unsigned)(threads), (shared_bytes), [=] { kernel(__VA_ARGS__); }), \
     tess_cuda_launched((s), #kernel))
#define TESS_CUDA_DYNAMIC_SHARED(type, name) type *name = (type *)cuda_shim_dynamic_shared()
#define TESS_CUDA_UNROLL
#define TESS_CUDA_UNROLL_BY_4

static inline void __syncthreads(void)
{
    cuda_shim_meet_block();
}

static inline void __syncwarp(void)
{
    cuda_shim_meet_warp();
}

template <typename N> static inline N __shfl_sync(unsigned mask, N mine, unsigned from)
{
    uint64_t bits = 0;
    static_assert(sizeof(N) <= sizeof(bits), "a shuffle moves 4 or 8 bytes");
    (void)mask;
    memcpy(&bits, &mine, sizeof(N));
    bits = cuda_shim_exchange(bits, from);
    memcpy(&mine, &bits, sizeof(N));
    return mine;
}

/* Beyond the warp a thread gets its own. */
template <typename N> static inline N __shfl_down_sync(unsigned mask, N mine, unsigned by)
{
    unsigned lane = threadIdx.x % 32;
    return __shfl_sync(mask, mine, lane + by < 32 ? lane + by : lane);
}

template <typename N> static inline N __shfl_xor_sync(unsigned mask, N mine, unsigned bits)
{
    return __shfl_sync(mask, mine, threadIdx.x % 32 ^ bits);
}

template <typename N> static inline N atomicAdd(N *to, N value)
{
    N old = *to;
    *to = old + value;
    return old;
}

template <typename N> static inline N atomicMin(N *to, N value)
{
    N old = *to;
    *to = value < old ? value : old;
    return old;
}

#endif
