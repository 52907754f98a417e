/* The checks of the arguments of products, which all tables share so that they refuse the same calls. */
#ifndef TESS_DEVICE_GEMM_CHECK_H
#define TESS_DEVICE_GEMM_CHECK_H

#include "device/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* TESS_E_UNSUPPORTED: dtypes outside (F32,F32), (BF16,BF16), (BF16,F32), or accumulation into BF16;
 * TESS_E_INVALID: a negative size or rows that are longer than their stride. */
tess_status tess_gemm_check(const tess_gemm *g);

/* The checks of tess_gemm_check, and those of `gemm_fused` itself: TESS_E_INVALID. */
tess_status tess_gemm_fused_check(const tess_gemm_fused *f);

/* The checks of every product of gemm_grouped: TESS_E_INVALID if their dtypes differ. */
tess_status tess_gemm_grouped_check(const tess_gemm_grouped *x);

/* Computes gemm_fused with the other rows of the stream's table. */
tess_status tess_gemm_fused_by_rows(tess_stream *s, const tess_gemm_fused *f);
/* Computes what follows the product of f, which is stored already. */
tess_status tess_gemm_follow(tess_stream *s, const tess_gemm_fused *f);
/* Computes gemm_grouped one product after another, with `gemm` and `gemm_fused` of the stream's table. */
tess_status tess_gemm_grouped_by_rows(tess_stream *s, const tess_gemm_grouped *x);
/* Computes gemm_grouped: with `several` the products that have no terms and no leaves, up to TESS_GEMM_SEVERAL at a
 * time, and the others with the stream's table. Those that `several` gets have rows and columns, and each of their
 * matrices at most 2^30 elements. */
enum { TESS_GEMM_SEVERAL = 60 };
typedef tess_status tess_gemm_several(tess_stream *s, const tess_gemm *products, int n);
tess_status tess_gemm_grouped_by(tess_stream *s, const tess_gemm_grouped *x, tess_gemm_several *several);
/* Computes a checked product with leaves, by calling `gemm` without leaves. */
tess_status tess_gemm_leaves_by_rows(tess_stream *s, const tess_gemm_fused *f);

/* Whether nothing is added to the product and nothing follows it. */
static inline bool tess_gemm_is_plain(const tess_gemm_fused *f)
{
    return f->n_terms == 0 && f->then == TESS_THEN_NOTHING;
}

#ifdef __cplusplus
}
#endif

#endif
