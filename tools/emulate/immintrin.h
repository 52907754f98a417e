/* Stands in for the compiler's header in the sources of AVX-512 and AMX, with -DTESS_EMULATE=ON: the intrinsics that
 * Tessera uses, written with AVX2. Every result has the bits that the instruction gives (Intel's manual, vol. 2). A
 * vector is two halves of 256 bits. What the sources use is here and nothing more: a missing intrinsic is an error of
 * the compiler. Of NaNs only the kind is kept, not which operand's payload remains. */
#ifndef TESS_EMULATE_IMMINTRIN_H
#define TESS_EMULATE_IMMINTRIN_H

/* The compiler's headers up to AVX2 can be included one by one only where theirs is said to be included. */
#define _IMMINTRIN_H_INCLUDED
#define __IMMINTRIN_H
#include <smmintrin.h>

#include <avxintrin.h>

#include <avx2intrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef float __m512 __attribute__((vector_size(64), may_alias));
typedef double __m512d __attribute__((vector_size(64), may_alias));
typedef long long __m512i __attribute__((vector_size(64), may_alias));
typedef short __m512bh __attribute__((vector_size(64), may_alias));
typedef uint8_t __mmask8;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

#define EMULATED static inline __attribute__((always_inline, unused))

/* Ends the program where an instruction is invalid, or does what is not emulated. */
EMULATED void tess_must(bool is_valid)
{
    if (!is_valid)
        abort();
}

/* ---- Halves ---- */
#define EMULATED_HALVES(type, half, name)                      \
    EMULATED half tess_low_##name(type a)                      \
    {                                                          \
        half x;                                                \
        memcpy(&x, &a, sizeof(x));                             \
        return x;                                              \
    }                                                          \
    EMULATED half tess_high_##name(type a)                     \
    {                                                          \
        half x;                                                \
        memcpy(&x, (const char *)&a + sizeof(x), sizeof(x));   \
        return x;                                              \
    }                                                          \
    EMULATED type tess_join_##name(half low, half high)        \
    {                                                          \
        type x;                                                \
        memcpy(&x, &low, sizeof(low));                         \
        memcpy((char *)&x + sizeof(low), &high, sizeof(high)); \
        return x;                                              \
    }
EMULATED_HALVES(__m512, __m256, ps)
EMULATED_HALVES(__m512d, __m256d, pd)
EMULATED_HALVES(__m512i, __m256i, si)

