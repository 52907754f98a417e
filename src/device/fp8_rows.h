/* Rows of a weight as E4M3 codes in the host's memory, for gathers that move a byte a weight: the C codes of a row,
 * then the scale of each block of TESS_FP8_BLOCK of them as a byte, the exponent of a float32 (E8M0). What comes back
 * is bit for bit what the row round_fp8 of the kernel table gives for the same weights, but for a block that has a
 * value that is not finite: all of it comes back as NaN. */
#ifndef TESS_DEVICE_FP8_ROWS_H
#define TESS_DEVICE_FP8_ROWS_H

#include "device/stream.h"

/* Bytes of a row of C weights. */
size_t tess_fp8_row_bytes(int64_t C);

/* Weights x (rows, C), each as it is in `dtype` (F32 or BF16). Uses the stream's threads. */
void tess_fp8_encode_rows(tess_stream *stream, const float *x, int64_t rows, int64_t C, tess_dtype dtype, uint8_t *to);
/* y (rows, C) of `dtype`. */
void tess_fp8_decode_rows(tess_stream *stream, const uint8_t *from, int64_t rows, int64_t C, tess_dtype dtype, void *y);

#endif
