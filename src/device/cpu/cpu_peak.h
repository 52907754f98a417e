/* Loops that keep one core's arithmetic busy from registers; each returns the floating-point operations that it did. */
#ifndef TESS_DEVICE_CPU_CPU_PEAK_H
#define TESS_DEVICE_CPU_CPU_PEAK_H

#include <stdint.h>

double tess_peak_loop_avx2(int64_t rounds);
double tess_peak_loop_avx512(int64_t rounds);
double tess_peak_loop_avx512_bf16(int64_t rounds);
double tess_peak_loop_amx(int64_t rounds);

#endif
