/* Tensor cores, and copies into shared memory that run at the same time: what a warp does as one. All 32 threads call;
 * lane l of the warp is thread l % 32. From compute capability 8.0 on. A compiler that is not CUDA's has the same
 * functions from the header that it includes first (device/cuda/cuda_launch.h). */
#ifndef TESS_DEVICE_CUDA_CUDA_TENSOR_H
#define TESS_DEVICE_CUDA_CUDA_TENSOR_H

#include "device/cuda/cuda_types.h"

/* Bytes of shared memory that one asynchronous copy fills, and that a row of a fragment has. */
typedef struct alignas(16) tensor_piece {
    uint32_t words[4];
} tensor_piece;

#ifdef __CUDACC__
/* c (16,8) += a (16,16) b (16,8), bf16 into float32. Lane l has of c rows l/4 (c[0], c[1]) and l/4+8 (c[2], c[3]),
 * columns l%4*2 and the next; of a, two elements a word, rows l/4 (a[0], a[2]) and l/4+8 (a[1], a[3]), columns l%4*2
 * (a[0], a[1]) and 8 more (a[2], a[3]); of b column l/4, rows l%4*2 (b0) and 8 more (b1). PTX: mma.m16n8k16. */
static __device__ __forceinline__ void tensor_multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four matrices (8,8) of 16 bits from shared memory; lane l says where row l%8 of matrix l/8 lies. Lane l gets of each
 * the elements l%4*2 and the next of row l/4. */
static __device__ __forceinline__ void tensor_load(uint32_t x[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* The same matrices, transposed: lane l gets rows l%4*2 and the next of column l/4. */
static __device__ __forceinline__ void tensor_load_transposed(uint32_t x[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* The thread's own: `bytes` (1 to 16) from memory, zeros after them. Both sides are aligned to 16. */
static __device__ __forceinline__ void tensor_copy(tensor_piece *to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* The same of a pair of floats, aligned to 8 bytes. */
static __device__ __forceinline__ void tensor_copy_pair(float to[2], const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
}

/* The thread's copies since the last time are a group, which may be empty. */
static __device__ __forceinline__ void tensor_copies_end(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All groups but the thread's NEWEST ones are there, for the thread itself. */
template <int NEWEST> static __device__ __forceinline__ void tensor_copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
}

/* 2^x, within 2 ulp; 1 for 0, and 0 for -inf and for subnormal results. */
static __device__ __forceinline__ float tensor_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Rounded to bfloat16, the first in the lower half. */
static __device__ __forceinline__ uint32_t tensor_pack(float first, float second)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
#endif

#endif