/* `name` of two vectors, and of one, as `narrow` of their halves. */
#define EMULATED_TWO(name, narrow, type, kind)                                     \
    EMULATED type name(type a, type b)                                             \
    {                                                                              \
        return tess_join_##kind(narrow(tess_low_##kind(a), tess_low_##kind(b)),    \
                                narrow(tess_high_##kind(a), tess_high_##kind(b))); \
    }
#define EMULATED_THREE(name, narrow, type, kind)                                                        \
    EMULATED type name(type a, type b, type c)                                                          \
    {                                                                                                   \
        return tess_join_##kind(narrow(tess_low_##kind(a), tess_low_##kind(b), tess_low_##kind(c)),     \
                                narrow(tess_high_##kind(a), tess_high_##kind(b), tess_high_##kind(c))); \
    }
#define EMULATED_SHIFT(name, narrow)                                                          \
    EMULATED __m512i name(__m512i a, unsigned n)                                              \
    {                                                                                         \
        return tess_join_si(narrow(tess_low_si(a), (int)n), narrow(tess_high_si(a), (int)n)); \
    }

/* ---- Arithmetic ---- */
EMULATED_TWO(_mm512_add_ps, _mm256_add_ps, __m512, ps)
EMULATED_TWO(_mm512_sub_ps, _mm256_sub_ps, __m512, ps)
EMULATED_TWO(_mm512_mul_ps, _mm256_mul_ps, __m512, ps)
EMULATED_TWO(_mm512_div_ps, _mm256_div_ps, __m512, ps)
EMULATED_TWO(_mm512_max_ps, _mm256_max_ps, __m512, ps)
EMULATED_TWO(_mm512_min_ps, _mm256_min_ps, __m512, ps)
EMULATED_TWO(_mm512_add_pd, _mm256_add_pd, __m512d, pd)
EMULATED_THREE(_mm512_fmadd_ps, _mm256_fmadd_ps, __m512, ps)
EMULATED_THREE(_mm512_fmsub_ps, _mm256_fmsub_ps, __m512, ps)
EMULATED_THREE(_mm512_fnmadd_ps, _mm256_fnmadd_ps, __m512, ps)
EMULATED_THREE(_mm512_fmadd_pd, _mm256_fmadd_pd, __m512d, pd)
EMULATED_TWO(_mm512_add_epi32, _mm256_add_epi32, __m512i, si)
EMULATED_TWO(_mm512_sub_epi32, _mm256_sub_epi32, __m512i, si)
EMULATED_TWO(_mm512_min_epi32, _mm256_min_epi32, __m512i, si)
EMULATED_TWO(_mm512_max_epi32, _mm256_max_epi32, __m512i, si)
EMULATED_TWO(_mm512_mul_epu32, _mm256_mul_epu32, __m512i, si)
EMULATED_TWO(_mm512_and_si512, _mm256_and_si256, __m512i, si)
EMULATED_TWO(_mm512_or_si512, _mm256_or_si256, __m512i, si)
EMULATED_TWO(_mm512_xor_si512, _mm256_xor_si256, __m512i, si)
EMULATED_SHIFT(_mm512_slli_epi32, _mm256_slli_epi32)
EMULATED_SHIFT(_mm512_srli_epi32, _mm256_srli_epi32)
EMULATED_SHIFT(_mm512_srai_epi32, _mm256_srai_epi32)
EMULATED_SHIFT(_mm512_slli_epi64, _mm256_slli_epi64)
EMULATED_SHIFT(_mm512_srli_epi64, _mm256_srli_epi64)

EMULATED __m512 _mm512_sqrt_ps(__m512 a)
{
    return tess_join_ps(_mm256_sqrt_ps(tess_low_ps(a)), _mm256_sqrt_ps(tess_high_ps(a)));
}

/* ---- Constants, casts and parts ---- */
EMULATED __m512 _mm512_set1_ps(float x)
{
    return tess_join_ps(_mm256_set1_ps(x), _mm256_set1_ps(x));
}

EMULATED __m512i _mm512_set1_epi32(int x)
{
    return tess_join_si(_mm256_set1_epi32(x), _mm256_set1_epi32(x));
}

EMULATED __m512i _mm512_set1_epi64(long long x)
{
    return tess_join_si(_mm256_set1_epi64x(x), _mm256_set1_epi64x(x));
}

EMULATED __m512i _mm512_set4_epi32(int d, int c, int b, int a)
{
    const __m256i x = _mm256_setr_epi32(a, b, c, d, a, b, c, d);
    return tess_join_si(x, x);
}

#define _mm512_setr_epi32(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) \
    tess_join_si(_mm256_setr_epi32(a, b, c, d, e, f, g, h), _mm256_setr_epi32(i, j, k, l, m, n, o, p))
#define _mm512_setr_epi64(a, b, c, d, e, f, g, h) \
    tess_join_si(_mm256_setr_epi64x(a, b, c, d), _mm256_setr_epi64x(e, f, g, h))
#define _mm512_setzero_ps() _mm512_set1_ps(0)
#define _mm512_setzero_si512() _mm512_set1_epi32(0)
#define _mm512_setzero_pd() ((__m512d)_mm512_set1_epi32(0))
#define _mm512_castps_si512(a) ((__m512i)(a))
#define _mm512_castsi512_ps(a) ((__m512)(a))
#define _mm512_castps_pd(a) ((__m512d)(a))
#define _mm512_castpd_ps(a) ((__m512)(a))
#define _mm512_castps512_ps256(a) tess_low_ps(a)
#define _mm512_castpd512_pd256(a) tess_low_pd(a)
#define _mm512_castsi512_si256(a) tess_low_si(a)
#define _mm512_castsi512_si128(a) _mm256_castsi256_si128(tess_low_si(a))
#define _mm512_extractf32x8_ps(a, high) ((high) ? tess_high_ps(a) : tess_low_ps(a))
#define _mm512_extractf64x4_pd(a, high) ((high) ? tess_high_pd(a) : tess_low_pd(a))
#define _mm512_extracti64x4_epi64(a, high) ((high) ? tess_high_si(a) : tess_low_si(a))
#define _mm512_cvtss_f32(a) _mm256_cvtss_f32(tess_low_ps(a))

/* The other quarters are undefined. */
EMULATED __m512i _mm512_castsi128_si512(__m128i a)
{
    return tess_join_si(_mm256_zextsi128_si256(a), _mm256_setzero_si256());
}

EMULATED __m512i _mm512_inserti32x4(__m512i a, __m128i quarter, int at)
{
    memcpy((char *)&a + at * sizeof(quarter), &quarter, sizeof(quarter));
    return a;
}

/* ---- Masks ---- */
/* All bits of the lanes whose bit in the mask is set. */
EMULATED __m256i tess_lanes_32(unsigned mask)
{
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)mask), bits), bits);
}

