/* Products with the same bits as the definition: each element is a chain of float32 FMAs, k ascending, for both element
 * types. A block of threads computes a tile of C, and each thread computes OWN x OWN elements. A stretch of k of both
 * operands is in shared memory.
 *
 * Each leaf is computed by its own blocks, which store their sums in scratch memory. A second kernel adds the leaves as
 * a tree. So a product of few tiles and many leaves still uses the whole GPU. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"
#include "device/elementwise.h"
#include "device/gemm_check.h"

enum {
    TILE = 64,
    SIDE = 16, /* threads along a tile's edge */
    THREADS = SIDE * SIDE,
    OWN = TILE / SIDE,
    STRETCH = 16,
    LEVELS = 31
};

/* The arguments of a launch: C (m,n) = bias + the terms, added one after the other. */
typedef struct product {
    tess_gemm_term term[1 + TESS_GEMM_TERMS];
    int n_terms;
    bool trans_a, trans_b, accumulate;
    int64_t m, n, ldc, leaf, n_leaves, tiles_m, tiles_n;
    const void *bias;
    void *c;
} product;

typedef struct product_tile {
    float a[STRETCH][TILE], b[STRETCH][TILE]; /* (k, row of A) and (k, column of B) */
} product_tile;

/* Loads to[k][i] = x at (first + i, k) for k in [begin, end). It is 0 where x has no such element, after row `rows` or
 * column `end`. along_k: k runs along the rows of x. */
template <typename E>
static __device__ inline void load_stretch(float to[STRETCH][TILE], const E *x, int64_t ld, bool along_k, int64_t first,
                                           int64_t rows, int64_t begin, int64_t end)
{
    for (int e = (int)threadIdx.x; e < STRETCH * TILE; e += THREADS) {
        int k = along_k ? e % STRETCH : e / TILE, i = along_k ? e / STRETCH : e % TILE;
        const bool exists = first + i < rows && begin + k < end;
        to[k][i] = exists ? cuda_load(x + (along_k ? (first + i) * ld + begin + k : (begin + k) * ld + first + i)) : 0;
    }
}

static __device__ inline void multiply_stretch(const product_tile *tile, int64_t length, float sum[OWN][OWN])
{
    int row = (int)threadIdx.x / SIDE * OWN, column = (int)threadIdx.x % SIDE * OWN;
    for (int k = 0; k < length; k++) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < OWN; i++) {
            TESS_CUDA_UNROLL
            for (int j = 0; j < OWN; j++)
                sum[i][j] = fmaf(tile->a[k][row + i], tile->b[k][column + j], sum[i][j]);
        }
    }
}

/* Calls f(i, j, row, column) for each of this thread's elements of C. */
template <typename F> static __device__ inline void each_own(const product &p, int64_t row0, int64_t column0, F f)
{
    int64_t row = row0 + threadIdx.x / SIDE * OWN, column = column0 + threadIdx.x % SIDE * OWN;
    TESS_CUDA_UNROLL
    for (int i = 0; i < OWN; i++) {
        TESS_CUDA_UNROLL
        for (int j = 0; j < OWN; j++)
            if (row + i < p.m && column + j < p.n)
                f(i, j, row + i, column + j);
    }
}

template <typename E> static __device__ inline float with_bias(const void *bias, int64_t column, float sum)
{
    return bias != NULL ? sum + cuda_load((const E *)bias + column) : sum;
}

template <typename E, typename C> static __global__ void __launch_bounds__(THREADS) multiply_kernel(product p)
{
    __shared__ product_tile tile;
    int64_t block = blockIdx.x, column0 = block % p.tiles_n * TILE, row0 = block / p.tiles_n % p.tiles_m * TILE;
    int64_t leaf = block / p.tiles_n / p.tiles_m;
    C *c = (C *)p.c + leaf * p.m * p.ldc;
    float sum[OWN][OWN] = {};
    if (p.accumulate)
        each_own(p, row0, column0,
                 [&](int i, int j, int64_t row, int64_t column) { sum[i][j] = cuda_load(c + row * p.ldc + column); });
    for (int t = 0; t < p.n_terms; t++) {
        const tess_gemm_term &term = p.term[t];
        int64_t begin = leaf * p.leaf, end = p.leaf > 0 && term.k - begin > p.leaf ? begin + p.leaf : term.k;
        for (int64_t k = begin; k < end; k += STRETCH) {
            load_stretch(tile.a, (const E *)term.a, term.lda, !p.trans_a, row0, p.m, k, end);
            load_stretch(tile.b, (const E *)term.b, term.ldb, p.trans_b, column0, p.n, k, end);
            __syncthreads();
            multiply_stretch(&tile, cuda_least(end - k, STRETCH), sum);
            __syncthreads();
        }
    }
    each_own(p, row0, column0, [&](int i, int j, int64_t row, int64_t column) {
        cuda_store(c + row * p.ldc + column, with_bias<E>(p.bias, column, sum[i][j]));
    });
}

/* Computes C = bias + the tree of the sums (n_leaves, m, n). */
template <typename E, typename C> static __global__ void add_leaves_kernel(product p, const float *sums)
{
    TESS_CUDA_EACH(i, p.m * p.n)
    {
        float sum = cuda_tree<LEVELS>(p.n_leaves, [&](int64_t leaf) { return sums[leaf * p.m * p.n + i]; });
        cuda_division row = cuda_divide(i, p.n);
        cuda_store((C *)p.c + row.quotient * p.ldc + row.rest, with_bias<E>(p.bias, row.rest, sum));
    }
}

