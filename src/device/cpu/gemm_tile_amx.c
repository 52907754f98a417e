/* Computes one tile of C. Its limits, measured on one core at 2.5 GHz (2.56 TFLOP/s): with A streamed from L2 and a
 * panel of B of 512 k in L1, 2.0 TFLOP/s. If C is large, writing 64-byte pieces of its rows through the caches halves
 * that (each line is read before it is written); streaming stores cost a tenth. */
#include "device/cpu/gemm_amx_impl.h"
#include "device/cpu/sizes.h"

/* Number of steps before the sums of the previous tile are read: a tile store reaches memory late, and a load that
 * waits for it would stop all later instructions. */
enum { WAIT_STEPS = 3 };

static inline void write_row(const gemm_chores *w)
{
    __m512 low = _mm512_load_ps(w->sums), high = _mm512_load_ps(w->sums + GEMM_TILE);
    if (w->bias != NULL) {
        low = _mm512_add_ps(low, _mm512_load_ps(w->bias));
        high = _mm512_add_ps(high, _mm512_load_ps(w->bias + GEMM_TILE));
    }
    if (w->end == GEMM_END_FUSED) {
        tess_gemm_fused_row_amx(w, low, high);
    } else if (w->end == GEMM_END_BF16) {
        __m512i row = (__m512i)_mm512_cvtne2ps_pbh(high, low);
        if (w->streamed)
            _mm512_stream_si512((void *)w->c, row);
        else
            _mm512_mask_storeu_epi16(w->c, w->columns, row);
    } else if (w->streamed) {
        _mm512_stream_ps((float *)(void *)w->c, low);
        _mm512_stream_ps((float *)(void *)w->c + GEMM_TILE, high);
    } else {
        _mm512_mask_storeu_ps(w->c, (__mmask16)w->columns, low);
        _mm512_mask_storeu_ps(w->c + GEMM_TILE * sizeof(float), (__mmask16)(w->columns >> GEMM_TILE), high);
    }
}

static inline void write_rows(gemm_chores *w, int64_t n)
{
    for (n = n < w->n_rows ? n : w->n_rows; n > 0; n--, w->n_rows--) {
        write_row(w);
        w->sums += GEMM_SPAN;
        if (w->end == GEMM_END_FUSED)
            w->at += w->fused->g.ldc; /* the C of a fused product may be NULL, so `c` alone is not enough */
        else
            w->c += w->c_stride;
    }
}

/* The amount of each chore that one step does. */
typedef struct pace {
    int64_t wait, rows, lines, rows_ahead;
} pace;

static inline void work(gemm_chores *w, pace *pace)
{
    for (int64_t i = 0; i < pace->lines && w->n_ahead > 0; i++, w->n_ahead--, w->ahead += 64)
        _mm_prefetch(w->ahead, _MM_HINT_T1);
    for (int64_t i = 0; i < pace->rows_ahead && w->n_rows_ahead > 0; i++, w->n_rows_ahead--) {
        for (int j = 0; j < 2; j++) {
            __builtin_prefetch(w->rows_ahead[j], 1);
            w->rows_ahead[j] += w->rows_ahead_stride;
        }
    }
    if (pace->wait > 0)
        pace->wait--;
    else if (w->n_rows > 0)
        write_rows(w, pace->rows);
}

static pace pace_of(const gemm_chores *w, int64_t steps)
{
    pace pace = {.wait = steps > 2 * WAIT_STEPS ? WAIT_STEPS : steps / 2};
    if (steps > 0) {
        pace.rows = divide_up(w->n_rows, steps - pace.wait);
        pace.lines = divide_up(w->n_ahead, steps);
        pace.rows_ahead = divide_up(w->n_rows_ahead, steps);
    }
    return pace;
}