EMULATED __m256i tess_lanes_16(unsigned mask)
{
    const __m256i bits =
        _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
    return _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16((short)mask), bits), bits);
}

EMULATED __m256i tess_lanes_8(uint32_t mask)
{
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)mask), byte), bits), bits);
}

EMULATED __mmask16 tess_mask_of(__m256 low, __m256 high)
{
    return (__mmask16)(_mm256_movemask_ps(low) | _mm256_movemask_ps(high) << 8);
}

#define _mm512_cmp_ps_mask(a, b, how)                                \
    tess_mask_of(_mm256_cmp_ps(tess_low_ps(a), tess_low_ps(b), how), \
                 _mm256_cmp_ps(tess_high_ps(a), tess_high_ps(b), how))

/* Signed: a > b. */
EMULATED __mmask16 tess_greater(__m512i a, __m512i b)
{
    return tess_mask_of(_mm256_castsi256_ps(_mm256_cmpgt_epi32(tess_low_si(a), tess_low_si(b))),
                        _mm256_castsi256_ps(_mm256_cmpgt_epi32(tess_high_si(a), tess_high_si(b))));
}

EMULATED __mmask16 _mm512_cmple_epi32_mask(__m512i a, __m512i b)
{
    return (__mmask16)~tess_greater(a, b);
}

EMULATED __mmask16 _mm512_cmplt_epu32_mask(__m512i a, __m512i b)
{
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    return tess_greater(_mm512_xor_si512(b, sign), _mm512_xor_si512(a, sign));
}

EMULATED __mmask16 _mm512_test_epi32_mask(__m512i a, __m512i b)
{
    return _mm512_cmplt_epu32_mask(_mm512_setzero_si512(), _mm512_and_si512(a, b));
}

/* b where the mask is set, else a. */
EMULATED __m512 _mm512_mask_blend_ps(__mmask16 mask, __m512 a, __m512 b)
{
    const __m256 low = _mm256_castsi256_ps(tess_lanes_32(mask)), high = _mm256_castsi256_ps(tess_lanes_32(mask >> 8));
    return tess_join_ps(_mm256_blendv_ps(tess_low_ps(a), tess_low_ps(b), low),
                        _mm256_blendv_ps(tess_high_ps(a), tess_high_ps(b), high));
}

EMULATED __m512i _mm512_mask_blend_epi16(__mmask32 mask, __m512i a, __m512i b)
{
    return tess_join_si(_mm256_blendv_epi8(tess_low_si(a), tess_low_si(b), tess_lanes_16(mask)),
                        _mm256_blendv_epi8(tess_high_si(a), tess_high_si(b), tess_lanes_16(mask >> 16)));
}

#define _mm512_mask_blend_epi32(mask, a, b) ((__m512i)_mm512_mask_blend_ps(mask, (__m512)(a), (__m512)(b)))
#define _mm512_mask_mov_ps(from, mask, a) _mm512_mask_blend_ps(mask, from, a)
#define _mm512_mask_add_epi32(from, mask, a, b) _mm512_mask_blend_epi32(mask, from, _mm512_add_epi32(a, b))

