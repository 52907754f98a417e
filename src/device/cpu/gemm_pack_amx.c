/* Packs panels of A and B, for both ways of storing them. */
#include "device/cpu/gemm_amx_impl.h"
#include "device/cpu/transpose_avx512_impl.h"

/* How many bytes after a row's current piece are prefetched where rows are read along k. */
enum { AHEAD = 384, AHEAD_IN_ROW = 1024 };

static inline void ask(const uint16_t *row, int64_t bytes)
{
    _mm_prefetch((const char *)row + bytes, _MM_HINT_T0);
}

static __mmask32 first_32(int64_t n)
{
    return n >= 32 ? 0xffffffff : n <= 0 ? 0 : (__mmask32)((1u << n) - 1);
}

/* Packs a panel of A that is stored (m, k). */
static void pack_rows(const uint16_t *x, int64_t ld, int64_t n, int64_t k, uint16_t *panel)
{
    for (int64_t r = 0; r < GEMM_SPAN; r++) {
        uint16_t *to = panel + r / GEMM_TILE * GEMM_TILE_ELEMENTS + r % GEMM_TILE * GEMM_STEP;
        for (int64_t p = 0; p < k; p += GEMM_STEP, to += GEMM_STEP_ELEMENTS) {
            __mmask32 mask = r < n ? first_32(k - p) : 0;
            ask(x + r * ld + p, AHEAD_IN_ROW);
            _mm512_store_si512(to, mask != 0 ? _mm512_maskz_loadu_epi16(mask, x + r * ld + p) : _mm512_setzero_si512());
        }
    }
}

/* Packs a panel of B that is stored (n, k): the rows that pack_rows would copy, transposed in dwords of two k. */
static void pack_rows_turned(const uint16_t *x, int64_t ld, int64_t n, int64_t k, uint16_t *panel)
{
    for (int64_t half = 0; half < GEMM_SPAN; half += GEMM_TILE) {
        uint16_t *to = panel + half / GEMM_TILE * GEMM_TILE_ELEMENTS;
        for (int64_t p = 0; p < k; p += GEMM_STEP, to += GEMM_STEP_ELEMENTS) {
            __mmask32 mask = first_32(k - p);
            __m512i block[GEMM_TILE];
            for (int r = 0; r < GEMM_TILE; r++) {
                ask(x + (half + r) * ld + p, AHEAD);
                block[r] =
                    half + r < n ? _mm512_maskz_loadu_epi16(mask, x + (half + r) * ld + p) : _mm512_setzero_si512();
            }
            transpose_16x16_avx512(block);
            for (int r = 0; r < GEMM_TILE; r++)
                _mm512_store_si512(to + r * GEMM_STEP, block[r]);
        }
    }
}

/* Interleaves two rows (k) of 32 columns to dwords of two k: columns 0-15, and 16-31. */
static inline void pair_rows(__m512i even, __m512i odd, __m512i *left, __m512i *right)
{
    const __m512i first_half = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second_half = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i low = _mm512_unpacklo_epi16(even, odd), high = _mm512_unpackhi_epi16(even, odd);
    *left = _mm512_permutex2var_epi64(low, first_half, high);
    *right = _mm512_permutex2var_epi64(low, second_half, high);
}

/* Packs a panel of B (with `turned`: of A) that is stored (k, n). It reads and writes more places than the hardware
 * prefetcher follows, so it prefetches what a later call reads and writes. */
static void pack_columns(const uint16_t *x, int64_t ld, int64_t n, int64_t k, bool turned, uint16_t *panel,
                         gemm_pack_ahead ahead)
{
    __mmask32 mask = first_32(n);
    for (int64_t p = 0; p < k; p += GEMM_STEP, panel += GEMM_STEP_ELEMENTS) {
        __m512i left[GEMM_TILE], right[GEMM_TILE];
        for (int r = 0; r < GEMM_TILE; r++) {
            const uint16_t *row = x + (p + 2 * r) * ld;
            __m512i even = p + 2 * r < k ? _mm512_maskz_loadu_epi16(mask, row) : _mm512_setzero_si512();
            _mm_prefetch((const char *)(row + ahead.from), _MM_HINT_T0);
            _mm_prefetch((const char *)(row + ahead.from + ld), _MM_HINT_T0);
            __m512i odd = p + 2 * r + 1 < k ? _mm512_maskz_loadu_epi16(mask, row + ld) : _mm512_setzero_si512();
            pair_rows(even, odd, &left[r], &right[r]);
        }
        if (turned) {
            transpose_16x16_avx512(left);
            transpose_16x16_avx512(right);
        }
        for (int r = 0; r < GEMM_TILE; r++) {
            __builtin_prefetch(panel + ahead.to + r * GEMM_STEP, 1);
            __builtin_prefetch(panel + ahead.to + GEMM_TILE_ELEMENTS + r * GEMM_STEP, 1);
            _mm512_store_si512(panel + r * GEMM_STEP, left[r]);
            _mm512_store_si512(panel + GEMM_TILE_ELEMENTS + r * GEMM_STEP, right[r]);
        }
    }
}

void tess_gemm_pack_a_amx(const tess_gemm *g, int64_t i, int64_t rows, int64_t k_begin, int64_t k, uint16_t *panel,
                          gemm_pack_ahead ahead)
{
    const uint16_t *a = g->a;
    if (g->trans_a)
        pack_columns(a + k_begin * g->lda + i, g->lda, rows, k, true, panel, ahead);
    else
        pack_rows(a + i * g->lda + k_begin, g->lda, rows, k, panel);
}

void tess_gemm_pack_b_amx(const tess_gemm *g, int64_t j, int64_t columns, int64_t k_begin, int64_t k, uint16_t *panel,
                          gemm_pack_ahead ahead)
{
    const uint16_t *b = g->b;
    if (g->trans_b)
        pack_rows_turned(b + j * g->ldb + k_begin, g->ldb, columns, k, panel);
    else
        pack_columns(b + k_begin * g->ldb + j, g->ldb, columns, k, false, panel, ahead);
}
