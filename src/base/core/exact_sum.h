/* Exact, order-free sums of doubles (a small fixed-point superaccumulator, after Neal, arXiv:1505.05571).
 *
 * Any partition over ranks and any order gives the same limbs, so the rounded result cannot depend on shard boundaries.
 * Covers the whole range of double. Limbs may be added across ranks as int64 (all_reduce TESS_SUM). */
#ifndef TESS_BASE_CORE_EXACT_SUM_H
#define TESS_BASE_CORE_EXACT_SUM_H

#include <stdint.h>

/* Bits from 2^-1074 to 2^1024 in 32-bit digits, one more for carries, and two words that count infinities and NaNs. */
enum { TESS_EXACT_LIMBS = 68 + 2 };

typedef struct tess_exact_sum {
    int64_t limb[TESS_EXACT_LIMBS]; /* after tess_exact_normalize each digit is in [0, 2^32), the top one signed */
    int32_t n_pending;              /* additions since the last normalisation (not part of the value) */
} tess_exact_sum;

void tess_exact_clear(tess_exact_sum *sum);
void tess_exact_add(tess_exact_sum *sum, double value);
/* Propagates carries: equal values have equal limbs. Call it before limbs are sent or compared, and again after adding
 * the limbs of up to 2^30 normalised sums. */
void tess_exact_normalize(tess_exact_sum *sum);
/* The sum rounded once, to nearest even; NaN when a NaN or both infinities were added, +-inf when one was. */
double tess_exact_value(const tess_exact_sum *sum);

#endif
