/* Few rows of C, as in generation. The weights are by far the larger operand and are read only once, so packing all of
 * them is not worth while. They are multiplied in place, or from a strip of them in L1. There are three ways. */
/* clang-format off */
/*   B stored (k,n): lanes are columns of C. Strips of a few k and many columns follow each other, so that memory is
 *     read along its rows.
 *   B stored (n,k), at most FEW_TRANSPOSED_MOST rows of C: lanes are columns of C. At most FEW_DIRECT_MOST rows are
 *     multiplied while B is transposed in registers, more of them from strips that are transposed into L1.
 *   B stored (n,k), more rows: lanes are rows of C. C^T = B A^T, and the sums are transposed at the end.
 *
 * An element of C is always one chain of sums over ascending k in packed elements (gemm_impl.h): the bits of the
 * engine's other products. K runs in stretches that only decide when sums rest in memory. Floor: the bytes of the
 * weights, or the rate of the products. On an AMD EPYC with AVX2 a core reads the weights of one row at the rate of a
 * plain read; bf16 stored (n,k) at 75% of it.
 *
 * The includer has an `engine` and defines
 *   FEW_STEP            k in a packed element
 *   FEW_SUMS            vectors of sums that registers hold
 *   FEW_TILE_ROWS       rows of the highest tile
 *   FEW_TURNED_VECTORS  vectors of the widest tile with rows of C in its lanes
 *   FEW_TURNED_BF16_MOST  largest number of rows with bf16 stored (n,k)
 *   few_packed(x, i, left, dtype)
 *     16 packed elements of neighbouring k from x[i]; `left` k exist, the rest are 0
 *   few_columns(x, i, ld, left, n, dtype)
 *     a packed element of each of n columns; x[i] is the first column at the first k, and `left` k exist
 *   few_add(sum, a, b)
 *     sum + a b
 *   few_transpose(x, i, ld, dtype, to, width, ahead)
 *     16 rows of 16 packed elements of neighbouring k from x[i], `ld` apart, as columns of `to`, whose rows are `width`
 *     apart; prefetches what lies `ahead` bytes from each row
 *   few_lanes, FEW_LANES
 *     a register of FEW_LANES sums, with few_lanes_zero(), few_lanes_store(to, x) and few_lanes_add(sum, scalar, b)
 *   few_quarter(x, ld, dtype, to)
 *     16 bytes of each of FEW_LANES rows from x, `ld` bytes apart, as registers that hold a packed element of every
 *     row; returns how many registers */
/* clang-format on */
#ifndef TESS_DEVICE_CPU_GEMM_FEW_ROWS_VEC_H
#define TESS_DEVICE_CPU_GEMM_FEW_ROWS_VEC_H

#include "device/cpu/gemm_finish_vec.h"
#include "device/cpu/product_vec.h"
#include "device/cpu/sizes.h"

enum {
    FEW_STRAIGHT_MOST = 16,
    FEW_DIRECT_MOST = 8,
    FEW_TRANSPOSED_MOST = 12,
    FEW_TURNED_MOST = 64,
    FEW_BLOCK = 1024, /* number of columns of C whose sums stay in L2 */
    /* Size of a panel of transposed A, which stays in L1 while rows of B are multiplied with it */
    FEW_PANEL_FLOATS = 8192,
    FEW_TURNED_ROWS = 8, /* largest number of rows of B that are multiplied together */
    /* Columns and packed k of a strip, for B stored (k,n) and for B stored (n,k). */
    FEW_STRIP = 128,
    FEW_STRIP_K = 8,
    FEW_COLUMNS = 32,
    FEW_COLUMNS_K = 128,
    FEW_PIECE = 4096, /* number of floats of a strip, in either case */
    FEW_AHEAD = 512,  /* number of bytes of a row of B stored (n,k) that are prefetched before they are multiplied */
};

typedef struct few_rows_plan {
    const tess_gemm *g;
    bool turned;                  /* whether lanes are rows of C */
    int64_t packed_k, k_room;     /* number of packed elements of k; the same rounded up to whole vectors */
    int64_t panels, panel_floats; /* panels of A: each (k_room, lanes); or one of (rows, k_room) if lanes are columns */
    int vectors;                  /* number of vectors in a panel */
    int64_t tile_rows;            /* rows of a tile, if lanes are columns */
    int64_t stretch;              /* number of packed k that are processed together */
    /* Number of columns of a strip, and of a block of strips that are processed together */
    int64_t strip, block;
    float *work; /* work space of each worker: panels, sums, a piece of B */
    int64_t work_floats, sum_floats;
} few_rows_plan;

