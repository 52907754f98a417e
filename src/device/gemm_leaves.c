/* Products whose K is cut in leaves (kernels.h), computed with products without leaves and sums. This is their
 * definition, and the implementation for tables that have no faster one. A few rows of C are computed at a time, so
 * that the sums of leaves stay in cache. The sums form a binary counter: level i is empty, or holds the sum of 2^i
 * leaves. A leaf is computed in the level where its sum will be stored. */
#include "device/gemm_check.h"
#include "device/stream_impl.h"

enum { MOST_LEVELS = 63 };

typedef struct leaf_sums {
    float *level[MOST_LEVELS]; /* (rows, n) each */
    int64_t row, rows;         /* first row, and number of rows, of C */
} leaf_sums;

static int64_t n_leaves_of(const tess_gemm *g)
{
    return g->k > g->leaf ? (g->k + g->leaf - 1) / g->leaf : 1;
}

/* Returns the address of op(A) at (i, p). */
static const void *at_a(const tess_gemm *g, const void *a, int64_t lda, int64_t i, int64_t p)
{
    return (const char *)a + (size_t)(g->trans_a ? p * lda + i : i * lda + p) * tess_dtype_size(g->ab_dtype);
}

static const void *at_b(const tess_gemm *g, const void *b, int64_t ldb, int64_t p)
{
    return (const char *)b + (size_t)(g->trans_b ? p : p * ldb) * tess_dtype_size(g->ab_dtype);
}

static tess_status multiply_leaf(tess_stream *s, const tess_gemm_fused *f, const leaf_sums *x, int64_t leaf, float *to)
{
    tess_gemm g = f->g;
    int64_t begin = leaf * g.leaf;
    g.m = x->rows;
    g.k = g.k - begin < g.leaf ? g.k - begin : g.leaf;
    g.c = to;
    g.ldc = g.n;
    g.c_dtype = TESS_F32;
    g.bias = NULL;
    g.leaf = 0;
    for (int i = 0; i <= f->n_terms; i++) {
        const tess_gemm_term term = i > 0 ? f->terms[i - 1] : (tess_gemm_term){f->g.a, g.lda, f->g.b, g.ldb, f->g.k};
        g.lda = term.lda;
        g.ldb = term.ldb;
        g.a = at_a(&g, term.a, g.lda, x->row, begin);
        g.b = at_b(&g, term.b, g.ldb, begin);
        g.accumulate = i > 0;
        TESS_TRY(s->kernels->gemm(s, &g));
    }
    return TESS_OK;
}

/* Writes C = sums + bias. */
static tess_status finish(tess_stream *s, const tess_gemm *g, const leaf_sums *x, float *sums)
{
    int64_t size = (int64_t)tess_dtype_size(g->c_dtype), row_bytes = g->n * size;
    char *c = (char *)g->c + x->row * g->ldc * size;
    tess_gemm bias = *g;
    bias.m = x->rows;
    bias.k = bias.leaf = 0;
    bias.c = sums;
    bias.ldc = g->n;
    bias.c_dtype = TESS_F32;
    bias.accumulate = true;
    if (g->bias != NULL)
        TESS_TRY(s->kernels->gemm(s, &bias));
    if (g->c_dtype == TESS_F32)
        return s->kernels->copy_rows(s, &(tess_copy_rows_args){.x = sums,
                                                               .x_stride = row_bytes,
                                                               .y = c,
                                                               .y_stride = g->ldc * size,
                                                               .n = x->rows,
                                                               .row_bytes = row_bytes});
    int64_t whole = g->ldc == g->n ? x->rows : 1; /* rows for each call */
    for (int64_t i = 0; i < x->rows; i += whole)
        TESS_TRY(s->kernels->convert(s, &(tess_convert_args){.x = sums + i * g->n,
                                                             .from = TESS_F32,
                                                             .y = c + i * g->ldc * size,
                                                             .to = g->c_dtype,
                                                             .n = whole * g->n}));
    return TESS_OK;
}

static tess_status multiply_rows(tess_stream *s, const tess_gemm_fused *f, const leaf_sums *x)
{
    int64_t n_leaves = n_leaves_of(&f->g);
    float *to = NULL;
    for (int64_t leaf = 0; leaf < n_leaves; leaf++) {
        to = x->level[__builtin_ctzll(~(unsigned long long)leaf)];
        TESS_TRY(multiply_leaf(s, f, x, leaf, to));
        for (int i = 0; leaf >> i != 0 && (leaf + 1 == n_leaves || (leaf >> i & 1) != 0); i++)
            if ((leaf >> i & 1) != 0)
                TESS_TRY(s->kernels->add(
                    s, &(tess_add_args){.a = x->level[i], .b = to, .y = to, .n = x->rows * f->g.n, .dtype = TESS_F32}));
    }
    return finish(s, &f->g, x, to);
}

tess_status tess_gemm_leaves_by_rows(tess_stream *s, const tess_gemm_fused *f)
{
    int64_t m = f->g.m, n = f->g.n, most = m < TESS_FUSED_ROWS ? m : TESS_FUSED_ROWS;
    int n_levels = 64 - __builtin_clzll((unsigned long long)n_leaves_of(&f->g));
    if (m == 0 || n == 0)
        return TESS_OK;
    void *block;
    TESS_TRY_CTX(tess_stream_outer_scratch(s, (size_t)(n_levels * most * n) * sizeof(float), &block), "gemm");
    leaf_sums x = {.rows = most};
    for (int i = 0; i < n_levels; i++)
        x.level[i] = (float *)block + i * most * n;
    for (; x.row < m; x.row += x.rows) {
        x.rows = m - x.row < most ? m - x.row : most;
        TESS_TRY(multiply_rows(s, f, &x));
    }
    return TESS_OK;
}