template <typename E, typename C> static tess_status launch(tess_stream *s, product p)
{
    p.tiles_m = (p.m + TILE - 1) / TILE;
    p.tiles_n = (p.n + TILE - 1) / TILE;
    int64_t blocks = p.tiles_m * p.tiles_n * p.n_leaves; /* n_leaves or more, fewer than 2^LEVELS */
    TESS_CHECK(blocks <= INT32_MAX, TESS_E_UNSUPPORTED, "gemm: C of %lld x %lld is more than a GPU takes in a call",
               (long long)p.m, (long long)p.n);
    return TESS_CUDA_LAUNCH((multiply_kernel<E, C>), blocks, THREADS, 0, s, p);
}

/* Returns the part of a product that computes a block of C. */
template <typename E, typename C>
static product block_of(const product *whole, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    product p = *whole;
    p.m = cuda_least(whole->m - row, rows);
    p.n = cuda_least(whole->n - column, columns);
    p.c = (C *)p.c + row * p.ldc + column;
    p.bias = p.bias != NULL ? (const E *)p.bias + column : NULL;
    for (int t = 0; t < p.n_terms; t++) {
        tess_gemm_term *term = &p.term[t];
        term->a = (const E *)term->a + (p.trans_a ? row : row * term->lda);
        term->b = (const E *)term->b + (p.trans_b ? column * term->ldb : column);
    }
    return p;
}

/* Computes C in blocks, so that the sums of their leaves take at most tess_cuda_leaf_bytes. A block is a few rows, or a
 * part of one row. */
template <typename E, typename C> static tess_status launch_leaves(tess_stream *s, const product *whole)
{
    const int64_t fit = tess_cuda_leaf_bytes() / (whole->n_leaves * (int64_t)sizeof(float)), least = 1;
    const int64_t columns = cuda_least(fit > 0 ? fit : least, whole->n),
                  rows = cuda_least(fit > columns ? fit / columns : least, whole->m);
    void *sums;
    TESS_TRY(tess_cuda_scratch(s, (size_t)(rows * columns * whole->n_leaves) * sizeof(float), &sums));
    for (int64_t row = 0; row < whole->m; row += rows)
        for (int64_t column = 0; column < whole->n; column += columns) {
            const product finish = block_of<E, C>(whole, row, column, rows, columns);
            product leaves = finish;
            leaves.c = sums;
            leaves.ldc = leaves.n;
            leaves.bias = NULL;
            TESS_TRY((launch<E, float>(s, leaves)));
            TESS_TRY(TESS_CUDA_LAUNCH((add_leaves_kernel<E, C>), tess_cuda_blocks(finish.m * finish.n, THREADS),
                                      THREADS, 0, s, finish, (const float *)sums));
        }
    return TESS_OK;
}

template <typename E, typename C> static tess_status multiply_as(tess_stream *s, const product *p)
{
    return p->leaf > 0 ? launch_leaves<E, C>(s, p) : launch<E, C>(s, *p);
}

/* Computes a product whose arguments were checked. The operation that follows it (`then`) is not done. */
static tess_status multiply(tess_stream *s, const tess_gemm_fused *f)
{
    const tess_gemm *g = &f->g;
    if (g->m == 0 || g->n == 0)
        return TESS_OK;
    product p = {};
    p.term[0] = {g->a, g->lda, g->b, g->ldb, g->k};
    for (int i = 0; i < f->n_terms; i++)
        p.term[1 + i] = f->terms[i];
    p.n_terms = 1 + f->n_terms;
    p.trans_a = g->trans_a;
    p.trans_b = g->trans_b;
    p.accumulate = g->accumulate;
    p.m = g->m;
    p.n = g->n;
    p.ldc = g->ldc;
    p.leaf = g->leaf;
    p.n_leaves = g->leaf > 0 && g->k > g->leaf ? (g->k + g->leaf - 1) / g->leaf : 1;
    p.bias = g->bias;
    p.c = g->c;
    return g->ab_dtype == TESS_F32  ? multiply_as<float, float>(s, &p)
           : g->c_dtype == TESS_F32 ? multiply_as<cuda_bf16, float>(s, &p)
                                    : multiply_as<cuda_bf16, cuda_bf16>(s, &p);
}

tess_status tess_cuda_add_leaves(tess_stream *s, const tess_gemm *g, int64_t n_leaves, const float *sums)
{
    const unsigned blocks = tess_cuda_blocks(g->m * g->n, THREADS);
    product p = {};
    p.m = g->m;
    p.n = g->n;
    p.ldc = g->ldc;
    p.n_leaves = n_leaves;
    p.bias = g->bias;
    p.c = g->c;
    return g->c_dtype == TESS_F32
               ? TESS_CUDA_LAUNCH((add_leaves_kernel<cuda_bf16, float>), blocks, THREADS, 0, s, p, sums)
               : TESS_CUDA_LAUNCH((add_leaves_kernel<cuda_bf16, cuda_bf16>), blocks, THREADS, 0, s, p, sums);
}

tess_status tess_cuda_gemm(tess_stream *s, const tess_gemm *g)
{
    TESS_TRY(tess_gemm_check(g));
    TESS_TRY(tess_check_dtype("gemm", g->ab_dtype));
    tess_gemm_fused f = {};
    f.g = *g;
    return multiply(s, &f);
}

/* Further terms are added to the same sums. Activations are computed by separate rows of the table. */
tess_status tess_cuda_gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    if (f->n_terms == 0)
        return tess_gemm_fused_by_rows(s, f);
    TESS_TRY(tess_gemm_fused_check(f));
    TESS_TRY(tess_check_dtype("gemm", f->g.ab_dtype));
    return multiply(s, f);
}

void tess_kernels_cuda_gemm(tess_kernels *k)
{
    k->gemm = tess_cuda_gemm;
    k->gemm_fused = tess_cuda_gemm_fused;
    k->gemm_grouped = tess_gemm_grouped_by_rows;
}
