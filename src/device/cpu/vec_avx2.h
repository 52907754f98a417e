/* `vec` on AVX2 with FMA and F16C: 16 floats as two registers. Each function gives the same bits as the function of the
 * same name in vec_avx512.h, which states the contracts. */
#ifndef TESS_DEVICE_CPU_VEC_AVX2_H
#define TESS_DEVICE_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VEC_NAME(name) tess_avx2_##name

typedef struct vec {
    __m256 lo, hi;
} vec;

typedef struct ivec {
    __m256i lo, hi;
} ivec;

typedef vec vmask; /* all bits of a lane are set, or none */

static inline vec v_set(float x)
{
    __m256 a = _mm256_set1_ps(x);
    return (vec){a, a};
}

static inline vec v_add(vec a, vec b)
{
    return (vec){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}

static inline vec v_sub(vec a, vec b)
{
    return (vec){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}

static inline vec v_mul(vec a, vec b)
{
    return (vec){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

static inline vec v_div(vec a, vec b)
{
    return (vec){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}

static inline vec v_sqrt(vec a)
{
    return (vec){_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return (vec){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

static inline vec v_fnma(vec a, vec b, vec c)
{
    return (vec){_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}

static inline vec v_max(vec a, vec b)
{
    return (vec){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

static inline vec v_min(vec a, vec b)
{
    return (vec){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

static inline vmask v_less(vec a, vec b)
{
    return (vmask){_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}

static inline vmask v_equal(vec a, vec b)
{
    return (vmask){_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}

static inline vec v_select(vmask m, vec a, vec b)
{
    return (vec){_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}

static inline ivec v_bits(vec a)
{
    return (ivec){_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}

static inline vec v_from_bits(ivec a)
{
    return (vec){_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}

static inline ivec v_iset(int32_t x)
{
    __m256i a = _mm256_set1_epi32(x);
    return (ivec){a, a};
}

static inline ivec v_isub(ivec a, ivec b)
{
    return (ivec){_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}

static inline ivec v_iand(ivec a, ivec b)
{
    return (ivec){_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}

static inline ivec v_ior(ivec a, ivec b)
{
    return (ivec){_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}

static inline ivec v_ishift23(ivec a)
{
    return (ivec){_mm256_srai_epi32(a.lo, 23), _mm256_srai_epi32(a.hi, 23)};
}

static inline ivec v_ishift_left23(ivec a)
{
    return (ivec){_mm256_slli_epi32(a.lo, 23), _mm256_slli_epi32(a.hi, 23)};
}

static inline ivec v_iadd(ivec a, ivec b)
{
    return (ivec){_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}

static inline ivec v_imin(ivec a, ivec b)
{
    return (ivec){_mm256_min_epi32(a.lo, b.lo), _mm256_min_epi32(a.hi, b.hi)};
}

static inline ivec v_imax(ivec a, ivec b)
{
    return (ivec){_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}

static inline ivec v_ixor(ivec a, ivec b)
{
    return (ivec){_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}

static inline ivec v_ishift_right16(ivec a)
{
    return (ivec){_mm256_srli_epi32(a.lo, 16), _mm256_srli_epi32(a.hi, 16)};
}

static inline void imul_wide_8(__m256i a, __m256i f, __m256i *low, __m256i *high)
{
    __m256i even = _mm256_mul_epu32(a, f), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), f);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

static inline void v_imul_wide(ivec a, uint32_t factor, ivec *low, ivec *high)
{
    __m256i f = _mm256_set1_epi32((int)factor);
    imul_wide_8(a.lo, f, &low->lo, &high->lo);
    imul_wide_8(a.hi, f, &low->hi, &high->hi);
}

static inline vec v_look_up(const float *table, ivec a)
{
    return (vec){_mm256_i32gather_ps(table, a.lo, 4), _mm256_i32gather_ps(table, a.hi, 4)};
}

static inline ivec v_look_up_bytes(const uint8_t *table, ivec a)
{
    const int *words = (const int *)(const void *)table;
    __m256i low = _mm256_set1_epi32(0xff);
    return (ivec){_mm256_and_si256(_mm256_i32gather_epi32(words, a.lo, 1), low),
                  _mm256_and_si256(_mm256_i32gather_epi32(words, a.hi, 1), low)};
}

static inline vec v_from_int(ivec a)
{
    return (vec){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}

/* p 2^(n/2) is a normal number, so only the second product rounds. */
static inline __m256 scale2_8(__m256 p, __m256 n)
{
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

static inline vec v_scale2(vec p, vec n)
{
    return (vec){scale2_8(p.lo, n.lo), scale2_8(p.hi, n.hi)};
}

static inline float v_sum(vec a)
{
    __m256 x = _mm256_add_ps(a.lo, a.hi);
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

static inline float v_largest(vec a)
{
    __m256 x = _mm256_max_ps(a.lo, a.hi);
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

/* Vectors of less than 16 elements are copied through the stack. They occur only at the end of a row. */
static inline vec v_load(const float *p, int64_t n)
{
    float part[16] = {0};
    if (n != 16) {
        memcpy(part, p, (size_t)n * sizeof(*p));
        p = part;
    }
    return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void v_store(float *p, vec a, int64_t n)
{
    float part[16];
    float *to = n == 16 ? p : part;
    _mm256_storeu_ps(to, a.lo);
    _mm256_storeu_ps(to + 8, a.hi);
    if (n != 16)
        memcpy(p, part, (size_t)n * sizeof(*p));
}

static inline __m256i v_load_u16(const uint16_t *p, int64_t n)
{
    uint16_t part[16] = {0};
    if (n != 16) {
        memcpy(part, p, (size_t)n * sizeof(*p));
        p = part;
    }
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline void v_store_u16(uint16_t *p, __m256i a, int64_t n)
{
    uint16_t part[16];
    _mm256_storeu_si256((__m256i *)(n == 16 ? p : part), a);
    if (n != 16)
        memcpy(p, part, (size_t)n * sizeof(*p));
}

static inline ivec v_load_u8(const uint8_t *p, int64_t n)
{
    uint8_t part[16] = {0};
    if (n != 16) {
        memcpy(part, p, (size_t)n);
        p = part;
    }
    __m128i a = _mm_loadu_si128((const __m128i *)p);
    return (ivec){_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8))};
}

static inline void v_store_u8(uint8_t *p, ivec a, int64_t n)
{
    uint8_t part[16];
    /* packus interleaves the halves of both registers; 0xd8 restores the order. */
    __m256i u = _mm256_permute4x64_epi64(_mm256_packus_epi32(a.lo, a.hi), 0xd8);
    __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
    _mm_storeu_si128((__m128i *)(n == 16 ? p : part), bytes);
    if (n != 16)
        memcpy(p, part, (size_t)n);
}

static inline vec v_load_bf16(const uint16_t *p, int64_t n)
{
    uint16_t part[16] = {0};
    if (n != 16) {
        memcpy(part, p, (size_t)n * sizeof(*p));
        p = part;
    }
    __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return (vec){_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}

/* Rounds to the nearest bf16, ties to even, in the upper half of each lane. A NaN remains a NaN. */
static inline __m256i bf16_bits_8(__m256 a)
{
    __m256i u = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}

static inline vec v_round_bf16(vec a)
{
    __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    return (vec){_mm256_castsi256_ps(_mm256_and_si256(bf16_bits_8(a.lo), high)),
                 _mm256_castsi256_ps(_mm256_and_si256(bf16_bits_8(a.hi), high))};
}

static inline void v_store_bf16(uint16_t *p, vec a, int64_t n)
{
    __m256i lo = _mm256_srli_epi32(bf16_bits_8(a.lo), 16), hi = _mm256_srli_epi32(bf16_bits_8(a.hi), 16);
    /* packus interleaves the halves of both registers; 0xd8 restores the order. */
    v_store_u16(p, _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8), n);
}

static inline void v_load_bf16_split(const uint16_t *p, int64_t n, vec *even, vec *odd)
{
    uint16_t part[32] = {0};
    if (n != 32) {
        memcpy(part, p, (size_t)n * sizeof(*p));
        p = part;
    }
    __m256i lo = _mm256_loadu_si256((const __m256i *)p), hi = _mm256_loadu_si256((const __m256i *)(p + 16));
    __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    *even = (vec){_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
    *odd = (vec){_mm256_castsi256_ps(_mm256_and_si256(lo, high)), _mm256_castsi256_ps(_mm256_and_si256(hi, high))};
}

static inline __m256i join_bf16_8(__m256 even, __m256 odd)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(bf16_bits_8(even), 16), bf16_bits_8(odd), 0xaa);
}

static inline void v_store_bf16_split(uint16_t *p, vec even, vec odd, int64_t n)
{
    uint16_t part[32];
    uint16_t *to = n == 32 ? p : part;
    _mm256_storeu_si256((__m256i *)to, join_bf16_8(even.lo, odd.lo));
    _mm256_storeu_si256((__m256i *)(to + 16), join_bf16_8(even.hi, odd.hi));
    if (n != 32)
        memcpy(p, part, (size_t)n * sizeof(*p));
}

static inline vec join_8(__m256 even, __m256 odd)
{
    __m256 a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
    return (vec){_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)};
}

static inline void v_join(vec even, vec odd, vec *first, vec *last)
{
    *first = join_8(even.lo, odd.lo);
    *last = join_8(even.hi, odd.hi);
}

/* shuffle picks from each 128-bit half separately; 0xd8 restores the order. */
static inline __m256 split_8(__m256 picked)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(picked), 0xd8));
}

static inline void v_split(vec first, vec last, vec *even, vec *odd)
{
    *even =
        (vec){split_8(_mm256_shuffle_ps(first.lo, first.hi, 0x88)), split_8(_mm256_shuffle_ps(last.lo, last.hi, 0x88))};
    *odd =
        (vec){split_8(_mm256_shuffle_ps(first.lo, first.hi, 0xdd)), split_8(_mm256_shuffle_ps(last.lo, last.hi, 0xdd))};
}

static inline vec v_load_f16(const uint16_t *p, int64_t n)
{
    __m256i a = v_load_u16(p, n);
    return (vec){_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))};
}

static inline void v_store_f16(uint16_t *p, vec a, int64_t n)
{
    __m128i lo = _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m128i hi = _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    v_store_u16(p, _mm256_set_m128i(hi, lo), n);
}

typedef struct dvec {
    __m256d part[4];
} dvec;

static inline dvec v_dzero(void)
{
    __m256d z = _mm256_setzero_pd();
    return (dvec){{z, z, z, z}};
}

static inline dvec v_add_squares(dvec acc, vec a)
{
    __m256d x = _mm256_cvtps_pd(_mm256_castps256_ps128(a.lo)), y = _mm256_cvtps_pd(_mm256_extractf128_ps(a.lo, 1));
    __m256d z = _mm256_cvtps_pd(_mm256_castps256_ps128(a.hi)), w = _mm256_cvtps_pd(_mm256_extractf128_ps(a.hi, 1));
    return (dvec){{_mm256_fmadd_pd(x, x, acc.part[0]), _mm256_fmadd_pd(y, y, acc.part[1]),
                   _mm256_fmadd_pd(z, z, acc.part[2]), _mm256_fmadd_pd(w, w, acc.part[3])}};
}

static inline double v_dsum(dvec a)
{
    __m256d x = _mm256_add_pd(_mm256_add_pd(a.part[0], a.part[2]), _mm256_add_pd(a.part[1], a.part[3]));
    __m128d z = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(z, _mm_unpackhi_pd(z, z)));
}

#endif
