/* Shares decide which rank takes which micro-batch of a step, and which rank holds which rows of a parameter. They are
 * a pure object: no I/O, no teams.
 *
 * Each of n ranks has a weight, a whole number from 1 on. A rank of weight w takes what w neighbouring ranks of equal
 * weight would take together. Micro-batches are dealt in rounds of as many as the weights' sum W: rank r takes those
 * whose number modulo W is first_r .. first_r + weight_r - 1, where first_r is the sum of the weights before it.
 * Rows are cut into W chunks as tess_shard_rows cuts them, and rank r holds chunks first_r .. first_r + weight_r - 1.
 * With equal weights that is micro-batch s * n + r at local step s, and tess_shard_rows. */
#ifndef TESS_MESH_SHARES_H
#define TESS_MESH_SHARES_H

#include "tessera/types.h"

typedef struct tess_shares {
    int n;              /* number of ranks */
    const int *weights; /* (n) without a common divisor, borrowed; NULL: all are 1 */
    int64_t total;      /* sum of the weights: micro-batches of a round, and chunks of rows */
} tess_shares;

/* Returns equal shares of n ranks. */
static inline tess_shares tess_shares_equal(int n)
{
    return (tess_shares){.n = n, .total = n};
}

/* Makes shares by weight. Divides `weights`, which the shares borrow, by their common divisor: 2:2 are equal shares.
 * TESS_E_INVALID: n or a weight is below 1, or the sum exceeds INT32_MAX; the message names the rank */
tess_status tess_shares_by_weight(int *weights, int n, tess_shares *shares);

/* ---- Micro-batches of a step, numbered from 0 ---- */
/* Returns the rank that takes micro-batch `index`. */
int tess_shares_taker(const tess_shares *shares, int64_t index);
/* Returns the number of the rank's k-th micro-batch, k from 0. Ascends with k. */
int64_t tess_shares_index(const tess_shares *shares, int rank, int64_t k);
/* Returns k, the inverse of tess_shares_index for the rank that takes micro-batch `index`. */
int64_t tess_shares_order(const tess_shares *shares, int64_t index);
/* Returns how many of n micro-batches the rank takes. Divided by n, this is the rank's weight in a mean over the step:
 * the numbers of all ranks add up to n exactly. */
int64_t tess_shares_count(const tess_shares *shares, int rank, int64_t n);
/* Returns the number of rounds that n micro-batches take. Ranks without one in the last round run empty ones. */
int64_t tess_shares_rounds(const tess_shares *shares, int64_t n);

/* ---- Rows ---- */
/* Sets the rows [begin, begin + count) of n_rows that the rank holds. Ranks hold them in order. */
void tess_shares_rows(const tess_shares *shares, int64_t n_rows, int rank, int64_t *begin, int64_t *count);

#endif
