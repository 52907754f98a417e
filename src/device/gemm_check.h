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

/* Computes gemm_fused with the other rows of the stream's table. */
tess_status tess_gemm_fused_by_rows(tess_stream *s, const tess_gemm_fused *f);
/* Computes a checked product with leaves, by calling `gemm` without leaves. */
tess_status tess_gemm_leaves_by_rows(tess_stream *s, const tess_gemm_fused *f);

#ifdef __cplusplus
}
#endif

#endif
