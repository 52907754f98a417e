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
#define __forceinline__ inline

#define CUDART_VERSION 13000

typedef struct CUstream_st *cudaStream_t;

/* The error of the newest launch. CUDA_SHIM_ERROR=LAUNCH:ERROR in the environment has one of them fail, counted from 1.
 */
int cudaGetLastError(void);

typedef struct cuda_shim_index {
    unsigned x;
} cuda_shim_index;

extern cuda_shim_index threadIdx, blockIdx, blockDim, gridDim;

/* Each thread calls kernel(self). CUDA_SHIM_LOG=FILE: no kernel runs; FILE gets a line with the name of each. */
void cuda_shim_run(const char *name, unsigned blocks, unsigned threads, size_t shared_bytes,
                   void (*kernel)(const void *self), const void *self);

template <typename K>
static inline void cuda_shim_launch(const char *name, unsigned blocks, unsigned threads, size_t shared_bytes,
                                    const K &kernel)
{
    cuda_shim_run(
        name, blocks, threads, shared_bytes, [](const void *self) { (*(const K *)self)(); }, &kernel);
}

void *cuda_shim_dynamic_shared(void);
/* Shared memory of the next launch. */
void cuda_shim_ask_shared(size_t bytes);

/* The calling thread waits for all others of its block, or of its warp. */
void cuda_shim_meet_block(void);
void cuda_shim_meet_warp(void);
/* Every thread of the warp gives some words, and sees those of all 32 until it gives again. */
typedef union cuda_shim_words {
    char bytes[8];
    const char *row;
    struct {
        float a[8], b[4];
    } factors;
} cuda_shim_words;

const cuda_shim_words *cuda_shim_share(const cuda_shim_words *mine);

/* Device functions of device/cuda/cuda_tensor.h. A product is added k ascending: a GPU has an order of its own. Copies
 * are made at once in every other launch, and else when they are waited for, so that a thread that reads too early
 * shows, and one that overwrites what is still read. */
typedef struct tensor_piece tensor_piece;
void tensor_multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
void tensor_load(uint32_t x[4], const void *row);
void tensor_load_transposed(uint32_t x[4], const void *row);
void tensor_copy(tensor_piece *to, const void *from, int bytes);
void tensor_copy_pair(float to[2], const float *from);
void tensor_copies_end(void);
void cuda_shim_copies_wait(unsigned newest);
float tensor_exp2(float x);
uint32_t tensor_pack(float first, float second);

template <int NEWEST> static inline void tensor_copies_wait(void)
{
    cuda_shim_copies_wait(NEWEST);
}

#define TESS_CUDA_LAUNCH(kernel, blocks, threads, shared_bytes, s, ...)                                                \
    (tess_cuda_queue(s),                                                                                               \
     cuda_shim_launch(#kernel, (unsigned)(blocks), (unsigned)(threads), (shared_bytes), [=] { kernel(__VA_ARGS__); }), \
     tess_cuda_launched((s), #kernel))
#define TESS_CUDA_ASK_SHARED(kernel, bytes, s) cuda_shim_ask_shared(bytes)
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
    cuda_shim_words words = {};
    static_assert(sizeof(N) <= sizeof(words), "a shuffle moves 4 or 8 bytes");
    (void)mask;
    memcpy(&words, &mine, sizeof(N));
    memcpy(&mine, &cuda_shim_share(&words)[from], sizeof(N));
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
