/* Products of bfloat16 on tensor cores, for calls that cuBLAS does not compute. */
#include "device/cuda/cuda_rows.h"
#include "device/cuda/kernels/tensor_product.h"
#include "device/gemm_check.h"

/* The arguments of a launch. */
typedef struct tensor_product {
    tess_gemm g;
    int64_t tiles_m, tiles_n;
} tensor_product;

template <typename C, int WARPS_M, int M, int BUFFERS>
static __global__ void __launch_bounds__(THREADS, 2) tensor_gemm_kernel(tensor_product p)
{
    multiply_tile<C, WARPS_M, M, BUFFERS>(p.g, place_of_tile(p.tiles_m, p.tiles_n, blockIdx.x));
}

template <typename C, int WARPS_M, int M, int BUFFERS> static tess_status launch(tess_stream *s, const tess_gemm *g)
{
    const tensor_product p = {*g, tile_rows<WARPS_M, M>(g->m), tile_columns(g->n)};
    const int64_t blocks = p.tiles_m * p.tiles_n;
    const size_t bytes = tile_bytes<WARPS_M, M, BUFFERS>();
    TESS_CHECK(blocks <= INT32_MAX, TESS_E_UNSUPPORTED, "gemm: C of %lld x %lld is more than a GPU takes in a call",
               (long long)g->m, (long long)g->n);
    TESS_CUDA_ASK_SHARED((tensor_gemm_kernel<C, WARPS_M, M, BUFFERS>), bytes, s);
    return TESS_CUDA_LAUNCH((tensor_gemm_kernel<C, WARPS_M, M, BUFFERS>), blocks, THREADS, bytes, s, p);
}

template <typename C> static tess_status launch_sized(tess_stream *s, const tess_gemm *g)
{
    return g->m <= FEW_ROWS ? launch<C, 1, 1, 4>(s, g) : launch<C, 2, 4, 2>(s, g);
}

/* A block of C: its first row and column, and its size. */
typedef struct leaf_block {
    int64_t row, column, m, n;
} leaf_block;

/* Computes one leaf of a block of C: all terms, one after the other. */
static tess_status multiply_leaf(tess_stream *s, const tess_gemm_fused *f, const leaf_block *block, int64_t leaf,
                                 float *sums)
{
    const int64_t begin = leaf * f->g.leaf, row = block->row, column = block->column;
    tess_gemm g = f->g;
    g.m = block->m;
    g.n = block->n;
    g.k = cuda_least(f->g.k - begin, f->g.leaf);
    g.c = sums;
    g.ldc = g.n;
    g.c_dtype = TESS_F32;
    g.bias = NULL;
    g.leaf = 0;
    for (int i = 0; i <= f->n_terms; i++) {
        const tess_gemm_term term =
            i > 0 ? f->terms[i - 1] : tess_gemm_term{f->g.a, f->g.lda, f->g.b, f->g.ldb, f->g.k};
        g.lda = term.lda;
        g.ldb = term.ldb;
        g.a = (const uint16_t *)term.a + (g.trans_a ? begin * term.lda + row : row * term.lda + begin);
        g.b = (const uint16_t *)term.b + (g.trans_b ? column * term.ldb + begin : begin * term.ldb + column);
        g.accumulate = i > 0;
        TESS_TRY(launch_sized<float>(s, &g));
    }
    return TESS_OK;
}

/* Returns the rows or columns of the whole tiles that fit into n, at least one tile's. */
static int64_t whole_tiles(int64_t n)
{
    const int64_t tile = COLUMNS;
    return n > tile ? n / tile * tile : tile;
}

/* Computes a block of C: its leaves, and then their tree. */
static tess_status multiply_block(tess_stream *s, const tess_gemm_fused *f, const leaf_block *block, int64_t n_leaves,
                                  float *sums)
{
    tess_gemm g = f->g;
    const int64_t at = block->row * g.ldc + block->column;
    g.m = block->m;
    g.n = block->n;
    g.c = (char *)g.c + at * (int64_t)(g.c_dtype == TESS_F32 ? sizeof(float) : sizeof(cuda_bf16));
    g.bias = g.bias != NULL ? (const cuda_bf16 *)g.bias + block->column : NULL;
    for (int64_t leaf = 0; leaf < n_leaves; leaf++)
        TESS_TRY(multiply_leaf(s, f, block, leaf, sums + leaf * g.m * g.n));
    return tess_cuda_add_leaves(s, &g, n_leaves, sums);
}

/* A leaf has the bits of a product without leaves. C is computed in blocks, which limits the memory of the leaves'
 * sums. A block has all columns and a multiple of 128 rows. If the limit is below 128 rows, it has 128 rows, or all if
 * C has fewer, and a multiple of 128 columns. So tiles are whole and loads stay aligned. */
static tess_status multiply_leaves(tess_stream *s, const tess_gemm_fused *f)
{
    const tess_gemm *g = &f->g;
    if (g->m == 0 || g->n == 0)
        return TESS_OK;
    const int64_t n_leaves = g->k > g->leaf ? (g->k + g->leaf - 1) / g->leaf : 1;
    const int64_t fit = tess_cuda_leaf_bytes() / (n_leaves * (int64_t)sizeof(float)); /* elements of a block */
    const int64_t rows = cuda_least(whole_tiles(fit / g->n), g->m), columns = cuda_least(whole_tiles(fit / rows), g->n);
    void *sums;
    TESS_TRY(tess_cuda_scratch(s, (size_t)(rows * columns * n_leaves) * sizeof(float), &sums));
    for (int64_t row = 0; row < g->m; row += rows)
        for (int64_t column = 0; column < g->n; column += columns) {
            const leaf_block block = {row, column, cuda_least(g->m - row, rows), cuda_least(g->n - column, columns)};
            TESS_TRY(multiply_block(s, f, &block, n_leaves, (float *)sums));
        }
    return TESS_OK;
}

static tess_status gemm(tess_stream *s, const tess_gemm *g)
{
    if (g->ab_dtype != TESS_BF16)
        return tess_cuda_gemm(s, g);
    TESS_TRY(tess_gemm_check(g));
    if (g->m == 0 || g->n == 0)
        return TESS_OK;
    if (g->leaf > 0) {
        tess_gemm_fused f = {};
        f.g = *g;
        return multiply_leaves(s, &f);
    }
    return g->c_dtype == TESS_F32 ? launch_sized<float>(s, g) : launch_sized<cuda_bf16>(s, g);
}

static tess_status gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    if (f->g.ab_dtype != TESS_BF16 || f->g.leaf == 0)
        return f->g.ab_dtype == TESS_BF16 ? tess_gemm_fused_by_rows(s, f) : tess_cuda_gemm_fused(s, f);
    TESS_TRY(tess_gemm_fused_check(f));
    return multiply_leaves(s, f);
}

void tess_kernels_cuda_tensor_gemm(tess_kernels *k)
{
    k->gemm = gemm;
    k->gemm_fused = gemm_fused;
}
