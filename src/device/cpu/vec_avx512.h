/* `vec` on AVX-512 (F, BW, VL, DQ): 16 floats. vec_avx2.h has the same functions with the same results, bit for bit,
 * and so has ref/vec_ref.h for a single lane. device/vmath.h and the *_vec.c kernels are written with these
 * functions. */
#ifndef TESS_DEVICE_CPU_VEC_AVX512_H
#define TESS_DEVICE_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define VEC_NAME(name) tess_avx512_##name

typedef __m512 vec;
typedef __m512i ivec;
typedef __mmask16 vmask;

static inline vec v_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec v_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec v_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec v_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec v_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

static inline vec v_sqrt(vec a)
{
    return _mm512_sqrt_ps(a);
}

/* v_fma returns a * b + c and v_fnma c - a * b. Both round once. */
static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec v_fnma(vec a, vec b, vec c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* v_max and v_min return b in lanes where a or b is NaN. */
static inline vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec v_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

static inline vmask v_less(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

static inline vmask v_equal(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

/* Returns a in lanes whose mask is set, b in the others. */
static inline vec v_select(vmask m, vec a, vec b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

static inline ivec v_bits(vec a)
{
    return _mm512_castps_si512(a);
}

static inline vec v_from_bits(ivec a)
{
    return _mm512_castsi512_ps(a);
}

static inline ivec v_iset(int32_t x)
{
    return _mm512_set1_epi32(x);
}

static inline ivec v_isub(ivec a, ivec b)
{
    return _mm512_sub_epi32(a, b);
}

static inline ivec v_iand(ivec a, ivec b)
{
    return _mm512_and_si512(a, b);
}

static inline ivec v_ior(ivec a, ivec b)
{
    return _mm512_or_si512(a, b);
}

/* Conversions between the exponent field of a float and its number: number << 23, and bits >> 23 (arithmetic). */
static inline ivec v_ishift23(ivec a)
{
    return _mm512_srai_epi32(a, 23);
}

static inline ivec v_ishift_left23(ivec a)
{
    return _mm512_slli_epi32(a, 23);
}

static inline ivec v_iadd(ivec a, ivec b)
{
    return _mm512_add_epi32(a, b);
}

static inline ivec v_imin(ivec a, ivec b)
{
    return _mm512_min_epi32(a, b);
}

static inline ivec v_imax(ivec a, ivec b)
{
    return _mm512_max_epi32(a, b);
}

static inline ivec v_ixor(ivec a, ivec b)
{
    return _mm512_xor_si512(a, b);
}

/* Shifts in zeros from the left. */
static inline ivec v_ishift_right16(ivec a)
{
    return _mm512_srli_epi32(a, 16);
}

/* Returns the two halves of each unsigned 64-bit product a * factor. */
static inline void v_imul_wide(ivec a, uint32_t factor, ivec *low, ivec *high)
{
    ivec f = _mm512_set1_epi32((int)factor);
    ivec even = _mm512_mul_epu32(a, f), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), f);
    *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

/* Returns table[a] for each lane. A table of bytes must have three more readable bytes after the last one that is
 * looked up. */
static inline vec v_look_up(const float *table, ivec a)
{
    return _mm512_i32gather_ps(a, table, 4);
}

static inline ivec v_look_up_bytes(const uint8_t *table, ivec a)
{
    return _mm512_and_si512(_mm512_i32gather_epi32(a, table, 1), _mm512_set1_epi32(0xff));
}

static inline vec v_from_int(ivec a)
{
    return _mm512_cvtepi32_ps(a);
}

/* Returns p * 2^n, rounded once. n is integral, |n| <= 160; p is within a factor of 2 of 1, or NaN. */
static inline vec v_scale2(vec p, vec n)
{
    return _mm512_scalef_ps(p, n);
}

/* Returns the sum of the lanes. The vector is folded in halves: lanes i and i + 8 are added, then those 4, 2 and 1
 * apart. */
static inline float v_sum(vec a)
{
    __m256 x = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

static inline float v_largest(vec a)
{
    __m256 x = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

/* The mask of the first n lanes, 0 < n <= 16. A load sets the other lanes to 0. If n is the constant 16, loads and
 * stores need no mask. */
static inline __mmask16 v_lanes(int64_t n)
{
    return (__mmask16)((1u << n) - 1u);
}

static inline vec v_load(const float *p, int64_t n)
{
    return n == 16 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(v_lanes(n), p);
}

static inline void v_store(float *p, vec a, int64_t n)
{
    if (n == 16)
        _mm512_storeu_ps(p, a);
    else
        _mm512_mask_storeu_ps(p, v_lanes(n), a);
}

static inline __m256i v_load_u16(const uint16_t *p, int64_t n)
{
    return n == 16 ? _mm256_loadu_si256((const __m256i *)p) : _mm256_maskz_loadu_epi16(v_lanes(n), p);
}

static inline void v_store_u16(uint16_t *p, __m256i a, int64_t n)
{
    if (n == 16)
        _mm256_storeu_si256((__m256i *)p, a);
    else
        _mm256_mask_storeu_epi16(p, v_lanes(n), a);
}

static inline ivec v_load_u8(const uint8_t *p, int64_t n)
{
    return _mm512_cvtepu8_epi32(n == 16 ? _mm_loadu_si128((const __m128i *)p) : _mm_maskz_loadu_epi8(v_lanes(n), p));
}

/* Stores the lowest 8 bits of each lane. */
static inline void v_store_u8(uint8_t *p, ivec a, int64_t n)
{
    _mm_mask_storeu_epi8(p, v_lanes(n), _mm512_cvtepi32_epi8(a));
}

static inline vec v_load_bf16(const uint16_t *p, int64_t n)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v_load_u16(p, n)), 16));
}

/* Rounds to bf16, in the upper half of each lane. The instruction of AVX512_BF16 is not used because it flushes
 * subnormal numbers to zero. */
static inline ivec v_bf16_bits(vec a)
{
    ivec u = _mm512_castps_si512(a);
    vmask odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    ivec rounded = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
    rounded = _mm512_mask_add_epi32(rounded, odd, u, _mm512_set1_epi32(0x8000));
    /* fixupimm gives a NaN (classes 0 and 1) response 2: the same NaN, quiet. */
    return _mm512_castps_si512(_mm512_fixupimm_ps(_mm512_castsi512_ps(rounded), a, _mm512_set1_epi32(0x22), 0));
}

static inline vec v_round_bf16(vec a)
{
    return _mm512_castsi512_ps(_mm512_and_si512(v_bf16_bits(a), _mm512_set1_epi32((int)0xffff0000u)));
}

static inline void v_store_bf16(uint16_t *p, vec a, int64_t n)
{
    v_store_u16(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(v_bf16_bits(a), 16)), n);
}

