/* Exact mean and variance of numbers that are distributed over ranks, and whitening by them. The bits do not depend
 * on the order of additions or on the number of ranks. */
#ifndef TESS_RL_ALGO_RL_MOMENTS_H
#define TESS_RL_ALGO_RL_MOMENTS_H

#include "base/core/exact_sum.h"

/* All members 0: no number was added. */
typedef struct tess_moments {
    tess_exact_sum sum, square; /* square: sum of squares, with the part that a double cannot hold */
    int64_t n;
} tess_moments;

enum { TESS_MOMENTS_WORDS = 2 * TESS_EXACT_LIMBS + 1 };

void tess_moments_add(tess_moments *moments, double x);
/* Adds x[i] of the rows with mask[i] != 0 (NULL: of all n). */
void tess_moments_add_rows(tess_moments *moments, const float *x, const uint8_t *mask, int64_t n);

/* Converts moments to words (TESS_MOMENTS_WORDS) that ranks add as int64, and back. */
void tess_moments_pack(const tess_moments *moments, int64_t *words);
void tess_moments_unpack(const int64_t *words, tess_moments *moments);

/* Returns the mean; 0 without numbers. */
double tess_moments_mean(const tess_moments *moments);
/* Returns the unbiased variance (n - 1), which is never negative; 0 for fewer than two numbers. Its relative error
 * is about 1e-16 * mean^2 / variance. */
double tess_moments_variance(const tess_moments *moments);

/* Sets x = (x - mean) / sqrt(variance + eps) where mask[i] != 0 (NULL: everywhere); other elements stay. If the
 * moments have fewer than two numbers, all elements stay. If variance and eps are 0, elements are only centred.
 * Source: verl, masked_whiten (eps 1e-8). */
void tess_whiten(const tess_moments *moments, double eps, const uint8_t *mask, float *x, int64_t n);

#endif