typedef struct few_rows_share {
    const few_rows_plan *f;
    float *a, *sums, *piece;
} few_rows_share;

/* A strip of B: packed elements (packed k, columns), or the original bf16 in memory. The next strip is prefetched while
 * this one is read, one line at a time: a burst would occupy the few fill buffers that the current data needs. */
typedef struct few_strip {
    const void *at;
    int64_t ld;
    bool in_place;
    bool prefetches;
    int64_t ahead; /* distance in bytes from each position of this strip to the same position of the next one */
} few_strip;

static bool takes_few_rows(const tess_gemm *g)
{
    int64_t turned = g->ab_dtype == TESS_BF16 ? FEW_TURNED_BF16_MOST : FEW_TURNED_MOST;
    return g->m >= 1 && g->m <= (g->trans_b ? turned : FEW_STRAIGHT_MOST) && g->n > 0 && g->k > 0 && !g->trans_a &&
           !g->accumulate && g->leaf == 0;
}

/* ---- Tiles ---- */
/* Prefetches `bytes` bytes from `at` on into L2. */
static inline __attribute__((always_inline)) void few_prefetch(const char *at, const int64_t bytes)
{
    for (int64_t line = 0; line < bytes; line += 64)
        __builtin_prefetch(at + line, 0, 2);
}

/* The rows that are read after those of A in a tile, to prefetch: each row's first byte of the same k. at == NULL:
 * none. */
typedef struct few_next {
    const char *at;
    int64_t row, size; /* bytes between rows, and of a packed element */
} few_next;

/* Prefetches one line of the next rows at every second k, so that each line is fetched once: a burst would occupy the
 * few fill buffers that the current rows need. */
static inline __attribute__((always_inline)) void few_prefetch_next(const int mr, few_next next, int64_t l)
{
    int64_t row = l / 2 % FEW_TURNED_ROWS;
    if (l % 2 == 0 && row < mr)
        __builtin_prefetch(next.at + row * next.row + l / LANES * LANES * next.size, 0, 2);
}

/* Computes (mr, 16 nv) of c = [c +] a b over k packed elements. mr, nv, b.in_place, b.prefetches and whether next.at is
 * NULL are constants. */
static inline __attribute__((always_inline)) void few_tile(const int mr, const int nv, int64_t k, matrix a,
                                                           few_next next, few_strip b, float *c, int64_t ldc, bool add)
{
    vec sum[PRODUCT_ROWS][PRODUCT_VECTORS];
    GEMM_UNROLLED
    for (int i = 0; i < mr; i++)
        GEMM_UNROLLED
    for (int j = 0; j < nv; j++)
        sum[i][j] = add ? v_load(c + i * ldc + j * LANES, LANES) : v_set(0);
    const int64_t size = b.in_place ? sizeof(uint16_t) : sizeof(float), b_rows = b.in_place ? FEW_STEP : 1;
    for (int64_t l = 0; l < k; l++) {
        vec row[PRODUCT_VECTORS];
        if (next.at != NULL)
            few_prefetch_next(mr, next, l);
        for (int64_t r = l * b_rows; b.prefetches && r < (l + 1) * b_rows; r++)
            few_prefetch((const char *)b.at + r * b.ld * size + b.ahead, nv * LANES * size);
        GEMM_UNROLLED
        for (int j = 0; j < nv; j++)
            row[j] = b.in_place ? few_columns(b.at, l * FEW_STEP * b.ld + j * LANES, b.ld, FEW_STEP, LANES, TESS_BF16)
                                : v_load((const float *)b.at + l * b.ld + j * LANES, LANES);
        GEMM_UNROLLED
        for (int i = 0; i < mr; i++) {
            const vec factor = v_set(a.at[i * a.row + l * a.column]);
            GEMM_UNROLLED
            for (int j = 0; j < nv; j++)
                sum[i][j] = few_add(sum[i][j], factor, row[j]);
        }
    }
    GEMM_UNROLLED
    for (int i = 0; i < mr; i++)
        GEMM_UNROLLED
    for (int j = 0; j < nv; j++)
        v_store(c + i * ldc + j * LANES, sum[i][j], LANES);
}

