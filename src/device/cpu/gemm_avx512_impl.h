/* Products of packed panels with AVX-512, and their packing: 14 x 32 sums in 28 registers. The file that includes this
 * header defines what a packed element of 4 bytes is (K_STEP, load_packed, load_columns) and how two of them are
 * multiplied (add_products). Rows and columns are loaded through masks, so nothing beyond a matrix is read. */
#ifndef TESS_DEVICE_CPU_GEMM_AVX512_IMPL_H
#define TESS_DEVICE_CPU_GEMM_AVX512_IMPL_H

#include "device/cpu/transpose_avx512_impl.h"
#include "device/cpu/vec_avx512.h"
#include "device/cpu/gemm_finish_vec.h"

enum { ROWS = 14, COLUMNS = 32, NEXT_EVERY = 4 };

static inline __mmask16 first(int64_t n)
{
    return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

static inline __m512i load_bf16(const uint16_t *x, __mmask16 mask)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x));
}

static inline __m512 load(const void *x, int64_t i, __mmask16 mask, tess_dtype dtype)
{
    if (dtype == TESS_F32)
        return _mm512_maskz_loadu_ps(mask, (const float *)x + i);
    return _mm512_castsi512_ps(_mm512_slli_epi32(load_bf16((const uint16_t *)x + i, mask), 16));
}

/* Loads 16 packed elements of neighbouring k from x[i] on; `left` k exist. */
static inline __m512i load_packed(const void *x, int64_t i, int64_t left, tess_dtype dtype);
/* Loads one packed element of each column in `mask`. x[i] is the first column at the first k; `left` k exist. */
static inline __m512i load_columns(const void *x, int64_t i, int64_t ld, int64_t left, __mmask16 mask,
                                   tess_dtype dtype);
static inline __m512 add_products(__m512 sum, __m512 x, __m512 y);

/* Packs to (packed k, width) a matrix stored as (k, n), from element (k_begin, begin) on. */
static inline void pack_straight(const void *x, tess_dtype dtype, int64_t ld, int64_t begin, int64_t n, int64_t width,
                                 int64_t k_begin, int64_t k, uint32_t *panel)
{
    for (int64_t c = 0; c < width; c += 16) {
        __mmask16 from = first(n - c), to = first(width - c);
        uint32_t *at = panel + c;
        for (int64_t p = 0; p < k; p += K_STEP, at += width)
            _mm512_mask_storeu_epi32(at, to, load_columns(x, (k_begin + p) * ld + begin + c, ld, k - p, from, dtype));
    }
}

static inline __m512i load_quarter(const char *x, int64_t ld, int64_t last, int64_t r)
{
    return _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(x + (r < last ? r : last) * ld)));
}

/* Inserts 16 bytes of row r of x, of which `last` is the last one. */
#define INSERT_QUARTER(y, r, at) _mm512_inserti32x4(y, _mm512_castsi512_si128(load_quarter(x, ld, last, r)), at)

/* Turns 16 bytes of each of 16 rows, `ld` bytes apart, to vectors with a packed element of every row. Rows after the
 * last one repeat it. Two neighbouring k of bf16 are transposed as one element, and then widened to two unless they
 * form a packed element. Returns the number of vectors. */
static inline __attribute__((always_inline)) int quarter(const char *x, int64_t ld, int64_t last, tess_dtype dtype,
                                                         __m512 *to)
{
    __m512i y[4], z[4];
    for (int r = 0; r < 4; r++) {
        y[r] = INSERT_QUARTER(load_quarter(x, ld, last, r), r + 4, 1);
        y[r] = INSERT_QUARTER(y[r], r + 8, 2);
        y[r] = INSERT_QUARTER(y[r], r + 12, 3);
    }
    for (int r = 0; r < 4; r += 2) {
        z[r] = _mm512_unpacklo_epi32(y[r], y[r + 1]);
        z[r + 1] = _mm512_unpackhi_epi32(y[r], y[r + 1]);
    }
    for (int r = 0; r < 2; r++) {
        y[2 * r] = _mm512_unpacklo_epi64(z[r], z[r + 2]);
        y[2 * r + 1] = _mm512_unpackhi_epi64(z[r], z[r + 2]);
    }
    if (dtype == TESS_F32 || K_STEP > 1) {
        for (int r = 0; r < 4; r++)
            to[r] = _mm512_castsi512_ps(y[r]);
        return 4;
    }
    for (int r = 0; r < 4; r++) {
        to[2 * r] = _mm512_castsi512_ps(_mm512_slli_epi32(y[r], 16));
        to[2 * r + 1] = _mm512_castsi512_ps(_mm512_and_si512(y[r], _mm512_set1_epi32((int)0xffff0000u)));
    }
    return 8;
}

