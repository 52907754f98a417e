/* The checks of every row of kernels.h's `gemm`, so that all tables refuse alike. */
#ifndef TESS_DEVICE_GEMM_CHECK_H
#define TESS_DEVICE_GEMM_CHECK_H

#include "device/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* TESS_E_UNSUPPORTED: dtypes outside (F32,F32), (BF16,BF16), (BF16,F32), or accumulation into BF16;
 * TESS_E_INVALID: a negative size or rows that are longer than their stride. */
tess_status tess_gemm_check(const tess_gemm *g);

/* The same for `gemm_fused`, and its own conditions: TESS_E_INVALID. */
tess_status tess_gemm_fused_check(const tess_gemm_fused *f);

/* gemm_fused by the other rows of the stream's table. */
tess_status tess_gemm_fused_by_rows(tess_stream *s, const tess_gemm_fused *f);
/* The same for a checked product with leaves: calls `gemm` without them. */
tess_status tess_gemm_leaves_by_rows(tess_stream *s, const tess_gemm_fused *f);

#ifdef __cplusplus
}
#endif

#endif
