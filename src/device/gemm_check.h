/* What every row of kernels.h's `gemm` refuses, so that all tables refuse alike. */
#ifndef TESS_DEVICE_GEMM_CHECK_H
#define TESS_DEVICE_GEMM_CHECK_H

#include "device/kernels.h"

/* TESS_E_UNSUPPORTED: dtypes outside (F32,F32), (BF16,BF16), (BF16,F32), or accumulation into BF16;
 * TESS_E_INVALID: a negative size or rows that are longer than their stride. */
tess_status tess_gemm_check(const tess_gemm *g);

#endif
