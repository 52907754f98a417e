/* bf16 products on AMX tiles, in three files: packing (gemm_pack_amx.c), one tile of C (gemm_tile_amx.c), and the walk
 * over C (gemm_bf16_amx.c). Products of few rows (gemm_few_rows_amx.c) share the packing.
 *
 * A tile of C is 32 x 32 sums in four tile registers. K is processed in steps of 32. TDPBF16PS sums even and odd
 * elements of a step separately, adds both, and adds the result to the sum; denormals count as zero. If K consists of
 * whole steps, exchanging the factors does not change the product. Floor: 1024 flops per cycle and core.
 *
 * Packed panels: for each step of k, two tiles of 1 KB. A: 16 rows of 32 k. B: 16 pairs of k, each 16 columns of (even,
 * odd). Rows, columns and k beyond the matrix are zero. */
#ifndef TESS_DEVICE_CPU_GEMM_AMX_IMPL_H
#define TESS_DEVICE_CPU_GEMM_AMX_IMPL_H

#include "device/cpu/gemm_impl.h"
#include "device/cpu/tiles_amx.h"

enum {
    GEMM_TILE = 16,
    GEMM_STEP = 32,
    GEMM_SPAN = 2 * GEMM_TILE, /* rows and columns of a tile of C */
    GEMM_TILE_ELEMENTS = GEMM_TILE * GEMM_STEP,
    GEMM_STEP_ELEMENTS = 2 * GEMM_TILE_ELEMENTS,
    GEMM_SUMS = GEMM_SPAN * GEMM_SPAN,
    GEMM_FEW_ROWS = 32,
};

/* The positions that a later call will read and write, as distances in elements from this call's positions. 0: not
 * known. */
typedef struct gemm_pack_ahead {
    int64_t from, to;
} gemm_pack_ahead;

/* Pack GEMM_SPAN rows of op(A) from row i on (`rows` of them exist), k elements from k_begin on; and the same for
 * columns of op(B) from column j on. */
void tess_gemm_pack_a_amx(const tess_gemm *g, int64_t i, int64_t rows, int64_t k_begin, int64_t k, uint16_t *panel,
                          gemm_pack_ahead ahead);
void tess_gemm_pack_b_amx(const tess_gemm *g, int64_t j, int64_t columns, int64_t k_begin, int64_t k, uint16_t *panel,
                          gemm_pack_ahead ahead);

/* The form in which sums are written to C. GEMM_END_FUSED: see gemm_fused_row_amx.c. */
typedef enum gemm_end { GEMM_END_BF16, GEMM_END_F32, GEMM_END_FUSED } gemm_end;

/* Work that a core does between the products, a little in each step, so that the tiles need not wait for it. It
 * converts the sums of the previous tile to C, and prefetches lines that are needed next. */
typedef struct gemm_chores {
    const float *sums; /* (32, 32), contiguous */
    const float *bias; /* (32) bias; NULL: none */
    char *c;
    int64_t c_stride; /* bytes between rows */
    int64_t n_rows;   /* number of rows that are still to be written */
    uint32_t columns; /* mask of the columns that exist */
    gemm_end end;
    bool streamed; /* whether C bypasses the caches, because it is larger than they are; only for whole aligned lines */
    const tess_gemm_fused *fused;
    int64_t at; /* offset of the row's first element in the matrices of `fused` */

    const char *ahead;         /* the part of B that is needed next */
    int64_t n_ahead;           /* number of lines still to prefetch */
    const char *rows_ahead[2]; /* one line of each row is prefetched */
    int64_t n_rows_ahead, rows_ahead_stride;
} gemm_chores;

/* Writes a row of 32 sums (with bias) to the matrices of `fused`. */
void tess_gemm_fused_row_amx(const gemm_chores *chores, __m512 low, __m512 high);

/* Computes to = from + A panel * B panel over `steps` steps of k. If there are at most 16 `rows`, computes only the
 * first 16. The chores are done meanwhile; when the call returns, all their rows are written, so `to` may be where
 * their sums were. */
void tess_gemm_tile_amx(const uint16_t *a, const uint16_t *b, int64_t steps, int64_t rows, gemm_sums from, gemm_sums to,
                        gemm_chores *chores);
/* Writes the rows that remain. */
void tess_gemm_finish_amx(gemm_chores *chores);

static inline __m512 tess_gemm_widen(__m256i bf16)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

/* Returns the mask of the columns that exist among 32. */
static inline uint32_t tess_gemm_columns(int64_t columns)
{
    return columns >= GEMM_SPAN ? UINT32_MAX : (UINT32_C(1) << columns) - 1;
}

/* Load the part of C's tile at (i, j), and of a bias from column j on, that exists. The rest is zero. */
void tess_gemm_load_sums_amx(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, float *sums);
void tess_gemm_load_bias_amx(const tess_gemm *g, int64_t j, int64_t columns, float *bias);
/* Writes sums (m, 32) plus bias to the columns of C from j on, or to the matrices of f unless it is NULL. */
void tess_gemm_store_rows_amx(const tess_gemm *g, const tess_gemm_fused *f, int64_t j, int64_t columns,
                              const float *sums);

/* Products with m <= GEMM_FEW_ROWS and B stored (n,k). */
tess_status tess_gemm_few_rows_amx(tess_stream *s, const tess_gemm *g);
/* The same with what follows the product, on this thread, with work space of the bytes that the first returns. */
size_t tess_gemm_few_rows_bytes_amx(const tess_gemm *g);
void tess_gemm_few_rows_part_amx(const tess_gemm_fused *f, void *work);
/* Products with m = 1 and B stored (k,n), without accumulation. */
tess_status tess_gemm_one_row_amx(tess_stream *s, const tess_gemm *g);

#endif
