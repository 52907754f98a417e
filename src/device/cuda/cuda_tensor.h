/* Operations that a warp does together: products on tensor cores, and copies into shared memory that run in the
 * background. All 32 threads call them; lane l of the warp is thread l % 32. They need compute capability 8.0. For a
 * compiler other than CUDA's, the header that it includes first provides the same functions
 * (device/cuda/cuda_launch.h). */
#ifndef TESS_DEVICE_CUDA_CUDA_TENSOR_H
#define TESS_DEVICE_CUDA_CUDA_TENSOR_H

#include "device/cuda/cuda_types.h"

/* The bytes of shared memory that one asynchronous copy writes. A row of a fragment has the same size. */
typedef struct alignas(16) tensor_piece {
    uint32_t words[4];
} tensor_piece;

/* A line of shared memory, to which dynamic shared memory is aligned. A lane's address in a line is its address in the
 * first piece, with bits 4 to 6 changed. */
typedef struct alignas(128) tensor_line {
    tensor_piece pieces[8];
} tensor_line;

#ifdef __CUDACC__
/* An address in shared memory, and one in the GPU's memory. */
typedef uint32_t tensor_address;
typedef uint64_t tensor_source;

static __device__ __forceinline__ tensor_address tensor_address_of(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

static __device__ __forceinline__ tensor_source tensor_source_of(const void *from)
{
    return (uint64_t)__cvta_generic_to_global(from);
}

/* c (16,8) += a (16,16) b (16,8), with a and b in bf16 and c in float32. The elements of lane l are:
 * - c: rows l/4 (c[0], c[1]) and l/4+8 (c[2], c[3]), columns l%4*2 and the next
 * - a: two elements a word, rows l/4 (a[0], a[2]) and l/4+8 (a[1], a[3]), columns l%4*2 (a[0], a[1]) and 8 more
 *   (a[2], a[3])
 * - b: column l/4, rows l%4*2 (b0) and 8 more (b1)
 * The instruction of PTX is mma.m16n8k16. */
static __device__ __forceinline__ void tensor_multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* sum = first + a b, as above. */
static __device__ __forceinline__ void tensor_multiply_first(float sum[4], const float first[4], const uint32_t a[4],
                                                             uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(first[0]), "f"(first[1]), "f"(first[2]),
          "f"(first[3]));
}

/* Loads four matrices (8,8) of 16-bit elements from shared memory. Lane l passes the address of row l%8 of matrix l/8.
 * Lane l receives elements l%4*2 and the next of row l/4 of each matrix. */
static __device__ __forceinline__ void tensor_load(uint32_t x[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Loads the same matrices transposed: lane l receives rows l%4*2 and the next of column l/4. */
static __device__ __forceinline__ void tensor_load_transposed(uint32_t x[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* The same for a row that is BYTES after `row`. */
template <int BYTES> static __device__ __forceinline__ void tensor_load_at(uint32_t x[4], tensor_address row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(row), "n"(BYTES)
                 : "memory");
}

template <int BYTES> static __device__ __forceinline__ void tensor_load_transposed_at(uint32_t x[4], tensor_address row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(row), "n"(BYTES)
                 : "memory");
}

/* Starts a copy of a whole piece by this thread, BYTES after `to`. */
template <int BYTES> static __device__ __forceinline__ void tensor_copy_at(tensor_address to, tensor_source from)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1], 16;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}

/* Starts a copy by this thread: `bytes` (1 to 16) from memory, then zeros. Both addresses are aligned to 16. */
static __device__ __forceinline__ void tensor_copy(tensor_piece *to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* Starts a copy of a pair of floats by this thread. Both addresses are aligned to 8 bytes. */
static __device__ __forceinline__ void tensor_copy_pair(float to[2], const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
}

/* Ends a group: the copies that this thread has started since the last call. The group may be empty. */
static __device__ __forceinline__ void tensor_copies_end(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all groups of this thread but the newest NEWEST are complete. Other threads see the copies only after a
 * barrier. */
template <int NEWEST> static __device__ __forceinline__ void tensor_copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
}

/* Returns 2^x within 2 ulp: 1 for 0, and 0 for -inf and for subnormal results. */
static __device__ __forceinline__ float tensor_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Rounds two floats to bfloat16. The first is in the lower half of the result. */
static __device__ __forceinline__ uint32_t tensor_pack(float first, float second)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
#endif

#endif
