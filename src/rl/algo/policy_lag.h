/* Policy lag: the age of the weights that drew the tokens of a training step. Only integers are counted, so the
 * counts of ranks can be added exactly, in any order. */
#ifndef TESS_RL_ALGO_POLICY_LAG_H
#define TESS_RL_ALGO_POLICY_LAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* Ages are in versions of the weights: steps of the optimizer. All 0: nothing counted. */
typedef struct tess_policy_lag {
    int64_t n_tokens, sum, max;
    int64_t n_stale; /* tokens whose age was over the limit when they were counted */
} tess_policy_lag;

/* Counts the rows whose mask is not 0 (mask NULL: all). version[i] (n) is the version that drew token i; `now` is
 * the version that trains on it. A token of at least the age `stale` (1 or more) counts as stale. TESS_E_INVALID: a
 * token's version is newer than `now`; nothing is counted. */
tess_status tess_policy_lag_count(const int32_t *version, const uint8_t *mask, int64_t n, int64_t now, int64_t stale,
                                  tess_policy_lag *lag);
/* Adds the counts of another rank. */
void tess_policy_lag_merge(const tess_policy_lag *more, tess_policy_lag *lag);
double tess_policy_lag_mean(const tess_policy_lag *lag); /* 0 without tokens */

/* Limits of what training tolerates. A limit of 0 is not checked. */
typedef struct tess_policy_lag_limits {
    double mean;        /* age */
    int64_t max;        /* age */
    double stale_share; /* share of tokens */
    double kl;          /* divergence of the drawing policy from the trained one, in nats per token */
} tess_policy_lag_limits;

typedef enum tess_policy_lag_verdict {
    TESS_LAG_NONE, /* exactly on-policy: no token is older than the weights */
    TESS_LAG_BEARABLE,
    TESS_LAG_NEAR, /* past 80% of a limit */
    TESS_LAG_SYNC  /* past a limit: give the generator new weights before the next step */
} tess_policy_lag_verdict;

/* Judges the counts. kl: the measured divergence; negative: not known. `text` receives a sentence for the user. */
tess_policy_lag_verdict tess_policy_lag_judge(const tess_policy_lag *lag, double kl,
                                              const tess_policy_lag_limits *limits, char *text, size_t size);

#endif
