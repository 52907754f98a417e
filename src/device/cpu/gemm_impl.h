/* The matrix multiplication of the tables that compute with vectors (gemm_vector.c) and what an instruction set adds to
 * it: an engine, that is packing, the product of two packed panels, and the end of a tile of C. */
#ifndef TESS_DEVICE_CPU_GEMM_IMPL_H
#define TESS_DEVICE_CPU_GEMM_IMPL_H

#include "device/gemm_check.h"
#include "device/stream_impl.h"

/* Before a loop over the rows of a tile: unrolled, its sums live in registers. Not where each access is checked, since
 * compilers would take minutes. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GEMM_UNROLLED
#endif
#endif
#if defined(GEMM_UNROLLED)
#elif defined(__clang__)
#define GEMM_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define GEMM_UNROLLED _Pragma("GCC unroll 16")
#endif

/* A tile's product prefetches one line of memory every GEMM_AHEAD_STEP packed k: evenly, since a burst would keep the
 * few fill buffers from the panels that are needed now. */
enum { GEMM_AHEAD_STEP = 8 };

/* The place in memory of a tile of sums. */
typedef struct gemm_sums {
    float *at;      /* (rows, columns); NULL: zero */
    int64_t stride; /* elements between rows */
} gemm_sums;

/* c (rows, columns) = [c +] A panel * B panel, then the n_before sums of earlier leaves are added in their order. */
typedef struct gemm_tile {
    const void *a, *b; /* packed panels */
    int64_t k;         /* packed elements */
    float *c;
    int64_t ldc;
    int64_t rows, columns;
    bool add;
    int n_before;
    const gemm_sums *before;
    const void *const *ahead; /* one address for each begun GEMM_AHEAD_STEP of k */
} gemm_tile;

/* A panel of A is (packed k, tile_rows), of B (packed k, tile_columns), of 4 bytes: a float, or k_step bf16 of
 * neighbouring k. Rows, columns and k beyond the matrix are zero. */
typedef struct gemm_engine {
    int64_t tile_rows, tile_columns;
    int64_t k_step;  /* k in a packed element */
    int64_t k_block; /* packed k between two visits of a tile of C */
    /* Packed rows of A that rest in the second-level cache, where a panel of B in the first meets them. If 0, a panel
     * of A rests in the first-level cache, and packed B in the second. */
    int64_t a_block_rows;
    size_t b_block_bytes;  /* packed B that all of A meets before the next is packed */
    double parallel_flops; /* below this a product is not worth waking threads for */

    /* `rows` rows of op(A) from row i (columns of op(B) from column j), k elements from k_begin. */
    void (*pack_a)(const tess_gemm *g, int64_t i, int64_t rows, int64_t k_begin, int64_t k, void *panel);
    void (*pack_b)(const tess_gemm *g, int64_t j, int64_t columns, int64_t k_begin, int64_t k, void *panel);
    void (*multiply)(const gemm_tile *tile);
    /* A tile of sums (rows `ld` apart; for float C it may be C itself) plus bias to C. */
    void (*finish)(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sum,
                   int64_t ld);
} gemm_engine;

tess_status tess_gemm_vector(tess_stream *s, const tess_gemm *g, const gemm_engine *engine);
/* Products with leaves in one pass, others by the rows of the stream's table. */
tess_status tess_gemm_fused_vector(tess_stream *s, const tess_gemm_fused *f, const gemm_engine *engine);

/* The float32 products of the tables above. */
tess_status tess_gemm_avx512(tess_stream *s, const tess_gemm *g);
tess_status tess_gemm_fused_avx512(tess_stream *s, const tess_gemm_fused *f);

#endif
