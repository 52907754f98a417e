/* Products of OpenBLAS, for comparison. */
#include <cblas.h>
#include <stdlib.h>

#include "plugin.h"

struct tess_bench_product {
    tess_gemm g;
};

static tess_bench_product *prepare(const tess_gemm *g)
{
    tess_bench_product *product = NULL;
    if (g->ab_dtype == TESS_F32 && g->c_dtype == TESS_F32)
        product = malloc(sizeof(*product));
    if (product != NULL)
        product->g = *g;
    return product;
}

static bool run(tess_bench_product *product)
{
    const tess_gemm *g = &product->g;
    cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans, g->trans_b ? CblasTrans : CblasNoTrans,
                (blasint)g->m, (blasint)g->n, (blasint)g->k, 1, g->a, (blasint)g->lda, g->b, (blasint)g->ldb, 0, g->c,
                (blasint)g->ldc);
    return true;
}

static void release(tess_bench_product *product)
{
    free(product);
}

const tess_bench_peer openblas_peer = {"OpenBLAS", prepare, run, release};