/* ---- Memory ---- */
/* An instruction that wants whole lines faults elsewhere. */
EMULATED void *tess_aligned_line(const void *p)
{
    if ((uintptr_t)p % 64 != 0)
        abort();
    return (void *)(uintptr_t)p;
}

#define EMULATED_MEMORY(suffix, type, of)                   \
    EMULATED type _mm512_loadu_##suffix(const void *p)      \
    {                                                       \
        type x;                                             \
        memcpy(&x, p, sizeof(x));                           \
        return x;                                           \
    }                                                       \
    EMULATED type _mm512_load_##suffix(const void *p)       \
    {                                                       \
        return _mm512_loadu_##suffix(tess_aligned_line(p)); \
    }                                                       \
    EMULATED void _mm512_storeu_##suffix(void *p, type a)   \
    {                                                       \
        memcpy(p, &a, sizeof(a));                           \
    }                                                       \
    EMULATED void _mm512_store_##suffix(void *p, type a)    \
    {                                                       \
        _mm512_storeu_##suffix(tess_aligned_line(p), a);    \
    }                                                       \
    EMULATED void _mm512_stream_##suffix(void *p, type a)   \
    {                                                       \
        const __m256i *half = (const __m256i *)&a;          \
        _mm256_stream_si256(tess_aligned_line(p), half[0]); \
        _mm256_stream_si256((__m256i *)p + 1, half[1]);     \
    }
EMULATED_MEMORY(ps, __m512, float)
EMULATED_MEMORY(si512, __m512i, void)

/* Masked lanes are neither read nor written. */
EMULATED __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const void *from)
{
    const float *p = from;
    return tess_join_ps(_mm256_maskload_ps(p, tess_lanes_32(mask)),
                        _mm256_maskload_ps(p + 8, tess_lanes_32(mask >> 8)));
}

EMULATED void _mm512_mask_storeu_ps(void *to, __mmask16 mask, __m512 a)
{
    float *p = to;
    _mm256_maskstore_ps(p, tess_lanes_32(mask), tess_low_ps(a));
    _mm256_maskstore_ps(p + 8, tess_lanes_32(mask >> 8), tess_high_ps(a));
}

#define _mm512_mask_storeu_epi32(p, mask, a) _mm512_mask_storeu_ps(p, mask, (__m512)(a))

#define EMULATED_MASKED(load, store, type, mask_type, lane)                       \
    EMULATED type load(mask_type mask, const void *p)                             \
    {                                                                             \
        lane x[sizeof(type) / sizeof(lane)] = {0};                                \
        type whole;                                                               \
        if (mask == (mask_type)-1)                                                \
            memcpy(x, p, sizeof(x));                                              \
        else                                                                      \
            for (mask_type left = mask; left != 0; left &= (mask_type)(left - 1)) \
                x[__builtin_ctz(left)] = ((const lane *)p)[__builtin_ctz(left)];  \
        memcpy(&whole, x, sizeof(whole));                                         \
        return whole;                                                             \
    }                                                                             \
    EMULATED void store(void *p, mask_type mask, type a)                          \
    {                                                                             \
        lane x[sizeof(type) / sizeof(lane)];                                      \
        memcpy(x, &a, sizeof(x));                                                 \
        if (mask == (mask_type)-1)                                                \
            memcpy(p, x, sizeof(x));                                              \
        else                                                                      \
            for (mask_type left = mask; left != 0; left &= (mask_type)(left - 1)) \
                ((lane *)p)[__builtin_ctz(left)] = x[__builtin_ctz(left)];        \
    }
EMULATED_MASKED(_mm512_maskz_loadu_epi16, _mm512_mask_storeu_epi16, __m512i, __mmask32, uint16_t)
EMULATED_MASKED(_mm256_maskz_loadu_epi16, _mm256_mask_storeu_epi16, __m256i, __mmask16, uint16_t)
EMULATED_MASKED(_mm_maskz_loadu_epi8, _mm_mask_storeu_epi8, __m128i, __mmask16, uint8_t)

