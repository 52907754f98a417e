/* The choice of experts for a row of probabilities, and the gradient of its logits: one code for all tables, in which
 * sums run over experts ascending. */
#ifndef TESS_DEVICE_ROUTING_H
#define TESS_DEVICE_ROUTING_H

#include "device/bf16.h"
#include "device/elementwise.h"

static inline tess_status tess_route_check(int64_t E, int64_t K)
{
    TESS_CHECK(0 <= K && K <= E && K <= TESS_MAX_CHOICES, TESS_E_INVALID,
               "route: %lld of %lld experts for each token; at most %d are possible", (long long)K, (long long)E,
               TESS_MAX_CHOICES);
    return TESS_OK;
}

static inline tess_status tess_combine_check(tess_dtype dtype)
{
    return dtype == TESS_F16 ? TESS_OK : tess_check_dtype("combination of experts", dtype);
}

/* Sorts a few numbers, ascending. */
TESS_SHARED void tess_route_sort(int32_t *x, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        int32_t value = x[i];
        int64_t k = i;
        for (; k > 0 && x[k - 1] > value; k--)
            x[k] = x[k - 1];
        x[k] = value;
    }
}

/* Chooses the K experts with the largest p, and writes their weights. While experts come in ascending order, `best`
 * holds the largest p so far, in descending order; an equal p does not replace an earlier one. */
TESS_SHARED void tess_route_choose(const float *p, int64_t E, int64_t K, bool normalize, int32_t *chosen,
                                   float *weights)
{
    float best[TESS_MAX_CHOICES], sum = 0;
    for (int64_t e = 0; e < E; e++) {
        int64_t k = e < K ? e : K;
        if (k == K && !(p[e] > best[K - 1]))
            continue;
        if (k == K)
            k--;
        for (; k > 0 && p[e] > best[k - 1]; k--) {
            best[k] = best[k - 1];
            chosen[k] = chosen[k - 1];
        }
        best[k] = p[e];
        chosen[k] = (int32_t)e;
    }
    tess_route_sort(chosen, K);
    for (int64_t k = 0; k < K; k++)
        sum += p[chosen[k]];
    for (int64_t k = 0; k < K; k++)
        weights[k] = normalize ? p[chosen[k]] / sum : p[chosen[k]];
}

/* Computes row t of dlogits. */
TESS_SHARED void tess_route_gradient(const tess_route_grad_args *a, int64_t t)
{
    const float *p = a->probs + t * a->E, *w = a->weights + t * a->K;
    const int32_t *chosen = a->chosen + t * a->K, *place = a->place + t * a->K;
    float dp[TESS_MAX_CHOICES], total = 0, mean = 0, sum = 0;
    for (int64_t k = 0; k < a->K; k++) {
        dp[k] = a->dgate[place[k]];
        total += p[chosen[k]];
        mean += w[k] * dp[k];
    }
    for (int64_t k = 0; k < a->K && a->normalize; k++)
        dp[k] = (dp[k] - mean) / total;
    const float z = a->lse != NULL ? a->z * a->lse[t] : 0;
    for (int pass = 0; pass < 2; pass++) /* the sum of p dp, then the gradient */
        for (int64_t e = 0, k = 0; e < a->E; e++) {
            float d = a->ends != NULL ? a->balance * (float)(a->ends[e] - (e > 0 ? a->ends[e - 1] : 0)) : 0;
            for (; k < a->K && chosen[k] == e; k++)
                d += dp[k];
            if (pass == 0)
                sum += p[e] * d;
            else
                tess_put_float(a->dlogits, a->dtype, (size_t)(t * a->E + e), p[e] * (d - sum + z));
        }
}

#endif
