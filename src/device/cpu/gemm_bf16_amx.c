/* bf16 products on AMX tiles: 32 x 32 sums in four tiles, K in steps of 32 (TDPBF16PS: even and odd elements summed
 * apart within a step, then together, then to the sum; denormals count as zero). A product of whole steps is the same
 * whichever of its factors is the left one, which gemm_few_rows_amx.c uses. Floor: 1024 flops a cycle and core.
 *
 * Packed panels: for each step of k, two tiles of 1 KB. A: 16 rows of 32 k. B: 16 pairs of k, each 16 columns of (even,
 * odd). */
#include "device/cpu/gemm_impl.h"
#include "device/cpu/transpose_avx512_impl.h"

enum { TILE = 16, STEP = 32, TILE_ELEMENTS = TILE * STEP, STEP_ELEMENTS = 2 * TILE_ELEMENTS };

typedef struct __attribute__((packed)) tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Static: the compiler does not know that LDTILECFG reads 64 bytes. */
static const tile_config config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE},
};

static void begin(void)
{
    _tile_loadconfig(&config);
}

static void end(void)
{
    _tile_release();
}

static __mmask32 first_32(int64_t n)
{
    return n >= 32 ? 0xffffffff : n <= 0 ? 0 : (__mmask32)((1u << n) - 1);
}

static __mmask16 first_16(int64_t n)
{
    return (__mmask16)(first_32(n) & 0xffff);
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

/* 16 columns of the pairs of rows (k) of x as dwords. */
static inline void load_pairs(const uint16_t *x, int64_t ld, __mmask16 mask, int64_t k, __m512i block[TILE])
{
    for (int r = 0; r < TILE; r++) {
        __mmask16 even = 2 * r < k ? mask : 0, odd = 2 * r + 1 < k ? mask : 0;
        __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(even, x + 2 * r * ld));
        __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(odd, x + (2 * r + 1) * ld));
        block[r] = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    }
}

/* A panel of B (turned: of A) that is stored (k, n). */
static void pack_columns(const uint16_t *x, int64_t ld, int64_t n, int64_t k, bool turned, uint16_t *panel)
{
    for (int64_t p = 0; p < k; p += STEP) {
        for (int64_t half = 0; half < 2 * TILE; half += TILE, panel += TILE_ELEMENTS) {
            __m512i block[TILE];
            load_pairs(x + p * ld + half, ld, first_16(n - half), k - p, block);
            if (turned)
                transpose_16x16_avx512(block);
            for (int r = 0; r < TILE; r++)
                _mm512_store_si512(panel + r * STEP, block[r]);
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

static void multiply(const void *a_panel, const void *b_panel, int64_t k, int64_t rows, int64_t columns, bool add,
                     float *sum)
{
    enum { SUM_BYTES = 2 * TILE * sizeof(float) };
    (void)columns;
    const uint16_t *a = a_panel, *b = b_panel;
    tess_amx_fence();
    if (add) {
        _tile_loadd(0, sum, SUM_BYTES);
        _tile_loadd(1, sum + TILE, SUM_BYTES);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    if (rows <= TILE) {
        for (int64_t p = 0; p < k; p += STEP, a += STEP_ELEMENTS, b += STEP_ELEMENTS) {
            _tile_loadd(4, a, 64);
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
            _tile_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_loadd(7, b + TILE_ELEMENTS, 64);
            _tile_loadd(5, a + TILE_ELEMENTS, 64);
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
    .store = tess_gemm_store_avx512,
    .begin = begin,
    .end = end,
};

static tess_status gemm_amx(tess_stream *s, const tess_gemm *g)
{
    if (g->ab_dtype == TESS_F32)
        return tess_gemm_avx512(s, g);
    if (g->trans_b && g->m <= GEMM_FEW_ROWS)
        return tess_gemm_few_rows_amx(s, g);
    return tess_gemm_blocked(s, g, &tess_gemm_engine_amx);
}

void tess_kernels_amx_gemm(tess_kernels *k)
{
    k->gemm = gemm_amx;
}
