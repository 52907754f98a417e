/* float32 FMA products: 6 x 16 sums in 12 registers; bf16 is widened while it is packed. Both give the bits of
 * ref/ref_gemm.c. */
#include "device/cpu/transpose_avx2_impl.h"
#include "device/cpu/vec_avx2.h"
#include "device/cpu/gemm_finish_vec.h"

enum { ROWS = 6, COLUMNS = 16, HALF = 8 /* lanes of a register */ };

static __m256i first(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > HALF ? HALF : (int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static __m256 widen(__m128i bf16)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
}

/* The first n of 8 elements from x[i] (never reads beyond), the rest zero. */
static __m256 load(const void *x, int64_t i, int64_t n, tess_dtype dtype)
{
    if (n <= 0)
        return _mm256_setzero_ps();
    if (dtype == TESS_F32)
        return _mm256_maskload_ps((const float *)x + i, first(n));
    const uint16_t *from = (const uint16_t *)x + i;
    if (n >= HALF)
        return widen(_mm_loadu_si128((const __m128i *)from));
    uint16_t part[HALF] = {0};
    memcpy(part, from, (size_t)n * sizeof(part[0]));
    return widen(_mm_loadu_si128((const __m128i *)part));
}

/* 8 elements, all of them there. */
static inline __m256 load_whole(const void *x, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F32 ? _mm256_loadu_ps((const float *)x + i)
                             : widen(_mm_loadu_si128((const __m128i *)((const uint16_t *)x + i)));
}

/* The first n of 8 elements, in ordinary stores where a panel of A has them: masked ones take many cycles on AMD. */
static inline void store_first(float *to, int64_t n, __m256 x)
{
    if (n >= HALF) {
        _mm256_storeu_ps(to, x);
    } else if (n == ROWS) {
        _mm_storeu_ps(to, _mm256_castps256_ps128(x));
        _mm_storel_pi((__m64 *)(to + 4), _mm256_extractf128_ps(x, 1));
    } else {
        _mm256_maskstore_ps(to, first(n), x);
    }
}

/* Packs to (k, width) what is stored (k, n) from element (k_begin, begin). */
static inline void pack_straight(const void *x, tess_dtype dtype, int64_t ld, int64_t begin, int64_t n, int64_t width,
                                 int64_t k_begin, int64_t k, float *panel)
{
    if (n == width && width % HALF == 0) {
        for (int64_t p = 0; p < k; p++)
            for (int64_t c = 0; c < width; c += HALF)
                _mm256_storeu_ps(panel + p * width + c, load_whole(x, (k_begin + p) * ld + begin + c, dtype));
        return;
    }
    for (int64_t c = 0; c < width; c += HALF)
        for (int64_t p = 0; p < k; p++)
            store_first(panel + p * width + c, width - c, load(x, (k_begin + p) * ld + begin + c, n - c, dtype));
}

/* Packs to (k, width) what is stored (n, k) from element (begin, k_begin). */
static inline void pack_turned(const void *x, tess_dtype dtype, int64_t ld, int64_t begin, int64_t n, int64_t width,
                               int64_t k_begin, int64_t k, float *panel)
{
    for (int64_t c = 0; c < width; c += HALF) {
        int64_t p = 0;
        for (; c + HALF <= n && p + HALF <= k; p += HALF) {
            __m256 block[HALF];
            for (int r = 0; r < HALF; r++)
                block[r] = load_whole(x, (begin + c + r) * ld + k_begin + p, dtype);
            transpose_8x8(block);
            for (int r = 0; r < HALF; r++)
                _mm256_storeu_ps(panel + (p + r) * width + c, block[r]);
        }
        for (; p < k; p += HALF) {
            __m256 block[HALF];
            for (int r = 0; r < HALF; r++)
                block[r] = c + r < n ? load(x, (begin + c + r) * ld + k_begin + p, k - p, dtype) : _mm256_setzero_ps();
            transpose_8x8(block);
            for (int r = 0; r < HALF && p + r < k; r++)
                store_first(panel + (p + r) * width + c, width - c, block[r]);
        }
    }
}

#include "device/cpu/gemm_panels.h"

static inline __m256 load_sums(const float *c, int64_t n)
{
    return n >= HALF ? _mm256_loadu_ps(c) : _mm256_maskload_ps(c, first(n));
}

static inline void store_sums(float *c, int64_t n, __m256 x)
{
    if (n >= HALF)
        _mm256_storeu_ps(c, x);
    else
        _mm256_maskstore_ps(c, first(n), x);
}

/* The products of one k. Always inlined, with `rows` a constant. */
static inline __attribute__((always_inline)) void add_products(const float *a, const float *b, const int rows,
                                                               __m256 (*s)[2])
{
    __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + HALF);
    GEMM_UNROLLED
    for (int r = 0; r < rows; r++) {
        __m256 x = _mm256_broadcast_ss(a + r);
        s[r][0] = _mm256_fmadd_ps(x, b0, s[r][0]);
        s[r][1] = _mm256_fmadd_ps(x, b1, s[r][1]);
    }
}

