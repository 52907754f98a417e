/* Loads elements of tensors as float, and rounds them to their type when they are stored, in CUDA code. */
#ifndef TESS_DEVICE_CUDA_CUDA_TYPES_H
#define TESS_DEVICE_CUDA_CUDA_TYPES_H

#include "device/bf16.h"
#include "device/cuda/cuda_launch.h"
#include "device/elementwise.h"

typedef struct cuda_bf16 {
    uint16_t bits;
} cuda_bf16;

typedef struct cuda_f16 {
    uint16_t bits;
} cuda_f16;

TESS_SHARED float cuda_load(const float *x)
{
    return *x;
}

TESS_SHARED float cuda_load(const cuda_bf16 *x)
{
    return tess_bf16_to_float(x->bits);
}

TESS_SHARED float cuda_load(const cuda_f16 *x)
{
    return tess_f16_to_float(x->bits);
}

TESS_SHARED void cuda_store(float *x, float value)
{
    *x = value;
}

TESS_SHARED void cuda_store(cuda_bf16 *x, float value)
{
    x->bits = tess_float_to_bf16(value);
}

TESS_SHARED void cuda_store(cuda_f16 *x, float value)
{
    x->bits = tess_float_to_f16(value);
}

/* N words that are read and written by one access. */
template <int N> struct alignas(sizeof(uint32_t) * N) cuda_words {
    uint32_t word[N];
};

/* Reads N neighbouring elements by one access. They are aligned to their bytes together, which are at most 16. */
template <int N> TESS_SHARED void cuda_load_wide(float (&to)[N], const float *from)
{
    const cuda_words<N> words = *(const cuda_words<N> *)from;
    for (int i = 0; i < N; i++)
        to[i] = tess_bits_float(words.word[i]);
}

template <int N> TESS_SHARED void cuda_load_wide(float (&to)[N], const cuda_bf16 *from)
{
    const cuda_words<N / 2> words = *(const cuda_words<N / 2> *)from;
    for (int i = 0; i < N; i++)
        to[i] = tess_bf16_to_float((uint16_t)(words.word[i / 2] >> i % 2 * 16));
}

template <int N> TESS_SHARED void cuda_store_wide(float *to, const float (&values)[N])
{
    cuda_words<N> words;
    for (int i = 0; i < N; i++)
        words.word[i] = tess_float_bits(values[i]);
    *(cuda_words<N> *)to = words;
}

/* Returns two floats rounded to bfloat16, the first in the low half. A GPU has an instruction for both; only the bits
 * of a NaN are others. */
TESS_SHARED uint32_t cuda_bf16_pair(float low, float high)
{
#ifdef __CUDA_ARCH__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return tess_float_to_bf16(low) | (uint32_t)tess_float_to_bf16(high) << 16;
#endif
}

template <int N> TESS_SHARED void cuda_store_wide(cuda_bf16 *to, const float (&values)[N])
{
    cuda_words<N / 2> words;
    for (int i = 0; i < N / 2; i++)
        words.word[i] = cuda_bf16_pair(values[2 * i], values[2 * i + 1]);
    *(cuda_words<N / 2> *)to = words;
}

/* Reads N neighbouring elements: one of any address, or several by one access. */
template <typename E, int N> TESS_SHARED void cuda_load_some(float (&to)[N], const E *from)
{
    if constexpr (N == 1)
        to[0] = cuda_load(from);
    else
        cuda_load_wide(to, from);
}

template <typename E, int N> TESS_SHARED void cuda_store_some(E *to, const float (&values)[N])
{
    if constexpr (N == 1)
        cuda_store(to, values[0]);
    else
        cuda_store_wide(to, values);
}

/* Whether memory allows accesses of 16 bytes. NULL does. */
TESS_SHARED bool cuda_is_wide(const void *memory)
{
    return (uintptr_t)memory % 16 == 0;
}

template <typename E> TESS_SHARED float cuda_round(float value)
{
    E rounded;
    cuda_store(&rounded, value);
    return cuda_load(&rounded);
}

TESS_SHARED int64_t cuda_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The quotient and remainder of sizes >= 0. A GPU divides 64-bit numbers with a long sequence of instructions and
 * 32-bit numbers with a short one, so small sizes are divided as 32-bit numbers. */
typedef struct cuda_division {
    int64_t quotient, rest;
} cuda_division;

TESS_SHARED cuda_division cuda_divide(int64_t a, int64_t b)
{
    int64_t quotient = (uint64_t)(a | b) >> 32 == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
    cuda_division d = {quotient, a - quotient * b};
    return d;
}

/* The number of blocks that a sum over T tokens is split into. */
TESS_SHARED int64_t cuda_token_blocks(int64_t T)
{
    return (T + TESS_NORM_BLOCK - 1) / TESS_NORM_BLOCK;
}

/* Launches kernel<E> with E for `dtype`, which is F32 or BF16. */
#define TESS_CUDA_LAUNCH_OF(dtype, kernel, ...)                         \
    ((dtype) == TESS_F32 ? TESS_CUDA_LAUNCH(kernel<float>, __VA_ARGS__) \
                         : TESS_CUDA_LAUNCH(kernel<cuda_bf16>, __VA_ARGS__))

/* Folds the values of a warp: each thread adds the value of the thread whose number is higher by `width`, then by half
 * of that, and so on down to 1. All 32 threads call. */
template <typename N> static __device__ inline N cuda_fold(N sum, int width)
{
    for (; width > 0; width /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, (unsigned)width);
    return sum;
}

/* Returns the sum of n values, `apart` floats apart, in ascending order. Many of them are read at a time, because the
 * sum would otherwise wait for each. */
static __device__ inline float cuda_sum_ascending(const float *values, int64_t n, int64_t apart)
{
    enum { AHEAD = 64 };
    float sum = 0;
    for (int64_t begin = 0; begin < n; begin += AHEAD) {
        float next[AHEAD];
        TESS_CUDA_UNROLL
        for (int i = 0; i < AHEAD; i++)
            next[i] = begin + i < n ? values[(begin + i) * apart] : 0.0f; /* +0 does not change a sum that began as 0 */
        TESS_CUDA_UNROLL
        for (int i = 0; i < AHEAD; i++)
            sum += next[i];
    }
    return sum;
}

/* Returns the sum of get(0) .. get(n - 1), n in [1, 2^LEVELS), as a binary tree: neighbours are added first, and an
 * unpaired node is carried up. Level l holds a sum of 2^l values, as a binary counter holds bits. */
template <int LEVELS, typename G> static __device__ inline float cuda_tree(int64_t n, G get)
{
    float level[LEVELS], sum = 0;
    int l;
    for (int64_t k = 0; k < n; k++) {
        sum = get(k);
        for (l = 0; l < LEVELS - 1 && (k >> l & 1) != 0; l++)
            sum = level[l] + sum;
        level[l] = sum;
    }
    for (l = 0; (n >> l & 1) == 0; l++)
        ;
    sum = level[l];
    for (l++; l < LEVELS; l++)
        if ((n >> l & 1) != 0)
            sum = level[l] + sum;
    return sum;
}

#endif