#define _mm512_mask_i32gather_ps(from, mask, at, base, scale)                                          \
    tess_join_ps(_mm256_mask_i32gather_ps(tess_low_ps(from), (const float *)(base), tess_low_si(at),   \
                                          _mm256_castsi256_ps(tess_lanes_32(mask)), scale),            \
                 _mm256_mask_i32gather_ps(tess_high_ps(from), (const float *)(base), tess_high_si(at), \
                                          _mm256_castsi256_ps(tess_lanes_32((mask) >> 8)), scale))
#define _mm512_i32gather_ps(at, base, scale) _mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xffff, at, base, scale)
#define _mm512_i32gather_epi32(at, base, scale) ((__m512i)_mm512_i32gather_ps(at, (const void *)(base), scale))

/* ---- Lanes in another order ---- */
EMULATED_TWO(_mm512_unpacklo_epi16, _mm256_unpacklo_epi16, __m512i, si)
EMULATED_TWO(_mm512_unpackhi_epi16, _mm256_unpackhi_epi16, __m512i, si)
EMULATED_TWO(_mm512_unpacklo_epi32, _mm256_unpacklo_epi32, __m512i, si)
EMULATED_TWO(_mm512_unpackhi_epi32, _mm256_unpackhi_epi32, __m512i, si)
EMULATED_TWO(_mm512_unpacklo_epi64, _mm256_unpacklo_epi64, __m512i, si)
EMULATED_TWO(_mm512_unpackhi_epi64, _mm256_unpackhi_epi64, __m512i, si)
EMULATED_TWO(_mm512_unpacklo_ps, _mm256_unpacklo_ps, __m512, ps)
EMULATED_TWO(_mm512_unpackhi_ps, _mm256_unpackhi_ps, __m512, ps)
EMULATED_TWO(_mm512_unpacklo_pd, _mm256_unpacklo_pd, __m512d, pd)
EMULATED_TWO(_mm512_unpackhi_pd, _mm256_unpackhi_pd, __m512d, pd)

/* Quarters: two of a, then two of b. */
EMULATED __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int which)
{
    __m128i x[4], y[4], z[4];
    memcpy(x, &a, sizeof(x));
    memcpy(y, &b, sizeof(y));
    z[0] = x[which & 3];
    z[1] = x[which >> 2 & 3];
    z[2] = y[which >> 4 & 3];
    z[3] = y[which >> 6 & 3];
    return tess_join_si(_mm256_set_m128i(z[1], z[0]), _mm256_set_m128i(z[3], z[2]));
}

#define _mm512_shuffle_f32x4(a, b, which) ((__m512)_mm512_shuffle_i32x4((__m512i)(a), (__m512i)(b), which))

EMULATED __m512i _mm512_mask_shuffle_epi8(__m512i from, __mmask64 mask, __m512i a, __m512i by)
{
    const __m256i low = _mm256_shuffle_epi8(tess_low_si(a), tess_low_si(by));
    const __m256i high = _mm256_shuffle_epi8(tess_high_si(a), tess_high_si(by));
    return tess_join_si(_mm256_blendv_epi8(tess_low_si(from), low, tess_lanes_8((uint32_t)mask)),
                        _mm256_blendv_epi8(tess_high_si(from), high, tess_lanes_8((uint32_t)(mask >> 32))));
}

/* Lane by lane one of the lanes of a, then b. */
#define EMULATED_PERMUTE(name, lane, index)                 \
    EMULATED __m512i name(__m512i a, __m512i by, __m512i b) \
    {                                                       \
        enum { LANES_OF = 64 / sizeof(lane) };              \
        lane from[2 * LANES_OF], to[LANES_OF];              \
        index at[LANES_OF];                                 \
        __m512i x;                                          \
        memcpy(from, &a, sizeof(a));                        \
        memcpy(from + LANES_OF, &b, sizeof(b));             \
        memcpy(at, &by, sizeof(by));                        \
        for (int i = 0; i < LANES_OF; i++)                  \
            to[i] = from[at[i] % (2 * LANES_OF)];           \
        memcpy(&x, to, sizeof(x));                          \
        return x;                                           \
    }