/* Streams A past L1, where it would evict the panel of B with which all of A is multiplied. */
void tess_gemm_tile_amx(const uint16_t *a, const uint16_t *b, int64_t steps, int64_t rows, gemm_sums from, gemm_sums to,
                        gemm_chores *w)
{
    pace pace = pace_of(w, steps);
    bool half = rows <= GEMM_TILE;
    size_t stride = (size_t)from.stride * sizeof(float);
    tess_tiles_fence();
    if (from.at != NULL) {
        _tile_loadd(0, from.at, stride);
        _tile_loadd(1, from.at + GEMM_TILE, stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    if (half) {
        for (int64_t p = 0; p < steps; p++, a += GEMM_STEP_ELEMENTS, b += GEMM_STEP_ELEMENTS) {
            _tile_stream_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_loadd(7, b + GEMM_TILE_ELEMENTS, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            work(w, &pace);
        }
    } else {
        if (from.at != NULL) {
            const float *lower = from.at + GEMM_TILE * from.stride;
            _tile_loadd(2, lower, stride);
            _tile_loadd(3, lower + GEMM_TILE, stride);
        } else {
            _tile_zero(2);
            _tile_zero(3);
        }
        for (int64_t p = 0; p < steps; p++, a += GEMM_STEP_ELEMENTS, b += GEMM_STEP_ELEMENTS) {
            _tile_stream_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_loadd(7, b + GEMM_TILE_ELEMENTS, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_stream_loadd(5, a + GEMM_TILE_ELEMENTS, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
            work(w, &pace);
        }
    }
    tess_gemm_finish_amx(w);
    stride = (size_t)to.stride * sizeof(float);
    _tile_stored(0, to.at, stride);
    _tile_stored(1, to.at + GEMM_TILE, stride);
    if (!half) {
        float *lower = to.at + GEMM_TILE * to.stride;
        _tile_stored(2, lower, stride);
        _tile_stored(3, lower + GEMM_TILE, stride);
    }
}

void tess_gemm_finish_amx(gemm_chores *w)
{
    write_rows(w, w->n_rows);
}

void tess_gemm_load_bias_amx(const tess_gemm *g, int64_t j, int64_t columns, float *bias)
{
    __m512i x = _mm512_maskz_loadu_epi16(tess_gemm_columns(columns), (const uint16_t *)g->bias + j);
    for (int half = 0; half < 2; half++) {
        __m256i part = half == 0 ? _mm512_castsi512_si256(x) : _mm512_extracti64x4_epi64(x, 1);
        _mm512_store_si512(bias + half * GEMM_TILE, _mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16));
    }
}

void tess_gemm_store_rows_amx(const tess_gemm *g, const tess_gemm_fused *f, int64_t j, int64_t columns,
                              const float *sum)
{
    _Alignas(64) float bias[GEMM_SPAN];
    size_t size = tess_dtype_size(g->c_dtype);
    gemm_chores w = {.sums = sum,
                     .c = f == NULL ? (char *)g->c + (size_t)j * size : NULL,
                     .fused = f,
                     .at = j,
                     .c_stride = g->ldc * (int64_t)size,
                     .n_rows = g->m,
                     .columns = tess_gemm_columns(columns),
                     .end = f != NULL                 ? GEMM_END_FUSED
                            : g->c_dtype == TESS_BF16 ? GEMM_END_BF16
                                                      : GEMM_END_F32};
    if (g->bias != NULL) {
        tess_gemm_load_bias_amx(g, j, columns, bias);
        w.bias = bias;
    }
    tess_gemm_finish_amx(&w);
}

void tess_gemm_load_sums_amx(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, float *sums)
{
    for (int64_t r = 0; r < GEMM_SPAN; r++) {
        uint32_t mask = r < rows ? tess_gemm_columns(columns) : 0;
        const float *c = (const float *)g->c + (r < rows ? (i + r) * g->ldc + j : 0);
        _mm512_store_ps(sums + r * GEMM_SPAN, _mm512_maskz_loadu_ps((__mmask16)mask, c));
        _mm512_store_ps(sums + r * GEMM_SPAN + GEMM_TILE,
                        _mm512_maskz_loadu_ps((__mmask16)(mask >> GEMM_TILE), c + GEMM_TILE));
    }
}
