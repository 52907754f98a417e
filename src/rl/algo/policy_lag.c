#include "rl/algo/policy_lag.h"

#include <inttypes.h>
#include <stdio.h>

tess_status tess_policy_lag_count(const int32_t *version, const uint8_t *mask, int64_t n, int64_t now, int64_t stale,
                                  tess_policy_lag *lag)
{
    tess_policy_lag more = {0};
    TESS_CHECK(stale >= 1, TESS_E_INVALID, "tokens are stale from an age of %" PRId64 " on: it must be at least 1",
               stale);
    for (int64_t i = 0; i < n; i++) {
        if (mask != NULL && mask[i] == 0)
            continue;
        int64_t age = now - version[i];
        TESS_CHECK(age >= 0, TESS_E_INVALID,
                   "token %" PRId64 " was drawn by weights of version %" PRId32
                   ", but those that train are version %" PRId64 ": the journal belongs to a later state of the run",
                   i, version[i], now);
        more.n_tokens++;
        more.sum += age;
        more.max = age > more.max ? age : more.max;
        more.n_stale += age >= stale;
    }
    tess_policy_lag_merge(&more, lag);
    return TESS_OK;
}

void tess_policy_lag_merge(const tess_policy_lag *more, tess_policy_lag *lag)
{
    lag->n_tokens += more->n_tokens;
    lag->sum += more->sum;
    lag->max = more->max > lag->max ? more->max : lag->max;
    lag->n_stale += more->n_stale;
}

double tess_policy_lag_mean(const tess_policy_lag *lag)
{
    return lag->n_tokens > 0 ? (double)lag->sum / (double)lag->n_tokens : 0;
}

tess_policy_lag_verdict tess_policy_lag_judge(const tess_policy_lag *lag, double kl,
                                              const tess_policy_lag_limits *limits, char *text, size_t size)
{
    static const double near = 0.8;
    double mean = tess_policy_lag_mean(lag),
           share = lag->n_tokens > 0 ? (double)lag->n_stale / (double)lag->n_tokens : 0;
    const struct {
        const char *what;
        double value, limit;
    } measures[] = {{"mean age", mean, limits->mean},
                    {"largest age", (double)lag->max, (double)limits->max},
                    {"share of stale tokens", share, limits->stale_share},
                    {"KL", kl, limits->kl}};
    if (lag->max == 0) {
        snprintf(text, size, "on-policy: all %" PRId64 " tokens are of the weights that train on them", lag->n_tokens);
        return TESS_LAG_NONE;
    }
    int worst = -1;
    for (int i = 0; i < 4; i++)
        if (measures[i].limit > 0 && measures[i].value > 0 &&
            (worst < 0 || measures[i].value * measures[worst].limit > measures[worst].value * measures[i].limit))
            worst = i;
    double used = worst >= 0 ? measures[worst].value / measures[worst].limit : 0;
    tess_policy_lag_verdict verdict = used > 1 ? TESS_LAG_SYNC : used > near ? TESS_LAG_NEAR : TESS_LAG_BEARABLE;
    int at = snprintf(text, size, "tokens are %.3g versions old in the mean, at most %" PRId64, mean, lag->max);
    if (verdict != TESS_LAG_BEARABLE && at > 0 && (size_t)at < size)
        snprintf(text + at, size - (size_t)at, "; %s %.3g, limit %.3g: %s", measures[worst].what, measures[worst].value,
                 measures[worst].limit,
                 verdict == TESS_LAG_SYNC ? "give the generator new weights, or lower rollout.lag" : "near the limit");
    return verdict;
}
