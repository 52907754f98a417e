/* Packs an engine's operands. Include it after ROWS, COLUMNS, pack_straight and pack_turned. It is compiled for each
 * engine, so that the width of a panel and its masks are constants. */
#ifndef TESS_DEVICE_CPU_GEMM_PANELS_H
#define TESS_DEVICE_CPU_GEMM_PANELS_H

#include "device/cpu/gemm_impl.h"

static void pack_a(const tess_gemm *g, int64_t i, int64_t rows, int64_t k_begin, int64_t k, void *panel)
{
    if (g->trans_a)
        pack_straight(g->a, g->ab_dtype, g->lda, i, rows, ROWS, k_begin, k, panel);
    else
        pack_turned(g->a, g->ab_dtype, g->lda, i, rows, ROWS, k_begin, k, panel);
}

static void pack_b(const tess_gemm *g, int64_t j, int64_t columns, int64_t k_begin, int64_t k, void *panel)
{
    if (g->trans_b)
        pack_turned(g->b, g->ab_dtype, g->ldb, j, columns, COLUMNS, k_begin, k, panel);
    else
        pack_straight(g->b, g->ab_dtype, g->ldb, j, columns, COLUMNS, k_begin, k, panel);
}

#endif
