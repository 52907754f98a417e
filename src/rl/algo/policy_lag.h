/* Policy lag: how old the weights are that drew the tokens which a step trains on. Pure counting, so that what ranks
 * have counted can be added up exactly, in any order. */
#ifndef TESS_RL_ALGO_POLICY_LAG_H
#define TESS_RL_ALGO_POLICY_LAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* Ages are in versions of the weights: steps of the optimizer. All 0: nothing counted. */
typedef struct tess_policy_lag {
    int64_t n_tokens, sum, max;
    int64_t n_stale; /* tokens older than the limit that they were counted with */
} tess_policy_lag;

/* Counts the rows with a mask (mask NULL: all): version[i] (n) drew token i, `now` trains on it. `stale` is the age
 * from which on a token counts as stale, at least 1. TESS_E_INVALID: a token of weights that are not there yet; nothing
 * is counted. */
tess_status tess_policy_lag_count(const int32_t *version, const uint8_t *mask, int64_t n, int64_t now, int64_t stale,
                                  tess_policy_lag *lag);
/* Adds what another rank has counted. */
void tess_policy_lag_merge(const tess_policy_lag *more, tess_policy_lag *lag);
double tess_policy_lag_mean(const tess_policy_lag *lag); /* 0 without tokens */

/* The bearable limits. Limits that are 0 do not count. */
typedef struct tess_policy_lag_limits {
    double mean;        /* age */
    int64_t max;        /* age */
    double stale_share; /* share of tokens */
    double kl;          /* divergence of the drawing policy from the one that trains, nats a token */
} tess_policy_lag_limits;

typedef enum tess_policy_lag_verdict {
    TESS_LAG_NONE, /* exactly on-policy: no token is older than the weights */
    TESS_LAG_BEARABLE,
    TESS_LAG_NEAR, /* past 80% of a limit */
    TESS_LAG_SYNC  /* past a limit: give the generator new weights before the next step */
} tess_policy_lag_verdict;

/* kl: measured, or negative: not known. `text` gets a sentence for people. */
tess_policy_lag_verdict tess_policy_lag_judge(const tess_policy_lag *lag, double kl,
                                              const tess_policy_lag_limits *limits, char *text, size_t size);

#endif
