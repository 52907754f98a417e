/* Sets of small numbers, such as the ranks of a job: bit n of an array of words is set if n is in the set. */
#ifndef TESS_BASE_CORE_BITS_H
#define TESS_BASE_CORE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of words that a set of the numbers 0 .. n - 1 needs. */
static inline size_t tess_bits_words(int n)
{
    return ((size_t)n + 63) / 64;
}

static inline void tess_bits_add(uint64_t *set, int number)
{
    set[number / 64] |= UINT64_C(1) << number % 64;
}

static inline bool tess_bits_has(const uint64_t *set, int number)
{
    return (set[number / 64] >> number % 64 & 1) != 0;
}

#endif
