/* Which of several ranks that should hold the same do not: by majority. */
#ifndef TESS_TRAIN_NUMBERS_VOTE_H
#define TESS_TRAIN_NUMBERS_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tess_vote { TESS_VOTE_SAME, TESS_VOTE_ODD, TESS_VOTE_TIE } tess_vote;

/* value[i * stride], i in 0..n-1. ODD: more hold one value than any other one; odd[i] tells who holds another. TIE: two
 * values have the most holders; nobody can be named, and odd[i] is false for all. */
tess_vote tess_vote_on(const uint64_t *value, size_t stride, int n, bool *odd);

#endif
