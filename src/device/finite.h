/* Values in the host's memory that are not finite, and the row that finds them at the speed of memory. `dtype` is
 * TESS_F32, TESS_BF16 or, but for tess_all_finite, TESS_F16. */
#ifndef TESS_DEVICE_FINITE_H
#define TESS_DEVICE_FINITE_H

#include "device/kernels.h"

bool tess_all_finite(const void *data, tess_dtype dtype, int64_t n);
int64_t tess_count_not_finite(const void *data, tess_dtype dtype, int64_t n);
double tess_value_at(const void *data, tess_dtype dtype, int64_t i);

/* Fills `find_not_finite`, which every table of the host has. */
void tess_kernels_finite(tess_kernels *k);

#endif