EMULATED_PERMUTE(_mm512_permutex2var_epi16, uint16_t, uint16_t)
EMULATED_PERMUTE(tess_permutex2var_epi32, uint32_t, uint32_t)
EMULATED_PERMUTE(_mm512_permutex2var_epi64, uint64_t, uint64_t)
#define _mm512_permutex2var_ps(a, by, b) ((__m512)tess_permutex2var_epi32((__m512i)(a), by, (__m512i)(b)))

/* ---- Conversions ---- */
EMULATED __m512i _mm512_cvtepu16_epi32(__m256i a)
{
    return tess_join_si(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)),
                        _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)));
}

EMULATED __m512i _mm512_cvtepu8_epi32(__m128i a)
{
    return tess_join_si(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8)));
}

/* The lower half of each lane. */
EMULATED __m256i _mm512_cvtepi32_epi16(__m512i a)
{
    const __m512i low = _mm512_and_si512(a, _mm512_set1_epi32(0xffff));
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(tess_low_si(low), tess_high_si(low)), 0xd8);
}

EMULATED __m128i _mm512_cvtepi32_epi8(__m512i a)
{
    const __m256i low = _mm512_cvtepi32_epi16(_mm512_and_si512(a, _mm512_set1_epi32(0xff)));
    return _mm_packus_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
}

EMULATED __m512 _mm512_cvtepi32_ps(__m512i a)
{
    return tess_join_ps(_mm256_cvtepi32_ps(tess_low_si(a)), _mm256_cvtepi32_ps(tess_high_si(a)));
}

EMULATED __m512d _mm512_cvtps_pd(__m256 a)
{
    return tess_join_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)));
}

EMULATED __m512 _mm512_cvtph_ps(__m256i a)
{
    return tess_join_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}

#define _mm512_cvtps_ph(a, how) \
    _mm256_set_m128i(_mm256_cvtps_ph(tess_high_ps(a), how), _mm256_cvtps_ph(tess_low_ps(a), how))

/* Rounds each lane to bf16, in its lower half: to nearest even. Denormals become zero, whatever MXCSR says. */
EMULATED __m512i tess_bf16_of(__m512 a)
{
    const __m512i bits = (__m512i)a, size = _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MAX));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i x = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    x = _mm512_mask_blend_epi32(tess_greater(size, _mm512_set1_epi32(0x7f800000)), x,
                                _mm512_or_si512(bits, _mm512_set1_epi32(0x400000)));
    x = _mm512_mask_blend_epi32(tess_greater(_mm512_set1_epi32(0x800000), size), x,
                                _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MIN)));
    return _mm512_srli_epi32(x, 16);
}

/* 16 of b, then 16 of a. */
EMULATED __m512bh _mm512_cvtne2ps_pbh(__m512 a, __m512 b)
{
    return (__m512bh)tess_join_si(_mm512_cvtepi32_epi16(tess_bf16_of(b)), _mm512_cvtepi32_epi16(tess_bf16_of(a)));
}

/* ---- Floats taken apart ---- */
/* a * 2^floor(b), rounded once: the product in double is exact. Infinite or NaN, b is the factor that its power is. */
EMULATED __m128 tess_scalef(__m128 a, __m128 b)
{
    const __m256d power = _mm256_cvtps_pd(b);
    const __m128 most = _mm_set1_ps(600), whole = _mm_max_ps(_mm_min_ps(_mm_floor_ps(b), most), _mm_set1_ps(-600));
    const __m256i exponent = _mm256_cvtepi32_epi64(_mm_add_epi32(_mm_cvtps_epi32(whole), _mm_set1_epi32(1023)));
    const __m256d infinite = _mm256_cmp_pd(_mm256_sub_pd(power, power), _mm256_setzero_pd(), _CMP_UNORD_Q);
    const __m256d limit = _mm256_max_pd(_mm256_setzero_pd(), power); /* 0, inf or NaN */
    const __m256d factor = _mm256_blendv_pd((__m256d)_mm256_slli_epi64(exponent, 52), limit, infinite);
    return _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtps_pd(a), factor));
}

EMULATED __m256 tess_scalef_half(__m256 a, __m256 b)
{
    return _mm256_set_m128(tess_scalef(_mm256_extractf128_ps(a, 1), _mm256_extractf128_ps(b, 1)),
                           tess_scalef(_mm256_castps256_ps128(a), _mm256_castps256_ps128(b)));
}
EMULATED_TWO(_mm512_scalef_ps, tess_scalef_half, __m512, ps)

