/* Few rows of C, as in generation, in the `vec` of whichever header was included before. The weights are by far the
 * larger operand and are read once, so nothing is gained by packing them: they are multiplied where they lie, and A,
 * which is small, is turned.
 *
 *   B stored (k,n): lanes are columns of C. All rows of C are one tile, and a few k of many columns have their turn, so
 *   that memory is read along.
 *   B stored (n,k): lanes are rows of C. C^T = B A^T, and the sums are turned at the end.
 *
 * Either way an element of C is one chain of FMAs over ascending k: the bits of ref/ref_gemm.c. K runs in stretches
 * that only decide when sums rest in memory. bf16 is widened on the way, a piece in L1 at a time. Floor: the bytes of
 * the weights, or two FMAs a cycle.
 *
 * The includer defines FEW_SUMS (vectors of sums that registers hold), FEW_TILE_ROWS (rows of the highest tile) and
 * FEW_TURNED_VECTORS (vectors of the widest tile with rows of C in its lanes). */
#ifndef TESS_DEVICE_CPU_GEMM_FEW_ROWS_VEC_H
#define TESS_DEVICE_CPU_GEMM_FEW_ROWS_VEC_H

#include "device/cpu/gemm_finish_vec.h"
#include "device/cpu/product_vec.h"
#include "device/cpu/sizes.h"

enum {
    FEW_TURNED_LEAST = 9, /* rows of C that fill lanes well enough: with fewer, packing is faster */
    FEW_TURNED_MOST = 64,
    FEW_BLOCK = 1024,        /* columns of C whose sums rest in L2 */
    FEW_PANEL_FLOATS = 8192, /* of turned A, in L1 while rows of B pass by */
    FEW_TURNED_ROWS = 8,     /* rows of B that pass by together, at most */
    FEW_STRIP = 128,         /* columns of B stored (k,n) that are in L1 */
    FEW_STRIP_K = 32,        /* their k */
};

typedef struct few_rows_plan {
    const tess_gemm *g;
    int64_t k_room;               /* k up to whole vectors */
    int64_t panels, panel_floats; /* of turned A: (k_room, lanes) */
    int vectors;                  /* of a panel */
    int64_t stretch;              /* B stored (n,k): k that are walked together */
    int64_t block;                /* columns that are */
    float *work;                  /* per worker: panels, sums, a piece of B */
    int64_t work_floats, sum_floats;
} few_rows_plan;

typedef struct few_rows_share {
    const few_rows_plan *f;
    float *a, *sums, *piece;
} few_rows_share;

static bool takes_few_rows(const tess_gemm *g)
{
    int64_t least = g->trans_b ? FEW_TURNED_LEAST : 1, most = g->trans_b ? FEW_TURNED_MOST : FEW_TILE_ROWS;
    return g->m >= least && g->m <= most && g->n > 0 && g->k > 0 && !g->trans_a && !g->accumulate && g->leaf == 0;
}

/* ---- Tiles ---- */
/* Rows of the tile that m rows of C take: a few heights are compiled, and lanes that are not there are 0. */
static int64_t straight_rows(int64_t m)
{
    return m == 5 ? 6 : m == 7 ? 8 : m > 8 ? 12 : m;
}

/* c (rows, 16 nv) = [c +] panel (k, 16) * b. Vectors that registers hold, for the height of the tile. */
static int straight_vectors(int64_t rows)
{
    return rows == 1 ? FEW_SUMS < 8 ? 4 : 8 : rows <= 3 ? FEW_SUMS < 8 ? 2 : 8 : rows <= 6 ? FEW_SUMS / 6 : 2;
}

static void straight_tile(int64_t rows, int64_t k, const float *panel, const float *b, int64_t ldb, float *c,
                          int64_t ldc, bool add)
{
    const matrix a = {panel, 1, LANES};
    switch (rows) {
    case 1:
        return product_tile(1, FEW_SUMS < 8 ? 4 : 8, k, a, b, ldb, c, ldc, add, NULL);
    case 2:
        return product_tile(2, FEW_SUMS < 8 ? 2 : 8, k, a, b, ldb, c, ldc, add, NULL);
    case 3:
        return product_tile(3, FEW_SUMS < 8 ? 2 : 8, k, a, b, ldb, c, ldc, add, NULL);
    case 4:
        return product_tile(4, FEW_SUMS / 6, k, a, b, ldb, c, ldc, add, NULL);
    case 6:
        return product_tile(6, FEW_SUMS / 6, k, a, b, ldb, c, ldc, add, NULL);
#if FEW_TILE_ROWS > 6
    case 8:
        return product_tile(8, 2, k, a, b, ldb, c, ldc, add, NULL);
    default:
        return product_tile(12, 2, k, a, b, ldb, c, ldc, add, NULL);
#endif
    }
}

