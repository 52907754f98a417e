/* Exact sums of doubles that do not depend on the order of additions (a small fixed-point superaccumulator, after Neal,
 * arXiv:1505.05571).
 *
 * Any order and any partition over ranks gives the same limbs, so shard boundaries cannot change the rounded result.
 * The limbs cover the whole range of double. Ranks may add their limbs as int64 (all_reduce TESS_SUM). */
#ifndef TESS_BASE_CORE_EXACT_SUM_H
#define TESS_BASE_CORE_EXACT_SUM_H

#include <stdint.h>

/* 32-bit digits for the bits from 2^-1074 to 2^1024, one more digit for carries, and two words that count infinities
 * and NaNs. */
enum { TESS_EXACT_LIMBS = 68 + 2 };

typedef struct tess_exact_sum {
    /* After tess_exact_normalize each digit is in [0, 2^32), except that the top one is signed */
    int64_t limb[TESS_EXACT_LIMBS];
    int32_t n_pending; /* additions since the last normalisation (not part of the value) */
} tess_exact_sum;

void tess_exact_clear(tess_exact_sum *sum);
void tess_exact_add(tess_exact_sum *sum, double value);
/* Propagates carries, so that equal values have equal limbs. Call it before limbs are sent or compared, and again after
 * the limbs of up to 2^30 normalised sums were added. */
void tess_exact_normalize(tess_exact_sum *sum);
/* Returns the sum, rounded once to nearest even. NaN: a NaN or both infinities were added. +-inf: one of them was
 * added. */
double tess_exact_value(const tess_exact_sum *sum);

#endif
