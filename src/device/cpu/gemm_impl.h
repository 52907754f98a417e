/* The blocked matrix multiplication that all CPU tables share (gemm_blocked.c) and what an instruction set adds to it:
 * an engine, that is packing, the product of two packed panels, and the end of a tile of C. */
#ifndef TESS_DEVICE_CPU_GEMM_IMPL_H
#define TESS_DEVICE_CPU_GEMM_IMPL_H

#include "device/gemm_check.h"
#include "device/stream.h"

/* A panel of A is tile_rows rows (of B: tile_columns columns) by some k, laid out as the engine likes but so that k's
 * multiples of k_step follow each other; rows, columns and k beyond the matrix are zero. */
typedef struct gemm_engine {
    int64_t tile_rows, tile_columns;
    int64_t k_step;        /* k of a panel is padded to a multiple of this */
    int64_t k_block;       /* k between two visits of a tile of C: a panel of B stays in L1, a block of A in L2 */
    int64_t block_rows;    /* rows of A that are packed together */
    size_t packed_size;    /* bytes of a packed element */
    double parallel_flops; /* below this a product is not worth waking threads for */

    /* `rows` rows of op(A) from row i (columns of op(B) from column j), k elements from k_begin. */
    void (*pack_a)(const tess_gemm *g, int64_t i, int64_t rows, int64_t k_begin, int64_t k, void *panel);
    void (*pack_b)(const tess_gemm *g, int64_t j, int64_t columns, int64_t k_begin, int64_t k, void *panel);

    /* sum (tile_rows, tile_columns) [+]= A panel * B panel over k (a multiple of k_step), the first `rows`, `columns`
     * of it. */
    void (*multiply)(const void *a, const void *b, int64_t k, int64_t rows, int64_t columns, bool add, float *sum);

    /* C to a tile of sums; a tile of sums plus bias to C. */
    void (*load)(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, float *sum);
    void (*store)(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sum);

    /* Around a worker's share; may be NULL. */
    void (*begin)(void);
    void (*end)(void);
} gemm_engine;

tess_status tess_gemm_blocked(tess_stream *s, const tess_gemm *g, const gemm_engine *engine);

/* What the AMX table takes over from AVX-512: float32 products, and the ends of its tiles of 32 x 32 sums. */
tess_status tess_gemm_avx512(tess_stream *s, const tess_gemm *g);
void tess_gemm_load_avx512(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, float *sum);
void tess_gemm_store_avx512(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sum);

#endif
