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

/* Adding 1.5 * 2^23 leaves n in the low bits, as an integer; shifts drop the other bits. Both halves of n are exponents
 * of normal factors, and a NaN is p, too. */
static __device__ __forceinline__ vec v_scale2(vec p, vec n)
{
    const uint32_t whole = tess_float_bits(n + 12582912.0f), half = (uint32_t)((int32_t)whole >> 1);
    return p * tess_bits_float((half << 23) + 0x3f800000u) * tess_bits_float(((whole - half) << 23) + 0x3f800000u);
}
#endif

#endif
