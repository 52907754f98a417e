/* `vec` in CUDA code: that of device/ref/vec_ref.h, where a GPU has one instruction for several of its own. The bits
 * are the same, except for those of a NaN and for the sign of a maximum or minimum of 0 and -0. */
#ifndef TESS_DEVICE_CUDA_CUDA_VEC_H
#define TESS_DEVICE_CUDA_CUDA_VEC_H

#ifdef __CUDA_ARCH__
#define TESS_VEC_OWN_RANGES
#endif
#include "device/ref/vec_ref.h"

#ifdef __CUDA_ARCH__
static __device__ __forceinline__ vec v_max(vec a, vec b)
{
    vec c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

static __device__ __forceinline__ vec v_min(vec a, vec b)
{
    vec c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

/* Returns n in the low bits, as an integer. Shifts to the exponent drop the other bits, which are those of 1.5 * 2^23.
 */
static __device__ __forceinline__ uint32_t cuda_whole(vec n)
{
    return tess_float_bits(n + 12582912.0f);
}

/* Both halves of n are exponents of normal factors. A NaN is p, too. */
static __device__ __forceinline__ vec v_scale2(vec p, vec n)
{
    const uint32_t whole = cuda_whole(n), half = (uint32_t)((int32_t)whole >> 1);
    return p * tess_bits_float((half << 23) + 0x3f800000u) * tess_bits_float(((whole - half) << 23) + 0x3f800000u);
}

/* The same with a constant as the second factor: the first is 2^(n + 64), or 2^(n - 64). The first product is exact. */
static __device__ __forceinline__ vec v_scale2_down(vec p, vec n)
{
    return p * tess_bits_float((cuda_whole(n) << 23) + ((127u + 64) << 23)) * 0x1p-64f;
}

static __device__ __forceinline__ vec v_scale2_up(vec p, vec n)
{
    return p * tess_bits_float((cuda_whole(n) << 23) + ((127u - 64) << 23)) * 0x1p64f;
}
#endif

#endif