/* Packs to (packed k, width) a matrix stored as (n, k), from element (begin, k_begin) on. */
static inline void pack_turned(const void *x, tess_dtype dtype, int64_t ld, int64_t begin, int64_t n, int64_t width,
                               int64_t k_begin, int64_t k, uint32_t *panel)
{
    const int64_t size = (int64_t)tess_dtype_size(dtype), whole = k / (16 / size) * (16 / size);
    for (int64_t c = 0; c < width; c += 16) {
        const __mmask16 to = first(width - c);
        uint32_t *at = panel + c;
        const int64_t row = c < n ? c : n - 1;
        const char *quarters = (const char *)x + ((begin + row) * ld + k_begin) * size;
        for (int64_t p = 0; p < whole; p += 16 / size, quarters += 16) {
            __m512 lanes[8];
            const int n_lanes = quarter(quarters, ld * size, n - 1 - row, dtype, lanes);
            for (int r = 0; r < n_lanes; r++, at += width)
                _mm512_mask_storeu_ps(at, to, lanes[r]);
        }
        for (int64_t p = whole; p < k; p += K_STEP, at += width) {
            uint32_t lanes[16];
            for (int64_t r = 0; r < 16; r++)
                lanes[r] = (uint32_t)_mm_cvtsi128_si32(
                    _mm512_castsi512_si128(load_packed(x, (begin + (c + r < n ? c + r : n - 1)) * ld + k_begin + p,
                                                       k - p < K_STEP ? k - p : K_STEP, dtype)));
            _mm512_mask_storeu_epi32(at, to, _mm512_loadu_si512(lanes));
        }
    }
}

#include "device/cpu/gemm_panels.h"

/* Always inlined, with a constant `rows`. */
static inline __attribute__((always_inline)) void multiply_rows(const gemm_tile *t, const int rows)
{
    __mmask16 left = first(t->columns), right = first(t->columns - 16);
    __mmask16 old_left = t->add ? left : 0, old_right = t->add ? right : 0;
    const float *a = t->a, *b = t->b;
    const char *next = t->next;
    __m512 s[ROWS][2];
    GEMM_UNROLLED
    for (int r = 0; r < rows; r++) {
        s[r][0] = _mm512_maskz_loadu_ps(old_left, t->c + r * t->ldc);
        s[r][1] = _mm512_maskz_loadu_ps(old_right, t->c + r * t->ldc + 16);
    }
    for (int64_t p = 0; p < t->k; p++, a += ROWS, b += COLUMNS) {
        if (p % GEMM_AHEAD_STEP == 0)
            _mm_prefetch((const char *)t->ahead[p / GEMM_AHEAD_STEP], _MM_HINT_T0);
        if (p % NEXT_EVERY == 0) {
            _mm_prefetch(next, _MM_HINT_T1);
            _mm_prefetch(next + t->next_pair, _MM_HINT_T1);
            next += t->next_step;
        }
        __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
        GEMM_UNROLLED
        for (int r = 0; r < rows; r++) {
            __m512 x = _mm512_set1_ps(a[r]);
            s[r][0] = add_products(s[r][0], x, b0);
            s[r][1] = add_products(s[r][1], x, b1);
        }
    }
    for (int i = 0; i < t->n_before; i++) {
        GEMM_UNROLLED
        for (int r = 0; r < rows; r++) {
            const float *c = t->before[i].at + r * t->before[i].stride;
            s[r][0] = _mm512_add_ps(_mm512_maskz_loadu_ps(left, c), s[r][0]);
            s[r][1] = _mm512_add_ps(_mm512_maskz_loadu_ps(right, c + 16), s[r][1]);
        }
    }
    GEMM_UNROLLED
    for (int r = 0; r < rows; r++) {
        _mm512_mask_storeu_ps(t->c + r * t->ldc, left, s[r][0]);
        _mm512_mask_storeu_ps(t->c + r * t->ldc + 16, right, s[r][1]);
    }
}

