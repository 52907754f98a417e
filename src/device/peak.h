/* Measures what the processor can do at most, for MFU: registers only, no memory. */
#ifndef TESS_DEVICE_PEAK_H
#define TESS_DEVICE_PEAK_H

#include "device/stream.h"

/* Floating-point operations a second of all the stream's threads together, measured for about 10 ms: AMX tile products
 * for BF16 where the kernel table uses them, else vector FMAs of the table's width. */
double tess_peak_flops(tess_stream *stream, tess_dtype dtype);

#endif
