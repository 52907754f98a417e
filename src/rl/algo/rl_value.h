/* The loss of a value head: sum over response tokens of max((V - R)^2, (V_old + clip(V - V_old) - R)^2) / 2, with
 * clip(x) = x clamped to +-clip (Schulman et al.'s PPO code). Derivatives are those of torch's autograd, with ties
 * as in rl_policy_loss.h. */
#ifndef TESS_RL_ALGO_RL_VALUE_H
#define TESS_RL_ALGO_RL_VALUE_H

#include "base/core/metric.h"
#include "rl/algo/rl_moments.h"
#include "tessera/status.h"

/* All members 0: no row was added. */
typedef struct tess_value_sums {
    tess_exact_sum loss;
    tess_moments value, ret, error; /* error: R - V */
    int64_t n_clipped;              /* tokens where the clipped square is the larger */
} tess_value_sums;

enum { TESS_VALUE_SUM_WORDS = TESS_EXACT_LIMBS + 3 * TESS_MOMENTS_WORDS + 1, TESS_VALUE_METRICS = 5 };

/* Adds the losses of n rows to *sums, and writes the derivative by value to dvalue (n), which is 0 where mask is 0.
 * All arrays have n elements. old_value NULL, or clip 0: no clip. The bits do not depend on how rows are split over
 * calls. TESS_E_NOT_FINITE: the message names the row, and the results are not valid. */
tess_status tess_value_grade(double clip, const uint8_t *mask, const float *value, const float *old_value,
                             const float *ret, int64_t n, float *dvalue, tess_value_sums *sums);

/* Converts sums to words (TESS_VALUE_SUM_WORDS) that ranks add as int64, and back. */
void tess_value_sums_pack(const tess_value_sums *sums, int64_t *words);
void tess_value_sums_unpack(const int64_t *words, tess_value_sums *sums);

/* Returns the loss of a step: the mean over its tokens; 0 without tokens. */
double tess_value_mean_loss(const tess_value_sums *sums);
/* Returns the explained variance 1 - variance(R - V) / variance(R): 1 for a perfect value, 0 for a constant one, and
 * 0 if R does not vary. */
double tess_explained_variance(const tess_value_sums *sums);
/* Writes TESS_VALUE_METRICS metrics. */
void tess_value_metrics(const tess_value_sums *sums, tess_metric *out);

#endif
