/* Arithmetic on sizes. */
#ifndef TESS_DEVICE_CPU_SIZES_H
#define TESS_DEVICE_CPU_SIZES_H

#include <stdint.h>

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