/* a - floor(a), 0 for an infinity: VREDUCEPS without fraction bits and with rounding down, the one in use. */
EMULATED __m256 tess_reduce_floor(__m256 a)
{
    const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
    return _mm256_andnot_ps(_mm256_cmp_ps(size, _mm256_set1_ps(INFINITY), _CMP_EQ_OQ),
                            _mm256_sub_ps(a, _mm256_floor_ps(a)));
}

#define _mm512_reduce_ps(a, how)                                                             \
    ({                                                                                       \
        _Static_assert((how) == 0x09, "the emulation rounds down alone");                    \
        tess_join_ps(tess_reduce_floor(tess_low_ps(a)), tess_reduce_floor(tess_high_ps(a))); \
    })

/* A lane in which b is a NaN (classes 0 and 1) gets b as a quiet NaN (response 2). The others keep a (response 0). No
 * other table is emulated. */
EMULATED __m512 tess_fixupimm(__m512 a, __m512 b, __m512i table)
{
    const __m512i known = _mm512_set1_epi32(0x22);
    tess_must((tess_greater(table, known) | tess_greater(known, table)) == 0);
    const __mmask16 nan = _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q);
    return _mm512_mask_blend_ps(nan, a, (__m512)_mm512_or_si512((__m512i)b, _mm512_set1_epi32(0x400000)));
}

#define _mm512_fixupimm_ps(a, b, table, flags)                               \
    ({                                                                       \
        _Static_assert((flags) == 0, "the emulation reports no exceptions"); \
        tess_fixupimm(a, b, table);                                          \
    })

/* ---- bf16 products ---- */
enum { EMULATED_FLUSHING = 0x9fc0 }; /* MXCSR: to nearest, denormals are zero in and out, no exceptions */

/* sum + x y, of each pair the odd product first, each fused. */
EMULATED __m256 tess_dpbf16(__m256 sum, __m256i x, __m256i y)
{
    const __m256i odd = _mm256_set1_epi32((int)0xffff0000u);
    const unsigned flushing = EMULATED_FLUSHING;
    unsigned mode;
    __asm__("vstmxcsr %[mode]\n\tvldmxcsr %[flushing]\n\t"
            "vfmadd231ps %[y1], %[x1], %[sum]\n\tvfmadd231ps %[y0], %[x0], %[sum]\n\t"
            "vldmxcsr %[mode]"
            : [sum] "+&x"(sum), [mode] "=&m"(mode)
            : [flushing] "m"(flushing), [x0] "x"(_mm256_slli_epi32(x, 16)), [y0] "x"(_mm256_slli_epi32(y, 16)),
              [x1] "x"(_mm256_and_si256(x, odd)), [y1] "x"(_mm256_and_si256(y, odd)));
    return sum;
}

EMULATED __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh x, __m512bh y)
{
    return tess_join_ps(tess_dpbf16(tess_low_ps(sum), tess_low_si((__m512i)x), tess_low_si((__m512i)y)),
                        tess_dpbf16(tess_high_ps(sum), tess_high_si((__m512i)x), tess_high_si((__m512i)y)));
}

/* ---- Tiles: palette 1, eight of at most 16 rows of 64 bytes ---- */
enum { EMULATED_TILES = 8, EMULATED_TILE_ROWS = 16, EMULATED_ROW_BYTES = 64 };