/* Returns the number of rows of the tile that m rows of C use. Only a few heights are compiled; rows that do not exist
 * are 0. */
static int64_t straight_rows(int64_t m)
{
#if FEW_TILE_ROWS > 6
    return m == 5 ? 6 : m == 7 ? 8 : m > 8 ? 12 : m;
#else
    return m;
#endif
}

/* The product of a strip: c (rows, columns) = [c +] a b over k packed elements. */
typedef struct few_product {
    int64_t rows, columns, k;
    matrix a;
    few_strip b;
    float *c;
    int64_t ldc;
    bool add;
} few_product;

/* Computes columns from j on in tiles of nv vectors, up to the last whole tile. Returns the first column that
 * remains. */
static inline __attribute__((always_inline)) int64_t
few_whole_tiles(const int mr, const int nv, const bool in_place, const bool prefetches, const few_product *x, int64_t j)
{
    const int64_t size = in_place ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float);
    for (; j + nv * LANES <= x->columns; j += nv * LANES)
        few_tile(mr, nv, x->k, x->a, (few_next){.at = NULL},
                 (few_strip){(const char *)x->b.at + j * size, x->b.ld, in_place, prefetches, x->b.ahead}, x->c + j,
                 x->ldc, x->add);
    return j;
}

/* Computes all columns; x->columns must be a multiple of LANES. mr, nv, in_place and prefetches are constants. */
static inline __attribute__((always_inline)) void few_tiles(const int mr, const int nv, const bool in_place,
                                                            const bool prefetches, const few_product *x)
{
    int64_t j = few_whole_tiles(mr, nv, in_place, prefetches, x, 0);
    few_whole_tiles(mr, 1, in_place, prefetches, x, j);
}

static inline __attribute__((always_inline)) void few_strip_of_rows(const bool in_place, const bool prefetches,
                                                                    const few_product *x)
{
    switch (x->rows) {
    case 1:
        return few_tiles(1, FEW_SUMS < 8 ? 2 : 8, in_place, prefetches, x);
    case 2:
        return few_tiles(2, FEW_SUMS < 8 ? 2 : 8, in_place, prefetches, x);
    case 3:
        return few_tiles(3, FEW_SUMS < 8 ? 2 : 8, in_place, prefetches, x);
    case 4:
        return few_tiles(4, FEW_SUMS / 6, in_place, prefetches, x);
#if FEW_TILE_ROWS > 6
    case 6:
        return few_tiles(6, FEW_SUMS / 6, in_place, prefetches, x);
    case 8:
        return few_tiles(8, 2, in_place, prefetches, x);
    default:
        return few_tiles(12, 2, in_place, prefetches, x);
#else
    case 5:
        return few_tiles(5, 1, in_place, prefetches, x);
    default:
        return few_tiles(6, 1, in_place, prefetches, x);
#endif
    }
}

static void multiply_packed_strip(const few_product *x)
{
    few_strip_of_rows(false, false, x);
}

static void multiply_bf16_in_place(const few_product *x)
{
    few_strip_of_rows(true, true, x);
}

static void multiply_floats_in_place(const few_product *x)
{
    few_strip_of_rows(false, true, x);
}

/* c (n, 16 nv) = [c +] n rows of B * panel (k, 16 nv), `high` rows at a time. high and nv are constants. */
static inline __attribute__((always_inline)) void turned_tiles(const int high, const int nv, int64_t n, int64_t k,
                                                               matrix b, few_next next, const float *panel, float *c,
                                                               int64_t ldc, bool add)
{
    const few_strip a = {panel, nv * LANES, false, false, 0};
    if (n == high && next.at != NULL) {
        few_tile(high, nv, k, b, next, a, c, ldc, add);
        return;
    }
    if (n == high) {
        few_tile(high, nv, k, b, (few_next){.at = NULL}, a, c, ldc, add);
        return;
    }
    for (int64_t i = 0; i < n; i++, b.at += b.row)
        few_tile(1, nv, k, b, (few_next){.at = NULL}, a, c + i * ldc, ldc, add);
}

static int64_t turned_rows(int nv)
{
    return FEW_SUMS / nv < FEW_TURNED_ROWS ? FEW_SUMS / nv : FEW_TURNED_ROWS;
}

