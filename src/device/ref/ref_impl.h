/* The reference kernels: scalar C on the caller's thread. Their order of operations is the definition. */
#ifndef TESS_DEVICE_REF_REF_IMPL_H
#define TESS_DEVICE_REF_REF_IMPL_H

#include "device/bf16.h"
#include "device/elementwise.h"

static inline float ref_get(const void *x, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F32 ? ((const float *)x)[i] : tess_bf16_to_float(((const uint16_t *)x)[i]);
}

static inline void ref_put(void *x, int64_t i, float value, tess_dtype dtype)
{
    if (dtype == TESS_F32)
        ((float *)x)[i] = value;
    else
        ((uint16_t *)x)[i] = tess_float_to_bf16(value);
}

static inline float ref_round(float value, tess_dtype dtype)
{
    return dtype == TESS_F32 ? value : tess_bf16_to_float(tess_float_to_bf16(value));
}

/* Folds the partial sums of a row. The lanes are overwritten. */
static inline float ref_fold(float lane[TESS_ROW_LANES])
{
    for (int width = TESS_ROW_LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

void tess_ref_moments(tess_kernels *k);

#endif
