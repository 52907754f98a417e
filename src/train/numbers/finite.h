/* Finds values that are not finite, at the speed of memory. */
#ifndef TESS_TRAIN_NUMBERS_FINITE_H
#define TESS_TRAIN_NUMBERS_FINITE_H

#include "base/os/threads.h"
#include "tessera/types.h"

bool tess_all_finite(const void *data, tess_dtype dtype, int64_t n);
/* The first NaN or infinity among n values of `dtype` (TESS_F32 or TESS_BF16), -1: none. */
int64_t tess_find_not_finite(tess_threads *threads, const void *data, tess_dtype dtype, int64_t n);
int64_t tess_count_not_finite(const void *data, tess_dtype dtype, int64_t n);
double tess_value_at(const void *data, tess_dtype dtype, int64_t i);

#endif
