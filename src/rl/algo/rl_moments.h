/* Mean and variance of numbers that are spread over ranks, exact: the same bits in whatever order and on however many
 * ranks they were added. And the whitening by them. */
#ifndef TESS_RL_ALGO_RL_MOMENTS_H
#define TESS_RL_ALGO_RL_MOMENTS_H

#include "base/core/exact_sum.h"

/* Zero is empty. */
typedef struct tess_moments {
    tess_exact_sum sum, square; /* square: sum of squares, with the part that a double cannot hold */
    int64_t n;
} tess_moments;

enum { TESS_MOMENTS_WORDS = 2 * TESS_EXACT_LIMBS + 1 };

void tess_moments_add(tess_moments *moments, double x);
/* Adds x[i] of the rows with mask[i] != 0 (NULL: of all n). */
void tess_moments_add_rows(tess_moments *moments, const float *x, const uint8_t *mask, int64_t n);

/* Words (TESS_MOMENTS_WORDS) that ranks add as int64, and back. */
void tess_moments_pack(const tess_moments *moments, int64_t *words);
void tess_moments_unpack(const int64_t *words, tess_moments *moments);

/* 0 when there are none. */
double tess_moments_mean(const tess_moments *moments);
/* Unbiased (n - 1), never negative; 0 for fewer than two numbers. Good to about 1e-16 * mean^2 / variance. */
double tess_moments_variance(const tess_moments *moments);

/* x = (x - mean) / sqrt(variance + eps) where mask[i] != 0 (NULL: everywhere); the others stay. Where the moments are
 * of fewer than two numbers all stay; without variance and eps they are centred alone. Source: verl, masked_whiten (eps
 * 1e-8). */
void tess_whiten(const tess_moments *moments, double eps, const uint8_t *mask, float *x, int64_t n);

#endif
