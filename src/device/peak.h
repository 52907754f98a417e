/* Measures the processor's peak speed, for MFU. The loops use registers only, no memory. */
#ifndef TESS_DEVICE_PEAK_H
#define TESS_DEVICE_PEAK_H

#include "device/stream.h"

/* Returns the floating-point operations a second of all the stream's threads together, measured for about 10 ms. For
 * BF16 it measures AMX tile products if the kernel table uses them, otherwise vector FMAs of the table's width. */
double tess_peak_flops(tess_stream *stream, tess_dtype dtype);

#endif