typedef struct tess_emulated_tiles {
    struct __attribute__((packed)) {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    uint32_t tile[EMULATED_TILES][EMULATED_TILE_ROWS][EMULATED_ROW_BYTES / 4];
} tess_emulated_tiles;

/* A thread's registers, one definition for all files. */
__attribute__((weak)) _Thread_local tess_emulated_tiles tess_emulated;

EMULATED void _tile_loadconfig(const void *config)
{
    memset(&tess_emulated, 0, sizeof(tess_emulated));
    memcpy(&tess_emulated.config, config, sizeof(tess_emulated.config));
    for (int t = 0; t < EMULATED_TILES; t++)
        tess_must(tess_emulated.config.rows[t] <= EMULATED_TILE_ROWS &&
                  tess_emulated.config.row_bytes[t] <= EMULATED_ROW_BYTES);
}

EMULATED void _tile_release(void)
{
    memset(&tess_emulated, 0, sizeof(tess_emulated));
}

EMULATED void _tile_zero(int t)
{
    tess_must(tess_emulated.config.palette == 1 && tess_emulated.config.rows[t] > 0);
    memset(tess_emulated.tile[t], 0, sizeof(tess_emulated.tile[t]));
}

EMULATED void _tile_loadd(int t, const void *from, size_t stride)
{
    _tile_zero(t);
    for (int r = 0; r < tess_emulated.config.rows[t]; r++)
        memcpy(tess_emulated.tile[t][r], (const char *)from + r * (ptrdiff_t)stride, tess_emulated.config.row_bytes[t]);
}

#define _tile_stream_loadd _tile_loadd

EMULATED void _tile_stored(int t, void *to, size_t stride)
{
    tess_must(tess_emulated.config.palette == 1 && tess_emulated.config.rows[t] > 0);
    for (int r = 0; r < tess_emulated.config.rows[t]; r++)
        memcpy((char *)to + r * (ptrdiff_t)stride, tess_emulated.tile[t][r], tess_emulated.config.row_bytes[t]);
}

/* Even and odd elements are summed apart over the pairs of k, each product fused; then together; then to c. */
__attribute__((noinline, unused)) static void _tile_dpbf16ps(int c, int a, int b)
{
    enum { HALVES = 2 };
    tess_emulated_tiles *tiles = &tess_emulated;
    const int rows = tiles->config.rows[c], pairs = tiles->config.rows[b];
    tess_must(tiles->config.palette == 1 && a != b && a != c && b != c && rows > 0 && pairs > 0 &&
              tiles->config.rows[a] == rows && tiles->config.row_bytes[a] == 4 * pairs &&
              tiles->config.row_bytes[b] == tiles->config.row_bytes[c]);
    __m256 right[EMULATED_TILE_ROWS][2][HALVES]; /* even and odd */
    const __m256i odd = _mm256_set1_epi32((int)0xffff0000u);
    for (int k = 0; k < pairs; k++)
        for (int h = 0; h < HALVES; h++) {
            const __m256i x = _mm256_loadu_si256((const __m256i *)tiles->tile[b][k] + h);
            right[k][0][h] = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
            right[k][1][h] = _mm256_castsi256_ps(_mm256_and_si256(x, odd));
        }
    const unsigned flushing = EMULATED_FLUSHING, mode = _mm_getcsr();
    /* Loads of `right` and of tiles must stay after this, and stores before the second change of mode. */
    __asm__ volatile("vldmxcsr %1" : "+m"(right) : "m"(flushing) : "memory");
    for (int m = 0; m < rows; m++) {
        __m256 even_sum[HALVES] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        __m256 odd_sum[HALVES] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        for (int k = 0; k < pairs; k++) {
            const __m256i x = _mm256_set1_epi32((int)tiles->tile[a][m][k]);
            const __m256 even_x = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
            const __m256 odd_x = _mm256_castsi256_ps(_mm256_and_si256(x, odd));
            for (int h = 0; h < HALVES; h++) {
                even_sum[h] = _mm256_fmadd_ps(even_x, right[k][0][h], even_sum[h]);
                odd_sum[h] = _mm256_fmadd_ps(odd_x, right[k][1][h], odd_sum[h]);
            }
        }
        for (int h = 0; h < HALVES; h++) {
            float *to = (float *)(void *)tiles->tile[c][m] + 8 * h;
            _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), _mm256_add_ps(even_sum[h], odd_sum[h])));
        }
    }
    __asm__ volatile("vldmxcsr %0" : : "m"(mode) : "memory");
}

#undef EMULATED_HALVES
#undef EMULATED_TWO
#undef EMULATED_THREE
#undef EMULATED_SHIFT
#undef EMULATED_MEMORY
#undef EMULATED_MASKED
#undef EMULATED_PERMUTE
#undef EMULATED

#endif