/* Always inlined, with `rows` a constant. */
static inline __attribute__((always_inline)) void multiply_rows(const gemm_tile *t, const int rows)
{
    const float *a = t->a, *b = t->b;
    const char *next = t->next;
    __m256 s[ROWS][2];
    GEMM_UNROLLED
    for (int r = 0; r < rows; r++) {
        float *c = t->c + r * t->ldc;
        s[r][0] = t->add ? load_sums(c, t->columns) : _mm256_setzero_ps();
        s[r][1] = t->add ? load_sums(c + HALF, t->columns - HALF) : _mm256_setzero_ps();
    }
    int64_t p = 0;
    for (; p + GEMM_AHEAD_STEP <= t->k; p += GEMM_AHEAD_STEP) {
        _mm_prefetch((const char *)t->ahead[p / GEMM_AHEAD_STEP], _MM_HINT_T0);
        _mm_prefetch(next, _MM_HINT_T1);
        _mm_prefetch(next + t->next_pair, _MM_HINT_T1);
        next += t->next_step;
        GEMM_UNROLLED
        for (int q = 0; q < GEMM_AHEAD_STEP; q++)
            add_products(a + q * ROWS, b + q * COLUMNS, rows, s);
        a += GEMM_AHEAD_STEP * ROWS;
        b += GEMM_AHEAD_STEP * COLUMNS;
    }
    if (p < t->k)
        _mm_prefetch((const char *)t->ahead[p / GEMM_AHEAD_STEP], _MM_HINT_T0);
    for (; p < t->k; p++, a += ROWS, b += COLUMNS)
        add_products(a, b, rows, s);
    for (int i = 0; i < t->n_before; i++) {
        GEMM_UNROLLED
        for (int r = 0; r < rows; r++) {
            const float *c = t->before[i].at + r * t->before[i].stride;
            s[r][0] = _mm256_add_ps(load_sums(c, t->columns), s[r][0]);
            s[r][1] = _mm256_add_ps(load_sums(c + HALF, t->columns - HALF), s[r][1]);
        }
    }
    GEMM_UNROLLED
    for (int r = 0; r < rows; r++) {
        float *c = t->c + r * t->ldc;
        store_sums(c, t->columns, s[r][0]);
        store_sums(c + HALF, t->columns - HALF, s[r][1]);
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
    default:
        return multiply_rows(t, 6);
    }
}

static const gemm_engine engine = {
    .tile_rows = ROWS,
    .tile_columns = COLUMNS,
    .k_step = 1,
    .k_block = 256,
    .a_block_rows = 264,
    .b_block_bytes = 1 << 20,
    .next_every = GEMM_AHEAD_STEP,
    .parallel_flops = 1e6,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .multiply = multiply,
    .finish = finish,
    .follow = tess_avx2_follow,
};

static inline vec few_packed(const void *x, int64_t i, int64_t left, tess_dtype dtype)
{
    return v_get(x, i, left < 16 ? left : 16, dtype);
}

static inline vec few_columns(const void *x, int64_t i, TESS_UNUSED int64_t ld, TESS_UNUSED int64_t left, int64_t n,
                              tess_dtype dtype)
{
    return v_get(x, i, n, dtype);
}

static inline vec few_add(vec sum, vec a, vec b)
{
    return v_fma(a, b, sum);
}