static void turned_tile(int nv, int64_t n, int64_t k, matrix b, few_next next, const float *panel, float *c,
                        int64_t ldc, bool add)
{
#if FEW_TURNED_VECTORS > 1
    if (nv == 4)
        return turned_tiles(6, 4, n, k, b, next, panel, c, ldc, add);
    if (nv == 2)
        return turned_tiles(8, 2, n, k, b, next, panel, c, ldc, add);
#endif
    (void)nv;
    turned_tiles(FEW_SUMS < 8 ? FEW_SUMS : 8, 1, n, k, b, next, panel, c, ldc, add);
}

/* ---- A ---- */
/* Transposes n <= 16 rows of `left` k from x[i] on to columns of `to`, whose rows are `width` apart. Lanes without a
 * row are 0. Prefetches `ahead` bytes from each position. */
static void transpose_rows(const void *x, int64_t i, int64_t ld, int64_t n, int64_t left, tess_dtype dtype, float *to,
                           int64_t width, int64_t ahead)
{
    for (int64_t p = 0; p < left; p += LANES * FEW_STEP, to += LANES * width) {
        if (n == LANES && left - p >= LANES * FEW_STEP) {
            few_transpose(x, i + p, ld, dtype, to, width, ahead);
            continue;
        }
        vec square[LANES];
        for (int64_t r = 0; r < LANES; r++)
            square[r] = r < n ? few_packed(x, i + r * ld + p, left - p, dtype) : v_set(0);
        turn_square(square);
        for (int64_t r = 0; r < LANES; r++)
            v_store(to + r * width, square[r], LANES);
    }
}

/* ---- Lanes are columns of C ---- */
/* Returns the strip of n_k k from p on and `columns` columns from j on; columns that do not exist are 0. */
static few_strip strip_of(const few_rows_share *s, int64_t p, int64_t n_k, int64_t j, int64_t columns)
{
    const tess_gemm *g = s->f->g;
    const int64_t width = s->f->strip, size = (int64_t)tess_dtype_size(g->ab_dtype);
    bool last = p + n_k == g->k;
    few_strip b = {s->piece, width, false, false, 0};
    if (g->trans_b) {
        int64_t ahead = last ? width * g->ldb - p : n_k;
        for (int64_t c = 0; c < width; c += LANES)
            transpose_rows(g->b, (j + c) * g->ldb + p, g->ldb, min64(LANES, columns - c), n_k, g->ab_dtype,
                           s->piece + c, width, ahead * size);
        return b;
    }
    if (columns == width && (g->ab_dtype == TESS_F32 || n_k % FEW_STEP == 0)) {
        int64_t ahead = last ? s->f->block - p * g->ldb : n_k * g->ldb;
        return (few_strip){(const char *)g->b + (p * g->ldb + j) * size, g->ldb, g->ab_dtype != TESS_F32, true,
                           ahead * size};
    }
    for (int64_t i = 0; i < n_k; i += FEW_STEP)
        for (int64_t c = 0; c < width; c += LANES)
            v_store(s->piece + i / FEW_STEP * width + c,
                    c < columns ? few_columns(g->b, (p + i) * g->ldb + j + c, g->ldb, n_k - i,
                                              min64(LANES, columns - c), g->ab_dtype)
                                : v_set(0),
                    LANES);
    return b;
}

/* Returns the distance between rows of sums. It is never a power of two, because such lines would evict each other from
 * L1. */
static int64_t straight_row(const few_rows_plan *f)
{
    return f->block + LANES;
}

/* Multiplies a strip with all rows of A, from packed k p on. c: the sums of the strip's first column. */
static void multiply_strip(const few_rows_share *s, const few_strip *b, int64_t p, int64_t k, float *c)
{
    const few_rows_plan *f = s->f;
    few_product x = {.columns = f->strip, .k = k, .b = *b, .ldc = straight_row(f), .add = p > 0};
    for (int64_t i = 0; i < f->g->m; i += f->tile_rows) {
        x.rows = straight_rows(min64(f->tile_rows, f->g->m - i));
        x.a = (matrix){s->a + i * f->k_room + p, f->k_room, 1};
        x.c = c + i * x.ldc;
        if (b->in_place)
            multiply_bf16_in_place(&x);
        else if (b->prefetches)
            multiply_floats_in_place(&x);
        else
            multiply_packed_strip(&x);
        x.b.ahead = 0;
    }
}