/* c (n, 16 nv) = [c +] n rows of B * panel (k, 16 nv), `high` rows at a time. Constants: high, nv. */
static inline __attribute__((always_inline)) void turned_tiles(const int high, const int nv, int64_t n, int64_t k,
                                                               matrix b, const float *panel, float *c, int64_t ldc,
                                                               bool add)
{
    if (n == high) {
        product_tile(high, nv, k, b, panel, nv * LANES, c, ldc, add, NULL);
        return;
    }
    for (int64_t i = 0; i < n; i++, b.at += b.row)
        product_tile(1, nv, k, b, panel, nv * LANES, c + i * ldc, ldc, add, NULL);
}

static int64_t turned_rows(int nv)
{
    return FEW_SUMS / nv < FEW_TURNED_ROWS ? FEW_SUMS / nv : FEW_TURNED_ROWS;
}

static void turned_tile(int nv, int64_t n, int64_t k, matrix b, const float *panel, float *c, int64_t ldc, bool add)
{
#if FEW_TURNED_VECTORS > 1
    if (nv == 4)
        return turned_tiles(6, 4, n, k, b, panel, c, ldc, add);
    if (nv == 2)
        return turned_tiles(8, 2, n, k, b, panel, c, ldc, add);
#endif
    (void)nv;
    turned_tiles(FEW_SUMS < 8 ? FEW_SUMS : 8, 1, n, k, b, panel, c, ldc, add);
}

/* ---- A ---- */
/* Rows [i, i + n) of A to columns of a panel that is `width` wide; n at most 16, absent lanes are 0. */
static void turn_rows_of_a(const tess_gemm *g, int64_t i, int64_t n, int64_t width, float *panel)
{
    for (int64_t p = 0; p < g->k; p += LANES) {
        vec square[LANES];
        for (int64_t r = 0; r < LANES; r++)
            square[r] = r < n ? v_get(g->a, (i + r) * g->lda + p, min64(LANES, g->k - p), g->ab_dtype) : v_set(0);
        turn_square(square);
        for (int64_t r = 0; r < LANES; r++)
            v_store(panel + (p + r) * width, square[r], LANES);
    }
}

/* ---- B stored (k,n) ---- */
/* The strip at (p, j) of B, columns beyond it 0; in place where it is whole and float. Each element is read once, by
 * the one tile that all rows of C are. The same columns of the next k are asked for. */
static const float *strip_of(const few_rows_share *s, int64_t p, int64_t n_k, int64_t j, int64_t columns, int64_t *ld)
{
    const tess_gemm *g = s->f->g;
    if (g->ab_dtype == TESS_F32 && columns == FEW_STRIP) {
        const float *b = (const float *)g->b + p * g->ldb + j;
        *ld = g->ldb;
        for (int64_t i = FEW_STRIP_K; i < FEW_STRIP_K + n_k && p + i < g->k; i++)
            for (int64_t c = 0; c < FEW_STRIP; c += 16)
                __builtin_prefetch(b + i * g->ldb + c, 0, 2);
        return b;
    }
    *ld = FEW_STRIP;
    for (int64_t i = 0; i < n_k; i++)
        for (int64_t c = 0; c < FEW_STRIP; c += LANES)
            v_store(s->piece + i * FEW_STRIP + c,
                    c < columns ? v_get(g->b, (p + i) * g->ldb + j + c, min64(LANES, columns - c), g->ab_dtype)
                                : v_set(0),
                    LANES);
    return s->piece;
}

/* Between rows of sums: never a power of two, whose lines would drive each other out of L1. */
static int64_t straight_row(const few_rows_plan *f)
{
    return f->block + LANES;
}

static void multiply_straight(const few_rows_share *s, int64_t begin, int64_t end)
{
    const few_rows_plan *f = s->f;
    const tess_gemm *g = f->g;
    int64_t ld_sums = straight_row(f), rows = straight_rows(g->m);
    int nv = straight_vectors(rows);
    turn_rows_of_a(g, 0, g->m, LANES, s->a);
    for (int64_t block = begin; block < end; block += f->block) {
        int64_t columns = min64(f->block, end - block), ld;
        for (int64_t p = 0; p < g->k; p += FEW_STRIP_K) {
            int64_t n_k = min64(FEW_STRIP_K, g->k - p);
            for (int64_t j = 0; j < columns; j += FEW_STRIP) {
                const float *b = strip_of(s, p, n_k, block + j, min64(FEW_STRIP, columns - j), &ld);
                for (int64_t c = 0; c < FEW_STRIP; c += nv * LANES)
                    straight_tile(rows, n_k, s->a + p * LANES, b + c, ld, s->sums + j + c, ld_sums, p > 0);
            }
        }
        finish(g, 0, block, g->m, columns, s->sums, ld_sums);
    }
}

/* ---- B stored (n,k) ---- */
/* n_k elements from p of n rows of B from row j, in place where they are float. The same of the rows after them is
 * asked for. */
