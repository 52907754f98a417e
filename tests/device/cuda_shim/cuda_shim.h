/* Enough of CUDA C++ to compile the rows of src/device/cuda for the host and run them there, for tests without a GPU.
 * A block's threads are fibres on one thread: each runs until it ends or meets others, then the next. A kernel whose
 * threads do not meet as CUDA demands ends the program with a message. Memory is the host's, so sanitizers see it. */
#ifndef TESS_TESTS_DEVICE_CUDA_SHIM_CUDA_SHIM_H
#define TESS_TESTS_DEVICE_CUDA_SHIM_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include <type_traits>

#include "device/cuda_fake/fake_work.h"

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

/* A launch: each thread calls kernel(self). */
typedef struct cuda_shim_call {
    const char *name;
    unsigned blocks, threads;
    size_t shared_bytes;
    void (*kernel)(const void *self);
} cuda_shim_call;

/* Runs the launch now if there is no queue; otherwise the driver's queue does, with a copy of `self`.
 * CUDA_SHIM_LOG=FILE: no kernel runs; FILE gets a line with the name of each, in the order of the calls. */
void cuda_shim_begin(cudaStream_t queue, const cuda_shim_call *call, const void *self, size_t self_bytes,
                     const fake_operand *operands, int n_operands);

/* The memory that arguments of a kernel may point to: pointers, and each word of structures. */
typedef struct cuda_shim_operands {
    enum { MOST = 192 };
    fake_operand all[MOST];
    int n, place;
} cuda_shim_operands;

static inline void cuda_shim_add_operand(cuda_shim_operands *o, const void *begin, fake_use use)
{
    if (o->n < cuda_shim_operands::MOST)
        o->all[o->n++] = {begin, 0, use, o->place};
    o->place++;
}

template <typename T> static inline void cuda_shim_list(cuda_shim_operands *o, T *argument)
{
    cuda_shim_add_operand(o, (const void *)argument, FAKE_WRITES);
}

template <typename T> static inline void cuda_shim_list(cuda_shim_operands *o, const T *argument)
{
    cuda_shim_add_operand(o, (const void *)argument, FAKE_READS);
}

template <typename T> static inline void cuda_shim_list(cuda_shim_operands *o, const T &argument)
{
    for (size_t i = 0; i + sizeof(void *) <= sizeof(T); i += sizeof(void *)) {
        const void *word;
        memcpy(&word, (const char *)&argument + i, sizeof(word));
        cuda_shim_add_operand(o, word, FAKE_USES);
    }
}

template <typename... P> struct cuda_shim_arguments {
    void (*kernel)(P...);
    std::tuple<P...> values;
};

template <typename... P>
static inline void cuda_shim_launch(cudaStream_t queue, const char *name, unsigned blocks, unsigned threads,
                                    size_t shared_bytes, void (*kernel)(P...),
                                    typename std::common_type<P>::type... arguments)
{
    typedef cuda_shim_arguments<P...> bound;
    const bound self = {kernel, std::tuple<P...>(arguments...)};
    cuda_shim_operands operands = {};
    (cuda_shim_list(&operands, arguments), ...);
    const cuda_shim_call call = {name, blocks, threads, shared_bytes, [](const void *at) {
                                     const bound *b = (const bound *)at;
                                     std::apply(b->kernel, b->values);
                                 }};
    cuda_shim_begin(queue, &call, &self, sizeof(self), operands.all, operands.n);
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
void tensor_multiply_first(float sum[4], const float first[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
void tensor_copies_end(void);
void cuda_shim_copies_wait(unsigned newest);
float tensor_exp2(float x);
uint32_t tensor_pack(float first, float second);

typedef uintptr_t tensor_address;
typedef uintptr_t tensor_source;

static inline tensor_address tensor_address_of(const void *shared)
{
    return (tensor_address)shared;
}

static inline tensor_source tensor_source_of(const void *from)
{
    return (tensor_source)from;
}

template <int BYTES> static inline void tensor_load_at(uint32_t x[4], tensor_address row)
{
    tensor_load(x, (const void *)(row + BYTES));
}

template <int BYTES> static inline void tensor_load_transposed_at(uint32_t x[4], tensor_address row)
{
    tensor_load_transposed(x, (const void *)(row + BYTES));
}

template <int BYTES> static inline void tensor_copy_at(tensor_address to, tensor_source from)
{
    tensor_copy((tensor_piece *)(to + BYTES), (const void *)from, 16);
}

template <int NEWEST> static inline void tensor_copies_wait(void)
{
    cuda_shim_copies_wait(NEWEST);
}

#define TESS_CUDA_LAUNCH(kernel, blocks, threads, shared_bytes, s, ...)                                             \
    (cuda_shim_launch(tess_cuda_queue(s), #kernel, (unsigned)(blocks), (unsigned)(threads), (shared_bytes), kernel, \
                      __VA_ARGS__),                                                                                 \
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
