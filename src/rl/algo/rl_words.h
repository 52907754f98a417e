/* Exact sums as words that ranks add: int64 limbs, all_reduce TESS_SUM. Equal values have equal words. */
#ifndef TESS_RL_ALGO_RL_WORDS_H
#define TESS_RL_ALGO_RL_WORDS_H

#include "base/core/exact_sum.h"

/* Writes the limbs of n sums, normalised, to words (n * TESS_EXACT_LIMBS). */
void tess_exact_pack(const tess_exact_sum *sums, int n, int64_t *words);
/* Reads words that up to 2^30 ranks have packed and added. */
void tess_exact_unpack(const int64_t *words, int n, tess_exact_sum *sums);

#endif
