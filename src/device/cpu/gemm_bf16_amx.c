/* bf16 products on AMX tiles: 32 x 32 sums in four tiles, K in steps of 32 (TDPBF16PS: even and odd elements summed
 * apart within a step, then together, then to the sum; denormals count as zero). A product of whole steps is the same
 * whichever of its factors is the left one, which gemm_few_rows_amx.c uses. Floor: 1024 flops a cycle and core.
 *
 * Packed panels: for each step of k, two tiles of 1 KB. A: 16 rows of 32 k. B: 16 pairs of k, each 16 columns of (even,
 * odd). */
#include "device/cpu/gemm_impl.h"
#include "device/cpu/tiles_amx.h"
#include "device/cpu/transpose_avx512_impl.h"

enum { TILE = 16, STEP = 32, TILE_ELEMENTS = TILE * STEP, STEP_ELEMENTS = 2 * TILE_ELEMENTS };

static __mmask32 first_32(int64_t n)
{
    return n >= 32 ? 0xffffffff : n <= 0 ? 0 : (__mmask32)((1u << n) - 1);
}

/* A panel of A that is stored (m, k). */
static void pack_rows(const uint16_t *x, int64_t ld, int64_t n, int64_t k, uint16_t *panel)
{
    for (int64_t r = 0; r < 2 * TILE; r++) {
        uint16_t *to = panel + r / TILE * TILE_ELEMENTS + r % TILE * STEP;
        for (int64_t p = 0; p < k; p += STEP, to += STEP_ELEMENTS) {
            __mmask32 mask = r < n ? first_32(k - p) : 0;
            _mm512_store_si512(to, mask != 0 ? _mm512_maskz_loadu_epi16(mask, x + r * ld + p) : _mm512_setzero_si512());
        }
    }
}

/* A panel of B that is stored (n, k): its rows are what pack_rows copies, in dwords of two k, turned. */
static void pack_rows_turned(const uint16_t *x, int64_t ld, int64_t n, int64_t k, uint16_t *panel)
{
    for (int64_t half = 0; half < 2 * TILE; half += TILE) {
        uint16_t *to = panel + half / TILE * TILE_ELEMENTS;
        for (int64_t p = 0; p < k; p += STEP, to += STEP_ELEMENTS) {
            __mmask32 mask = first_32(k - p);
            __m512i block[TILE];
            for (int r = 0; r < TILE; r++)
                block[r] =
                    half + r < n ? _mm512_maskz_loadu_epi16(mask, x + (half + r) * ld + p) : _mm512_setzero_si512();
            transpose_16x16_avx512(block);
            for (int r = 0; r < TILE; r++)
                _mm512_store_si512(to + r * STEP, block[r]);
        }
    }
}

/* Two rows (k) of 32 columns as dwords of two k: columns 0-15, 16-31. */
static inline void pair_rows(__m512i even, __m512i odd, __m512i *left, __m512i *right)
{
    const __m512i first_half = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second_half = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i low = _mm512_unpacklo_epi16(even, odd), high = _mm512_unpackhi_epi16(even, odd);
    *left = _mm512_permutex2var_epi64(low, first_half, high);
    *right = _mm512_permutex2var_epi64(low, second_half, high);
}

/* A panel of B (turned: of A) that is stored (k, n). */
static void pack_columns(const uint16_t *x, int64_t ld, int64_t n, int64_t k, bool turned, uint16_t *panel)
{
    __mmask32 mask = first_32(n);
    for (int64_t p = 0; p < k; p += STEP, panel += STEP_ELEMENTS) {
        __m512i left[TILE], right[TILE];
        for (int r = 0; r < TILE; r++) {
            const uint16_t *row = x + (p + 2 * r) * ld;
            __m512i even = p + 2 * r < k ? _mm512_maskz_loadu_epi16(mask, row) : _mm512_setzero_si512();
            __m512i odd = p + 2 * r + 1 < k ? _mm512_maskz_loadu_epi16(mask, row + ld) : _mm512_setzero_si512();
            pair_rows(even, odd, &left[r], &right[r]);
        }
        if (turned) {
            transpose_16x16_avx512(left);
            transpose_16x16_avx512(right);
        }
        for (int r = 0; r < TILE; r++) {
            _mm512_store_si512(panel + r * STEP, left[r]);
            _mm512_store_si512(panel + TILE_ELEMENTS + r * STEP, right[r]);
        }
    }
}

