/* Stores rows of a weight in the host's memory as E4M3 codes, so that gathers move one byte a weight. A row is C codes,
 * followed by the scale of each block of TESS_FP8_BLOCK codes as a byte, the exponent of a float32 (E8M0). Decoding
 * gives the same bits as the row round_fp8 of the kernel table gives for the same weights. The exception is a block
 * with a value that is not finite, which is decoded as NaN throughout. */
#ifndef TESS_DEVICE_FP8_ROWS_H
#define TESS_DEVICE_FP8_ROWS_H

#include "device/stream.h"

/* Returns the bytes of a row of C weights. */
size_t tess_fp8_row_bytes(int64_t C);

/* Encodes weights x (rows, C), each rounded to `dtype` (F32 or BF16) first. Uses the stream's threads. */
void tess_fp8_encode_rows(tess_stream *stream, const float *x, int64_t rows, int64_t C, tess_dtype dtype, uint8_t *to);
/* Decodes rows to y (rows, C) of `dtype`. */
void tess_fp8_decode_rows(tess_stream *stream, const uint8_t *from, int64_t rows, int64_t C, tess_dtype dtype, void *y);

#endif
