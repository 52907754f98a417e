/* Stores rows of a weight as E4M3 codes, so that gathers move one byte a weight. A row is C codes, followed by the
 * scale of each block of TESS_FP8_BLOCK codes. Decoding gives the same bits as the row round_fp8 of the kernel table
 * gives for the same weights. The exception is a block with a value that is not finite, which is decoded as NaN
 * throughout. */
#ifndef TESS_DEVICE_FP8_ROWS_H
#define TESS_DEVICE_FP8_ROWS_H

#include "device/stream.h"

/* Encodes weights x (rows, C), each rounded to `dtype` (F32 or BF16) first. */
static inline tess_status tess_fp8_encode_rows(tess_stream *stream, const float *x, int64_t rows, int64_t C,
                                               tess_dtype dtype, uint8_t *to)
{
    return tess_stream_kernels(stream)->fp8_encode(
        stream, &(tess_fp8_encode_args){x, to, rows, C, tess_fp8_row_bytes(C), dtype});
}

/* Decodes rows to y (rows, C) of `dtype`. */
static inline tess_status tess_fp8_decode_rows(tess_stream *stream, const uint8_t *from, int64_t rows, int64_t C,
                                               tess_dtype dtype, void *y)
{
    return tess_stream_kernels(stream)->fp8_decode(
        stream, &(tess_fp8_decode_args){from, y, rows, C, tess_fp8_row_bytes(C), dtype});
}

#endif