/* Two neighbouring k of bf16 are transposed as one float, and widened on their way out. */
static inline void few_transpose(const void *x, int64_t i, int64_t ld, tess_dtype dtype, float *to, int64_t width,
                                 int64_t ahead)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    for (int64_t c = 0; c < 2 * HALF; c += HALF) {
        __m256 block[HALF];
        if (dtype == TESS_BF16) {
            for (int r = 0; r < HALF; r++) {
                const uint16_t *row = (const uint16_t *)x + i + (c + r) * ld;
                _mm_prefetch((const char *)row + ahead, _MM_HINT_T1);
                block[r] = _mm256_loadu_ps((const float *)(const void *)row);
            }
            transpose_8x8(block);
            for (int r = 0; r < HALF; r++) {
                __m256i both = _mm256_castps_si256(block[r]);
                _mm256_storeu_ps(to + 2 * r * width + c, _mm256_castsi256_ps(_mm256_slli_epi32(both, 16)));
                _mm256_storeu_ps(to + (2 * r + 1) * width + c, _mm256_castsi256_ps(_mm256_and_si256(both, high)));
            }
            continue;
        }
        for (int64_t p = 0; p < 2 * HALF; p += HALF) {
            for (int r = 0; r < HALF; r++) {
                const float *row = (const float *)x + i + (c + r) * ld + p;
                _mm_prefetch((const char *)row + ahead, _MM_HINT_T1);
                block[r] = _mm256_loadu_ps(row);
            }
            transpose_8x8(block);
            for (int r = 0; r < HALF; r++)
                _mm256_storeu_ps(to + (p + r) * width + c, block[r]);
        }
    }
}

typedef __m256 few_lanes;

static inline few_lanes few_lanes_zero(void)
{
    return _mm256_setzero_ps();
}

static inline few_lanes few_lanes_add(few_lanes sum, float a, few_lanes b)
{
    return _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum);
}

static inline void few_lanes_store(float *to, few_lanes x)
{
    _mm256_storeu_ps(to, x);
}

/* Two neighbouring k of bf16 are transposed as one float, and widened then. */
static inline __attribute__((always_inline)) int few_quarter(const char *x, int64_t ld, tess_dtype dtype, few_lanes *to)
{
    __m256 y[4], z[4];
    for (int r = 0; r < 4; r++)
        y[r] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps((const float *)(const void *)(x + r * ld))),
                                    _mm_loadu_ps((const float *)(const void *)(x + (r + 4) * ld)), 1);
    for (int r = 0; r < 4; r += 2) {
        z[r] = _mm256_unpacklo_ps(y[r], y[r + 1]);
        z[r + 1] = _mm256_unpackhi_ps(y[r], y[r + 1]);
    }
    for (int r = 0; r < 2; r++) {
        y[2 * r] = _mm256_shuffle_ps(z[r], z[r + 2], 0x44);
        y[2 * r + 1] = _mm256_shuffle_ps(z[r], z[r + 2], 0xee);
    }
    if (dtype == TESS_F32) {
        for (int r = 0; r < 4; r++)
            to[r] = y[r];
        return 4;
    }
    for (int r = 0; r < 4; r++) {
        __m256i both = _mm256_castps_si256(y[r]);
        to[2 * r] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
        to[2 * r + 1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xffff0000u)));
    }
    return 8;
}

#define FEW_LANES HALF
#define FEW_STEP 1
#define FEW_SUMS 6
#define FEW_TILE_ROWS 6
#define FEW_TURNED_VECTORS 1
/* Packing more rows widens and transposes the weights in one go, which is faster. */
#define FEW_TURNED_BF16_MOST 16
#include "device/cpu/gemm_few_rows_vec.h"

static tess_status gemm_avx2(tess_stream *s, const tess_gemm *g)
{
    if (takes_few_rows(g))
        return gemm_few_rows(s, g);
    return tess_gemm_vector(s, g, &engine);
}

void tess_kernels_avx2_gemm(tess_kernels *k)
{
    k->gemm = gemm_avx2;
    k->gemm_fused = gemm_fused;
    k->gemm_grouped = gemm_grouped;
}