/* Computes (mr, 2 FEW_LANES) of c = a b over `bytes` of each row of B, a multiple of 16, while B is transposed. The
 * lines of one half of the rows are used up before the other half's: if rows are a power of two apart, L1 would not
 * hold all of them. After the end of a row the prefetch continues `next` bytes from its beginning. mr and dtype are
 * constants. */
static inline __attribute__((always_inline)) void direct_tile(const int mr, const tess_dtype dtype, int64_t bytes,
                                                              matrix a, const char *b, int64_t ld, int64_t next,
                                                              float *c, int64_t ldc)
{
    few_lanes sum[FEW_DIRECT_MOST][2];
    GEMM_UNROLLED
    for (int i = 0; i < mr; i++)
        sum[i][0] = sum[i][1] = few_lanes_zero();
    for (int64_t line = 0; line < bytes; line += 64) {
        int64_t ahead = line + FEW_AHEAD < bytes ? line + FEW_AHEAD : line + FEW_AHEAD - bytes + next, n = 0;
        const int64_t end = min64(64, bytes - line);
        GEMM_UNROLLED
        for (int j = 0; j < 2; j++) {
            const char *rows = b + j * FEW_LANES * ld;
            for (int r = 0; r < FEW_LANES; r++)
                __builtin_prefetch(rows + r * ld + ahead, 0, 2);
            n = 0;
            for (int64_t at = 0; at < end; at += 16) {
                few_lanes part[8];
                const int n_parts = few_quarter(rows + line + at, ld, dtype, part);
                GEMM_UNROLLED
                for (int l = 0; l < n_parts; l++)
                    GEMM_UNROLLED
                for (int i = 0; i < mr; i++)
                    sum[i][j] = few_lanes_add(sum[i][j], a.at[i * a.row + n + l], part[l]);
                n += n_parts;
            }
        }
        a.at += n;
    }
    GEMM_UNROLLED
    for (int i = 0; i < mr; i++) {
        few_lanes_store(c + i * ldc, sum[i][0]);
        few_lanes_store(c + i * ldc + FEW_LANES, sum[i][1]);
    }
}

static inline __attribute__((always_inline)) void direct_rows(int64_t m, const tess_dtype dtype, int64_t bytes,
                                                              matrix a, const char *b, int64_t ld, int64_t next,
                                                              float *c, int64_t ldc)
{
    switch (m) {
    case 1:
        return direct_tile(1, dtype, bytes, a, b, ld, next, c, ldc);
    case 2:
        return direct_tile(2, dtype, bytes, a, b, ld, next, c, ldc);
    case 3:
        return direct_tile(3, dtype, bytes, a, b, ld, next, c, ldc);
    case 4:
        return direct_tile(4, dtype, bytes, a, b, ld, next, c, ldc);
    case 5:
        return direct_tile(5, dtype, bytes, a, b, ld, next, c, ldc);
    case 6:
        return direct_tile(6, dtype, bytes, a, b, ld, next, c, ldc);
    case 7:
        return direct_tile(7, dtype, bytes, a, b, ld, next, c, ldc);
    default:
        return direct_tile(8, dtype, bytes, a, b, ld, next, c, ldc);
    }
}

/* Multiplies whole columns [j, j + strip) for the k that fill 16 bytes. Returns the number of packed k processed. */
static int64_t multiply_directly(const few_rows_share *s, int64_t j)
{
    const few_rows_plan *f = s->f;
    const tess_gemm *g = f->g;
    const matrix a = {s->a, f->k_room, 1};
    int64_t size = (int64_t)tess_dtype_size(g->ab_dtype), bytes = g->k * size / 16 * 16, ld = g->ldb * size;
    for (int64_t c = 0; c < f->strip; c += 2 * FEW_LANES) {
        const char *b = (const char *)g->b + (j + c) * ld;
        if (g->ab_dtype == TESS_F32)
            direct_rows(g->m, TESS_F32, bytes, a, b, ld, 2 * FEW_LANES * ld, s->sums + c, straight_row(f));
        else
            direct_rows(g->m, TESS_BF16, bytes, a, b, ld, 2 * FEW_LANES * ld, s->sums + c, straight_row(f));
    }
    return bytes / size / FEW_STEP;
}