static matrix rows_of_b(const few_rows_share *s, int64_t j, int64_t n, int64_t p, int64_t n_k)
{
    const tess_gemm *g = s->f->g;
    size_t size = tess_dtype_size(g->ab_dtype);
    for (int64_t r = j + n; r < j + 2 * n && r < g->n; r++)
        for (size_t byte = 0; byte < (size_t)n_k * size; byte += 64)
            __builtin_prefetch((const char *)g->b + (size_t)(r * g->ldb + p) * size + byte);
    if (g->ab_dtype == TESS_F32)
        return (matrix){(const float *)g->b + j * g->ldb + p, g->ldb, 1};
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < n_k; i += LANES)
            v_store(s->piece + r * s->f->stretch + i,
                    v_get(g->b, (j + r) * g->ldb + p + i, min64(LANES, n_k - i), g->ab_dtype), LANES);
    return (matrix){s->piece, s->f->stretch, 1};
}

/* Columns [j, j + n) of C from their sums (n, lanes). */
static void finish_turned(const few_rows_share *s, int64_t j, int64_t n, int64_t lanes)
{
    float turned[LANES * LANES];
    for (int64_t c = 0; c < n; c += LANES)
        for (int64_t i = 0; i < s->f->g->m; i += LANES) {
            vec square[LANES];
            for (int64_t r = 0; r < LANES; r++)
                square[r] = v_load(s->sums + (c + r) * lanes + i, LANES);
            turn_square(square);
            for (int64_t r = 0; r < LANES; r++)
                v_store(turned + r * LANES, square[r], LANES);
            finish(s->f->g, i, j + c, min64(LANES, s->f->g->m - i), min64(LANES, n - c), turned, LANES);
        }
}

static void multiply_turned(const few_rows_share *s, int64_t begin, int64_t end)
{
    const few_rows_plan *f = s->f;
    const tess_gemm *g = f->g;
    int64_t width = f->vectors * LANES, lanes = f->panels * width, most = turned_rows(f->vectors);
    for (int64_t i = 0; i < lanes; i += LANES)
        turn_rows_of_a(g, i, min64(LANES, g->m - i), width, s->a + i / width * f->panel_floats + i % width);
    for (int64_t block = begin; block < end; block += f->block) {
        int64_t columns = min64(f->block, end - block);
        for (int64_t p = 0; p < g->k; p += f->stretch) {
            int64_t n_k = min64(f->stretch, g->k - p);
            for (int64_t j = 0; j < columns; j += most) {
                int64_t n = min64(most, columns - j);
                matrix b = rows_of_b(s, block + j, n, p, n_k);
                for (int64_t t = 0; t < f->panels; t++)
                    turned_tile(f->vectors, n, n_k, b, s->a + t * f->panel_floats + p * width,
                                s->sums + j * lanes + t * width, lanes, p > 0);
            }
        }
        finish_turned(s, block, columns, lanes);
    }
}

/* ---- The product ---- */
static void multiply_few_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const few_rows_plan *f = context;
    const tess_gemm *g = f->g;
    few_rows_share s = {.f = f, .a = f->work + worker * f->work_floats};
    s.sums = s.a + f->panels * f->panel_floats;
    s.piece = s.sums + f->sum_floats;
    if (g->trans_b)
        multiply_turned(&s, begin * LANES, min64(end * LANES, g->n));
    else
        multiply_straight(&s, begin * FEW_STRIP, min64(end * FEW_STRIP, g->n));
}

/* Sizes of what a worker needs. */
static void plan_few_rows(few_rows_plan *f)
{
    const tess_gemm *g = f->g;
    f->k_room = divide_up(g->k, LANES) * LANES;
    f->vectors = 1;
    while (g->trans_b && f->vectors < FEW_TURNED_VECTORS && f->vectors * LANES < g->m)
        f->vectors *= 2;
    f->panels = divide_up(g->m, f->vectors * LANES);
    f->panel_floats = f->k_room * f->vectors * LANES;
    f->block = min64(FEW_BLOCK, divide_up(g->n, FEW_STRIP) * FEW_STRIP);
    int64_t lanes = f->panels * f->vectors * LANES, widened = g->ab_dtype == TESS_F32 ? 0 : FEW_TURNED_ROWS;
    f->stretch = min64(FEW_PANEL_FLOATS / lanes, f->k_room);
    f->sum_floats = g->trans_b ? f->block * lanes : straight_rows(g->m) * straight_row(f);
    f->work_floats =
        f->panels * f->panel_floats + f->sum_floats + (g->trans_b ? widened * f->stretch : FEW_STRIP * FEW_STRIP_K);
}

static tess_status gemm_few_rows(tess_stream *s, const tess_gemm *g)
{
    TESS_TRY(tess_gemm_check(g));
    few_rows_plan f = {.g = g};
    plan_few_rows(&f);
    bool parallel = 2.0 * (double)g->m * (double)g->n * (double)g->k > engine.parallel_flops;
    size_t n_workers = parallel ? (size_t)tess_threads_count(s->threads) : 1;
    void *work;
    TESS_TRY_CTX(tess_stream_scratch(s, n_workers * (size_t)f.work_floats * sizeof(float), &work), "gemm");
    f.work = work;
    int64_t pieces = divide_up(g->n, g->trans_b ? LANES : FEW_STRIP);
    if (parallel)
        tess_threads_run(s->threads, multiply_few_rows, &f, pieces, 1);
    else
        multiply_few_rows(&f, 0, pieces, 0);
    return TESS_OK;
}

#endif
