/* The matrix multiplication of the tables that compute with vectors (gemm_vector.c), and what an instruction set adds
 * to it: an engine, which packs, multiplies two packed panels, and writes a tile of C. */
#ifndef TESS_DEVICE_CPU_GEMM_IMPL_H
#define TESS_DEVICE_CPU_GEMM_IMPL_H

#include "device/gemm_check.h"
#include "device/stream_impl.h"

/* Put it before a loop over the rows of a tile: if the loop is unrolled, its sums stay in registers. Empty under the
 * address sanitizer, because compilers would take minutes. */
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

/* The product of a tile prefetches one line of memory every GEMM_AHEAD_STEP packed k. It does so evenly, because a
 * burst would occupy the few fill buffers that the current panels need. */
enum { GEMM_AHEAD_STEP = 8 };

enum { GEMM_SUM_BYTES = 8 << 20 }; /* most work space for sums that cannot rest in C, in each part */

/* A tile of sums in memory. */
typedef struct gemm_sums {
    float *at;      /* (rows, columns) sums; NULL: zero */
    int64_t stride; /* elements between rows */
} gemm_sums;

/* c (rows, columns) = [c +] A panel * B panel. Then the n_before sums of earlier leaves are added in their order. */
typedef struct gemm_tile {
    const void *a, *b; /* packed panels */
    int64_t k;         /* number of packed elements */
    float *c;
    int64_t ldc;
    int64_t rows, columns;
    bool add;
    int n_before;
    const gemm_sums *before;
    const void *const *ahead; /* one address for each started GEMM_AHEAD_STEP of k */
    /* Prefetched into the second-level cache: two lines, next_pair bytes apart, every gemm_engine.next_every k, from
     * `next` on, next_step bytes apart */
    const char *next;
    int64_t next_pair, next_step;
} gemm_tile;

/* Computes the activation, or its gradients, that follows these rows and columns of a product, which are in C or, in
 * the backward pass, in y (glu_vec.c). */
typedef void gemm_follow(const tess_gemm_fused *f, int64_t i, int64_t j, int64_t rows, int64_t columns);
gemm_follow tess_avx2_follow, tess_avx512_follow;

/* The functions and sizes of an instruction set. A panel of A is (packed k, tile_rows), a panel of B is (packed k,
 * tile_columns). Their elements have 4 bytes: a float, or k_step bf16 of neighbouring k. k beyond the matrix are zero;
 * rows and columns beyond it are ignored. */
typedef struct gemm_engine {
    int64_t tile_rows, tile_columns;
    int64_t k_step;  /* number of k in a packed element */
    int64_t k_block; /* number of packed k between two visits of a tile of C */
    /* Packed rows of A that rest in the second-level cache, where a panel of B in the first meets them. If 0, a panel
     * of A rests in the first-level cache, and packed B in the second. */
    int64_t a_block_rows;
    size_t b_block_bytes;  /* size of packed B that is multiplied with all of A at a time */
    int64_t next_every;    /* k between two prefetches of gemm_tile.next */
    double parallel_flops; /* smaller products are not worth waking threads for */

    /* Packs `rows` rows of op(A) from row i on (columns of op(B) from column j on), k elements from k_begin on. */
    void (*pack_a)(const tess_gemm *g, int64_t i, int64_t rows, int64_t k_begin, int64_t k, void *panel);
    void (*pack_b)(const tess_gemm *g, int64_t j, int64_t columns, int64_t k_begin, int64_t k, void *panel);
    void (*multiply)(const gemm_tile *tile);
    /* Writes a tile of sums (rows `ld` apart; for float C it may be C itself) plus bias to C. */
    void (*finish)(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sum,
                   int64_t ld);
    gemm_follow *follow;
} gemm_engine;

/* How a table computes a product, or a part of one, on one thread. */
typedef struct gemm_parts {
    int64_t tile_rows, tile_columns; /* parts are cut between tiles */
    int64_t most_rows;               /* a part has at most this many rows */
    size_t sum_bytes;                /* the most work space for the sums of a part */
    size_t few_rows_bytes;           /* the most work space of a part with few rows, for each k */
    double parallel_flops;           /* less is not worth waking threads for */
    bool (*takes)(const tess_gemm_fused *f);
    size_t (*bytes)(const tess_gemm_fused *part); /* bytes of work space */
    void (*multiply)(const tess_gemm_fused *part, void *work);
} gemm_parts;

/* Computes groups of products. Each thread computes an equal share of their parts (cpu/gemm_parts.c). */
tess_status tess_gemm_in_parts(tess_stream *s, const tess_gemm_grouped *x, const gemm_parts *parts);

tess_status tess_gemm_vector(tess_stream *s, const tess_gemm *g, const gemm_engine *engine);
/* Computes the products that tess_gemm_vector_takes in one pass, and others with the kernels of the stream's table. */
tess_status tess_gemm_fused_vector(tess_stream *s, const tess_gemm_fused *f, const gemm_engine *engine);
/* Whether all terms have as many k as the first, and gradients of an activation are given a y. */
bool tess_gemm_vector_takes(const tess_gemm_fused *f);
/* Computes a product without leaves on this thread, with work space of the bytes that the first returns. */
size_t tess_gemm_vector_part_bytes(const tess_gemm_fused *f, const gemm_engine *engine);
void tess_gemm_vector_part(const tess_gemm_fused *f, const gemm_engine *engine, void *work);

/* The float32 products of the AVX-512 table, for the tables above it. */
tess_status tess_gemm_avx512(tess_stream *s, const tess_gemm *g);
tess_status tess_gemm_fused_avx512(tess_stream *s, const tess_gemm_fused *f);
tess_status tess_gemm_grouped_avx512(tess_stream *s, const tess_gemm_grouped *x);

#endif