static void multiply_straight(const few_rows_share *s, int64_t begin, int64_t end)
{
    const few_rows_plan *f = s->f;
    const tess_gemm *g = f->g;
    for (int64_t i = 0; i < f->panel_floats / f->k_room; i++)
        for (int64_t p = 0; p < f->k_room; p += LANES)
            v_store(s->a + i * f->k_room + p,
                    i < g->m ? few_packed(g->a, i * g->lda + p * FEW_STEP, g->k - p * FEW_STEP, g->ab_dtype) : v_set(0),
                    LANES);
    for (int64_t block = begin; block < end; block += f->block) {
        int64_t columns = min64(f->block, end - block), p = 0;
        if (g->trans_b && g->m <= FEW_DIRECT_MOST && columns == f->strip)
            p = multiply_directly(s, block);
        for (; p < f->packed_k; p += f->stretch) {
            int64_t k = min64(f->stretch, f->packed_k - p), n_k = min64(k * FEW_STEP, g->k - p * FEW_STEP);
            for (int64_t j = 0; j < columns; j += f->strip) {
                few_strip b = strip_of(s, p * FEW_STEP, n_k, block + j, min64(f->strip, columns - j));
                multiply_strip(s, &b, p, k, s->sums + j);
            }
        }
        finish(g, 0, block, g->m, columns, s->sums, straight_row(f));
    }
}

/* ---- Lanes are rows of C ---- */
/* Returns k packed elements from p on of n rows of B from row j on; floats are used in place. */
static matrix rows_of_b(const few_rows_share *s, int64_t j, int64_t n, int64_t p, int64_t k)
{
    const tess_gemm *g = s->f->g;
    int64_t first = p * FEW_STEP, n_k = min64(k * FEW_STEP, g->k - first);
    if (g->ab_dtype == TESS_F32)
        return (matrix){(const float *)g->b + j * g->ldb + p, g->ldb, 1};
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < k; i += LANES)
            v_store(s->piece + r * s->f->stretch + i,
                    few_packed(g->b, (j + r) * g->ldb + first + i * FEW_STEP, n_k - i * FEW_STEP, g->ab_dtype), LANES);
    return (matrix){s->piece, s->f->stretch, 1};
}

/* Returns n rows of B from row j on, from packed k p on, to prefetch; none if not all exist. */
static few_next rows_after(const few_rows_share *s, int64_t j, int64_t n, int64_t p)
{
    const tess_gemm *g = s->f->g;
    int64_t size = (int64_t)tess_dtype_size(g->ab_dtype);
    if (j + n > g->n)
        return (few_next){.at = NULL};
    return (few_next){(const char *)g->b + (j * g->ldb + p * FEW_STEP) * size, g->ldb * size, FEW_STEP * size};
}

/* Writes columns [j, j + n) of C from their sums (n, lanes). */
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
        transpose_rows(g->a, i * g->lda, g->lda, min64(LANES, g->m - i), g->k, g->ab_dtype,
                       s->a + i / width * f->panel_floats + i % width, width, 0);
    for (int64_t block = begin; block < end; block += f->block) {
        int64_t columns = min64(f->block, end - block);
        for (int64_t p = 0; p < f->packed_k; p += f->stretch) {
            int64_t k = min64(f->stretch, f->packed_k - p);
            for (int64_t j = 0; j < columns; j += most) {
                int64_t n = min64(most, columns - j);
                matrix b = rows_of_b(s, block + j, n, p, k);
                few_next next = rows_after(s, block + j + n, n, p);
                for (int64_t t = 0; t < f->panels; t++)
                    turned_tile(f->vectors, n, k, b, t == 0 ? next : (few_next){.at = NULL},
                                s->a + t * f->panel_floats + p * width, s->sums + j * lanes + t * width, lanes, p > 0);
            }
        }
        finish_turned(s, block, columns, lanes);
    }
}

/* ---- The product ---- */
/* Returns the number of columns in a piece, the unit that threads share. */
static int64_t few_rows_piece(const few_rows_plan *f)
{
    return f->turned ? LANES : f->strip;
}

static void multiply_few_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const few_rows_plan *f = context;
    int64_t piece = few_rows_piece(f), last = min64(end * piece, f->g->n);
    few_rows_share s = {.f = f, .a = f->work + worker * f->work_floats};
    s.sums = s.a + f->panels * f->panel_floats;
    s.piece = s.sums + f->sum_floats;
    (f->turned ? multiply_turned : multiply_straight)(&s, begin * piece, last);
}