static void multiply(const gemm_tile *t)
{
    switch (t->rows) {
    case 1:
        return multiply_rows(t, 1);
    case 2:
        return multiply_rows(t, 2);
    case 3:
        return multiply_rows(t, 3);
    case 4:
        return multiply_rows(t, 4);
    case 5:
        return multiply_rows(t, 5);
    case 6:
        return multiply_rows(t, 6);
    case 7:
        return multiply_rows(t, 7);
    case 8:
        return multiply_rows(t, 8);
    case 9:
        return multiply_rows(t, 9);
    case 10:
        return multiply_rows(t, 10);
    case 11:
        return multiply_rows(t, 11);
    case 12:
        return multiply_rows(t, 12);
    case 13:
        return multiply_rows(t, 13);
    default:
        return multiply_rows(t, 14);
    }
}

static double peak_loop(int64_t rounds)
{
    enum { CHAINS = 12, ONE = K_STEP == 1 ? 0x3f800000 : 0x3f803f80, SMALL = K_STEP == 1 ? 0x3c000000 : 0x3c003c00 };
    __m512 sums[CHAINS];
    __m512 x = _mm512_castsi512_ps(_mm512_set1_epi32(ONE)), y = _mm512_castsi512_ps(_mm512_set1_epi32(SMALL));
    /* Fully unrolled: otherwise gcc keeps the array in memory, and the loop measures the stack. */
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sums[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sums[i] = add_products(sums[i], x, y);
#ifndef TESS_EMULATE                              /* a sum is two registers in emulation */
            __asm__ volatile("" : "+v"(sums[i])); /* keeps the sum in its register in every round */
#endif
        }
    volatile float kept = 0;
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        kept = kept + _mm512_cvtss_f32(sums[i]);
    return (double)rounds * CHAINS * 16 * 2 * K_STEP;
}

static const gemm_engine engine = {
    .tile_rows = ROWS,
    .tile_columns = COLUMNS,
    .k_step = K_STEP,
    .k_block = 512,
    .b_block_bytes = 1 << 20,
    .next_every = NEXT_EVERY,
    .parallel_flops = 1e6,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .multiply = multiply,
    .finish = finish,
    .follow = tess_avx512_follow,
};

/* The functions that gemm_few_rows_vec.h requires from its includer. */
static inline vec few_packed(const void *x, int64_t i, int64_t left, tess_dtype dtype)
{
    return _mm512_castsi512_ps(load_packed(x, i, left, dtype));
}

static inline vec few_columns(const void *x, int64_t i, int64_t ld, int64_t left, int64_t n, tess_dtype dtype)
{
    return _mm512_castsi512_ps(load_columns(x, i, ld, left, first(n), dtype));
}

static inline vec few_add(vec sum, vec a, vec b)
{
    return add_products(sum, a, b);
}

typedef __m512 few_lanes;

static inline few_lanes few_lanes_zero(void)
{
    return _mm512_setzero_ps();
}

static inline few_lanes few_lanes_add(few_lanes sum, float a, few_lanes b)
{
    return add_products(sum, _mm512_set1_ps(a), b);
}

static inline void few_lanes_store(float *to, few_lanes x)
{
    _mm512_storeu_ps(to, x);
}

static inline __attribute__((always_inline)) int few_quarter(const char *x, int64_t ld, tess_dtype dtype, few_lanes *to)
{
    return quarter(x, ld, 15, dtype, to);
}

static inline void few_transpose(const void *x, int64_t i, int64_t ld, tess_dtype dtype, float *to, int64_t width,
                                 int64_t ahead)
{
    __m512i block[16];
    for (int64_t r = 0; r < 16; r++) {
        _mm_prefetch((const char *)x + (i + r * ld) * (int64_t)tess_dtype_size(dtype) + ahead, _MM_HINT_T1);
        block[r] = load_packed(x, i + r * ld, 16 * K_STEP, dtype);
    }
    transpose_16x16_avx512(block);
    for (int r = 0; r < 16; r++)
        _mm512_storeu_si512(to + r * width, block[r]);
}

#endif