static void pack_a(const tess_gemm *g, int64_t i, int64_t rows, int64_t k_begin, int64_t k, void *panel)
{
    const uint16_t *a = g->a;
    if (g->trans_a)
        pack_columns(a + k_begin * g->lda + i, g->lda, rows, k, true, panel);
    else
        pack_rows(a + i * g->lda + k_begin, g->lda, rows, k, panel);
}

static void pack_b(const tess_gemm *g, int64_t j, int64_t columns, int64_t k_begin, int64_t k, void *panel)
{
    const uint16_t *b = g->b;
    if (g->trans_b)
        pack_rows_turned(b + j * g->ldb + k_begin, g->ldb, columns, k, panel);
    else
        pack_columns(b + k_begin * g->ldb + j, g->ldb, columns, k, false, panel);
}

/* A is streamed past the first-level cache, where it would push out the panel of B that all of A meets: 1.96 instead
 * of 1.42 TFLOP/s at 2.2 GHz from a block of A in L2. */
static void multiply(const void *a_panel, const void *b_panel, int64_t k, int64_t rows, int64_t columns, bool add,
                     float *sum)
{
    enum { SUM_BYTES = 2 * TILE * sizeof(float) };
    (void)columns;
    const uint16_t *a = a_panel, *b = b_panel;
    tess_tiles_fence();
    if (add) {
        _tile_loadd(0, sum, SUM_BYTES);
        _tile_loadd(1, sum + TILE, SUM_BYTES);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    if (rows <= TILE) {
        for (int64_t p = 0; p < k; p += STEP, a += STEP_ELEMENTS, b += STEP_ELEMENTS) {
            _tile_stream_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_loadd(7, b + TILE_ELEMENTS, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
        }
    } else {
        if (add) {
            _tile_loadd(2, sum + 2 * TILE * TILE, SUM_BYTES);
            _tile_loadd(3, sum + 2 * TILE * TILE + TILE, SUM_BYTES);
        } else {
            _tile_zero(2);
            _tile_zero(3);
        }
        for (int64_t p = 0; p < k; p += STEP, a += STEP_ELEMENTS, b += STEP_ELEMENTS) {
            _tile_stream_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_loadd(7, b + TILE_ELEMENTS, 64);
            _tile_stream_loadd(5, a + TILE_ELEMENTS, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(2, sum + 2 * TILE * TILE, SUM_BYTES);
        _tile_stored(3, sum + 2 * TILE * TILE + TILE, SUM_BYTES);
    }
    _tile_stored(0, sum, SUM_BYTES);
    _tile_stored(1, sum + TILE, SUM_BYTES);
}

/* Sums without a bias are never subnormal, so the instruction that takes those for zero rounds them as bf16.h does. */
static void store(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sum)
{
    if (g->bias != NULL || g->c_dtype != TESS_BF16) {
        tess_gemm_store_avx512(g, i, j, rows, columns, sum);
        return;
    }
    uint16_t *c = (uint16_t *)g->c + i * g->ldc + j;
    __mmask32 mask = first_32(columns);
    for (int64_t r = 0; r < rows; r++, c += g->ldc, sum += 2 * TILE) {
        __m512bh x = _mm512_cvtne2ps_pbh(_mm512_load_ps(sum + TILE), _mm512_load_ps(sum));
        _mm512_mask_storeu_epi16(c, mask, (__m512i)x);
    }
}

const gemm_engine tess_gemm_engine_amx = {
    .tile_rows = 2 * TILE,
    .tile_columns = 2 * TILE,
    .k_step = STEP,
    .k_block = 512,
    .block_rows = 256,
    .packed_size = sizeof(uint16_t),
    .parallel_flops = 4e6,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .multiply = multiply,
    .load = tess_gemm_load_avx512,
    .store = store,
    .begin = tess_tiles_enter,
    .end = tess_tiles_leave,
};

static tess_status gemm_amx(tess_stream *s, const tess_gemm *g)
{
    if (g->ab_dtype == TESS_F32)
        return tess_gemm_avx512(s, g);
    if (g->trans_b && g->m <= GEMM_FEW_ROWS && g->k > 0)
        return tess_gemm_few_rows_amx(s, g);
    return tess_gemm_blocked(s, g, &tess_gemm_engine_amx);
}

void tess_kernels_amx_gemm(tess_kernels *k)
{
    k->gemm = gemm_amx;
}