/* Loads n of 32 elements, 0 < n <= 32; the others are 0. Elements of even index are loaded into one vector, those of
 * odd index into the other, which needs no shuffle. */
static inline void v_load_bf16_split(const uint16_t *p, int64_t n, vec *even, vec *odd)
{
    __m512i u = n == 32 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16((__mmask32)((UINT64_C(1) << n) - 1), p);
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(u, _mm512_set1_epi32((int)0xffff0000u)));
}

static inline void v_store_bf16_split(uint16_t *p, vec even, vec odd, int64_t n)
{
    __m512i low = _mm512_srli_epi32(v_bf16_bits(even), 16);
    __m512i u = _mm512_mask_blend_epi16(0xaaaaaaaau, low, v_bf16_bits(odd));
    if (n == 32)
        _mm512_storeu_si512(p, u);
    else
        _mm512_mask_storeu_epi16(p, (__mmask32)((UINT64_C(1) << n) - 1), u);
}

/* Puts elements of even and of odd index in order: the first 16 and the last 16. */
static inline void v_join(vec even, vec odd, vec *first, vec *last)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *first = _mm512_permutex2var_ps(even, low, odd);
    *last = _mm512_permutex2var_ps(even, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd);
}

/* The inverse of v_join. */
static inline void v_split(vec first, vec last, vec *even, vec *odd)
{
    const __m512i low = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(first, low, last);
    *odd = _mm512_permutex2var_ps(first, _mm512_add_epi32(low, _mm512_set1_epi32(1)), last);
}

static inline vec v_load_f16(const uint16_t *p, int64_t n)
{
    return _mm512_cvtph_ps(v_load_u16(p, n));
}

static inline void v_store_f16(uint16_t *p, vec a, int64_t n)
{
    v_store_u16(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), n);
}

/* 16 doubles in two registers. A sum of squares adds the square of each lane, which is exact in double. */
typedef struct dvec {
    __m512d lo, hi;
} dvec;

static inline dvec v_dzero(void)
{
    return (dvec){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

static inline dvec v_add_squares(dvec acc, vec a)
{
    __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(a)), hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    acc.lo = _mm512_fmadd_pd(lo, lo, acc.lo);
    acc.hi = _mm512_fmadd_pd(hi, hi, acc.hi);
    return acc;
}

static inline double v_dsum(dvec a)
{
    __m512d x = _mm512_add_pd(a.lo, a.hi);
    __m256d y = _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1));
    __m128d z = _mm_add_pd(_mm256_castpd256_pd128(y), _mm256_extractf128_pd(y, 1));
    return _mm_cvtsd_f64(_mm_add_sd(z, _mm_unpackhi_pd(z, z)));
}

#endif