static void plan_straight(few_rows_plan *f)
{
    const tess_gemm *g = f->g;
    f->panels = 1;
    f->strip = g->trans_b ? FEW_COLUMNS : FEW_STRIP;
    f->stretch = g->trans_b ? FEW_COLUMNS_K : FEW_STRIP_K;
    f->block = g->trans_b ? f->strip : min64(FEW_BLOCK, divide_up(g->n, f->strip) * f->strip);
    f->tile_rows = straight_rows(divide_up(g->m, divide_up(g->m, FEW_TILE_ROWS)));
    int64_t rows = divide_up(g->m, f->tile_rows) * f->tile_rows;
    f->panel_floats = rows * f->k_room;
    f->sum_floats = rows * straight_row(f);
    f->work_floats = FEW_PIECE;
}

static void plan_turned(few_rows_plan *f)
{
    const tess_gemm *g = f->g;
    f->vectors = 1;
    while (f->vectors < FEW_TURNED_VECTORS && f->vectors * LANES < g->m)
        f->vectors *= 2;
    f->panels = divide_up(g->m, f->vectors * LANES);
    f->panel_floats = f->k_room * f->vectors * LANES;
    int64_t lanes = f->panels * f->vectors * LANES;
    f->block = min64(FEW_BLOCK, divide_up(g->n, LANES) * LANES);
    f->stretch = min64(FEW_PANEL_FLOATS / lanes, f->k_room);
    f->sum_floats = f->block * lanes;
    f->work_floats = g->ab_dtype == TESS_F32 ? 0 : FEW_TURNED_ROWS * f->stretch;
}

/* Plans the sizes of a worker's memory. */
static void plan_few_rows(few_rows_plan *f)
{
    const tess_gemm *g = f->g;
    f->turned = g->trans_b && g->m > FEW_TRANSPOSED_MOST;
    f->packed_k = divide_up(g->k, FEW_STEP);
    f->k_room = divide_up(f->packed_k, LANES) * LANES;
    (f->turned ? plan_turned : plan_straight)(f);
    f->work_floats += f->panels * f->panel_floats + f->sum_floats;
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
    int64_t pieces = divide_up(g->n, few_rows_piece(&f));
    tess_threads_run(s->threads, multiply_few_rows, &f, pieces, parallel ? 1 : pieces);
    return TESS_OK;
}

static tess_status gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    return takes_few_rows(&f->g) ? tess_gemm_fused_by_rows(s, f) : tess_gemm_fused_vector(s, f, &engine);
}

/* ---- Parts of groups ---- */
enum { MOST_PART_ROWS = 1 << 20 };

static bool takes_part(const tess_gemm_fused *f)
{
    return f->g.leaf == 0 && tess_gemm_vector_takes(f);
}

static bool takes_few_rows_of_part(const tess_gemm_fused *f)
{
    return takes_few_rows(&f->g) && f->n_terms == 0;
}

static size_t part_bytes(const tess_gemm_fused *f)
{
    few_rows_plan p = {.g = &f->g};
    if (!takes_few_rows_of_part(f))
        return tess_gemm_vector_part_bytes(f, &engine);
    plan_few_rows(&p);
    return (size_t)p.work_floats * sizeof(float);
}

static void multiply_part(const tess_gemm_fused *f, void *work)
{
    tess_gemm_fused part = *f;
    few_rows_plan p = {.g = &part.g, .work = work};
    if (!takes_few_rows_of_part(f)) {
        tess_gemm_vector_part(f, &engine, work);
        return;
    }
    if (f->then == TESS_THEN_ACT_BACKWARD)
        part.g.c = f->y;
    plan_few_rows(&p);
    multiply_few_rows(&p, 0, divide_up(f->g.n, few_rows_piece(&p)), 0);
    if (f->then != TESS_THEN_NOTHING)
        engine.follow(f, 0, 0, f->g.m, f->g.n);
}

static tess_status gemm_grouped(tess_stream *s, const tess_gemm_grouped *x)
{
    const gemm_parts parts = {.tile_rows = engine.tile_rows,
                              .tile_columns = engine.tile_columns,
                              .most_rows = MOST_PART_ROWS,
                              .sum_bytes = GEMM_SUM_BYTES,
                              .few_rows_bytes = FEW_TURNED_MOST * sizeof(float) / FEW_STEP,
                              .parallel_flops = engine.parallel_flops,
                              .takes = takes_part,
                              .bytes = part_bytes,
                              .multiply = multiply_part};
    return tess_gemm_in_parts(s, x, &parts);
}

#endif
