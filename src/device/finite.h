/* Finds values in the host's memory that are not finite, at the speed of memory. `dtype` is TESS_F32, TESS_BF16 or,
 * except in tess_all_finite, TESS_F16. */
#ifndef TESS_DEVICE_FINITE_H
#define TESS_DEVICE_FINITE_H

#include "device/kernels.h"

bool tess_all_finite(const void *data, tess_dtype dtype, int64_t n);
int64_t tess_count_not_finite(const void *data, tess_dtype dtype, int64_t n);
double tess_value_at(const void *data, tess_dtype dtype, int64_t i);

#endif
