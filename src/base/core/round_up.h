#ifndef TESS_BASE_CORE_ROUND_UP_H
#define TESS_BASE_CORE_ROUND_UP_H

#include <stdint.h>

/* Returns the least multiple of `unit` (> 0) that is n or more. n + unit must not overflow. */
static inline uint64_t tess_round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
