/* Few rows against weights stored (n,k), as in generation. The weights are by far the larger operand and are read only
 * once, so packing them is not worth while. C^T = B A^T has the weights on the left, where a tile is 16 rows of 32
 * neighbouring k, so they are loaded into tiles directly from memory. Floor: the weights' bytes.
 *
 * The bits are the same as with packing: each product and each sum of TDPBF16PS has the same operands, exchanged. */
#include "device/cpu/gemm_amx_impl.h"
#include "device/cpu/transpose_avx512_impl.h"

enum { SUM_BYTES = GEMM_SPAN * sizeof(float), PREFETCH_BYTES = 2048, GROUP_BYTES = 512 << 10 };

typedef struct few_rows {
    const tess_gemm *g;
    const tess_gemm_fused *f; /* NULL: nothing follows */
    tess_gemm turned;         /* C^T = B A^T; only its operands are used */
    const uint16_t *packed;   /* A^T as a packed panel */
} few_rows;

/* Transposes 32 x 32 sums, in either direction. */
static void turn_sums(const float *from, float *to)
{
    for (int i = 0; i < GEMM_SPAN; i += GEMM_TILE) {
        for (int j = 0; j < GEMM_SPAN; j += GEMM_TILE) {
            __m512i block[GEMM_TILE];
            for (int r = 0; r < GEMM_TILE; r++)
                block[r] = _mm512_load_si512(from + (i + r) * GEMM_SPAN + j);
            transpose_16x16_avx512(block);
            for (int r = 0; r < GEMM_TILE; r++)
                _mm512_store_si512(to + (j + r) * GEMM_SPAN + i, block[r]);
        }
    }
}

/* Adds whole steps of k to tiles 0 (rows of m below 16), 1 (from 16), 2 and 3 (the same for the second 16 weight rows).
 *
 * Prefetches the same position of the following rows or, if rows are long, a later position of these rows. */
static void multiply_in_place(const uint16_t *weights, int64_t ld, const uint16_t *packed, int64_t k, bool wide)
{
    size_t stride = (size_t)ld * sizeof(uint16_t);
    int64_t group = GEMM_SPAN * ld * (int64_t)sizeof(uint16_t), ahead = group <= GROUP_BYTES ? group : PREFETCH_BYTES;
    for (int64_t p = 0; p < k; p += GEMM_STEP, weights += GEMM_STEP, packed += GEMM_STEP_ELEMENTS) {
        for (int r = 0; r < GEMM_SPAN; r++)
            _mm_prefetch((const char *)(weights + r * ld) + ahead, _MM_HINT_T1);
        _tile_loadd(4, weights, stride);
        _tile_loadd(5, weights + GEMM_TILE * ld, stride);
        _tile_loadd(6, packed, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        if (wide) {
            _tile_loadd(7, packed + GEMM_TILE_ELEMENTS, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
}

/* Adds one packed step to the same tiles. */
static void multiply_packed(const uint16_t *step, const uint16_t *packed)
{
    tess_tiles_fence();
    _tile_loadd(4, step, 64);
    _tile_loadd(5, step + GEMM_TILE_ELEMENTS, 64);
    _tile_loadd(6, packed, 64);
    _tile_loadd(7, packed + GEMM_TILE_ELEMENTS, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

static void multiply_groups(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const few_rows *f = context;
    const tess_gemm *g = f->g;
    _Alignas(64) float sum[GEMM_SPAN * GEMM_SPAN], turned[GEMM_SPAN * GEMM_SPAN];
    _Alignas(64) uint16_t step[GEMM_STEP_ELEMENTS];
    int64_t k_whole = g->k / GEMM_STEP * GEMM_STEP;
    tess_tiles_enter();
    for (int64_t j = begin * GEMM_SPAN; j < end * GEMM_SPAN && j < g->n; j += GEMM_SPAN) {
        int64_t columns = g->n - j < GEMM_SPAN ? g->n - j : GEMM_SPAN, k = 0;
        if (g->accumulate) {
            tess_gemm_load_sums_amx(g, 0, j, g->m, columns, sum);
            turn_sums(sum, turned);
            tess_tiles_fence();
            _tile_loadd(0, turned, SUM_BYTES);
            _tile_loadd(1, turned + GEMM_TILE, SUM_BYTES);
            _tile_loadd(2, turned + GEMM_TILE * GEMM_SPAN, SUM_BYTES);
            _tile_loadd(3, turned + GEMM_TILE * GEMM_SPAN + GEMM_TILE, SUM_BYTES);
        } else {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
        }
        if (columns == GEMM_SPAN) {
            multiply_in_place((const uint16_t *)g->b + j * g->ldb, g->ldb, f->packed, k_whole, g->m > GEMM_TILE);
            k = k_whole;
        }
        for (; k < g->k; k += GEMM_STEP) {
            tess_gemm_pack_a_amx(&f->turned, j, columns, k, g->k - k < GEMM_STEP ? g->k - k : GEMM_STEP, step,
                                 (gemm_pack_ahead){0, 0});
            multiply_packed(step, f->packed + k * GEMM_SPAN);
        }
        _tile_stored(0, turned, SUM_BYTES);
        _tile_stored(1, turned + GEMM_TILE, SUM_BYTES);
        _tile_stored(2, turned + GEMM_TILE * GEMM_SPAN, SUM_BYTES);
        _tile_stored(3, turned + GEMM_TILE * GEMM_SPAN + GEMM_TILE, SUM_BYTES);
        turn_sums(turned, sum);
        tess_gemm_store_rows_amx(g, f->f, j, columns, sum);
    }
    tess_tiles_leave();
}

static few_rows plan(const tess_gemm *g, const tess_gemm_fused *f, void *packed)
{
    return (few_rows){
        .g = g,
        .f = f,
        .turned = {.a = g->b, .lda = g->ldb, .trans_a = !g->trans_b, .b = g->a, .ldb = g->lda, .trans_b = !g->trans_a},
        .packed = packed};
}

static void pack_a(const few_rows *f, void *packed)
{
    tess_gemm_pack_b_amx(&f->turned, 0, f->g->m, 0, f->g->k, packed, (gemm_pack_ahead){0, 0});
}

size_t tess_gemm_few_rows_bytes_amx(const tess_gemm *g)
{
    return (size_t)((g->k + GEMM_STEP - 1) / GEMM_STEP * GEMM_STEP_ELEMENTS) * sizeof(uint16_t);
}

void tess_gemm_few_rows_part_amx(const tess_gemm_fused *f, void *work)
{
    few_rows x = plan(&f->g, f->then == TESS_THEN_NOTHING ? NULL : f, work);
    pack_a(&x, work);
    multiply_groups(&x, 0, (f->g.n + GEMM_SPAN - 1) / GEMM_SPAN, 0);
}

tess_status tess_gemm_few_rows_amx(tess_stream *s, const tess_gemm *g)
{
    TESS_TRY(tess_gemm_check(g));
    if (g->m == 0 || g->n == 0)
        return TESS_OK;
    void *packed;
    TESS_TRY_CTX(tess_stream_scratch(s, tess_gemm_few_rows_bytes_amx(g), &packed), "gemm");
    few_rows f = plan(g, NULL, packed);
    pack_a(&f, packed);
    int64_t n_groups = (g->n + GEMM_SPAN - 1) / GEMM_SPAN;
    const bool parallel = 2.0 * (double)g->n * (double)g->k > 1e6;
    tess_threads_run(s->threads, multiply_groups, &f, n_groups, parallel ? 1 : n_groups);
    return TESS_OK;
}
