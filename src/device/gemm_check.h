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
/* Computes gemm_grouped one product after another, with `gemm` and `gemm_fused` of the stream's table. */
tess_status tess_gemm_grouped_by_rows(tess_stream *s, const tess_gemm_grouped *x);
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
