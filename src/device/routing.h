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

static inline tess_status tess_rule_check(int64_t E, int64_t K, const tess_route_rule *r)
{
    TESS_TRY(tess_route_check(E, K));
    TESS_CHECK(r->n_groups >= 0 && r->n_groups <= TESS_MAX_GROUPS && r->n_kept >= 0 && r->n_kept <= r->n_groups &&
                   (r->n_kept == 0 || (E % r->n_groups == 0 && r->n_kept * (E / r->n_groups) >= K)),
               TESS_E_INVALID, "route: %lld experts in %lld groups, %lld of each token", (long long)E,
               (long long)r->n_groups, (long long)r->n_kept);
    return TESS_OK;
}

static inline tess_status tess_sort_rows_check(const tess_sort_rows_args *a)
{
    TESS_CHECK(a->leaves >= 1 && a->T % a->leaves == 0, TESS_E_INVALID,
               "sort rows: %lld tokens do not make %lld equal leaves", (long long)a->T, (long long)a->leaves);
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

/* The largest scores so far, in descending order, while candidates come in ascending order. */
typedef struct tess_route_best {
    int64_t n; /* number of candidates in the list */
    float score[TESS_MAX_CHOICES];
} tess_route_best;

/* Adds a candidate to the list of at most K. An equal score does not replace an earlier one. */
TESS_SHARED void tess_route_offer(tess_route_best *best, int64_t K, float score, int64_t candidate, int32_t *chosen)
{
    int64_t k = best->n;
    if (k == K && (K == 0 || !(score > best->score[K - 1])))
        return;
    if (k == K)
        k--;
    else
        best->n++;
    for (; k > 0 && score > best->score[k - 1]; k--) {
        best->score[k] = best->score[k - 1];
        chosen[k] = chosen[k - 1];
    }
    best->score[k] = score;
    chosen[k] = (int32_t)candidate;
}

/* The score by which a token chooses expert e. */
TESS_SHARED float tess_route_score(const tess_route_args *a, const float *p, int64_t e)
{
    return a->bias == NULL ? p[e] : p[e] + tess_get_float(a->bias, a->bias_dtype, (size_t)e);
}

/* Returns the groups whose experts may be chosen, as bits. */
TESS_SHARED uint64_t tess_route_groups(const tess_route_args *a, const float *p)
{
    const int64_t n = a->rule.n_groups, size = n > 0 ? a->E / n : 0;
    int32_t kept[TESS_MAX_GROUPS];
    tess_route_best best;
    uint64_t bits = 0;
    best.n = 0;
    for (int64_t g = 0; g < n; g++) {
        float first = tess_route_score(a, p, g * size), second = -__builtin_inff();
        for (int64_t e = g * size + 1; e < (g + 1) * size; e++) {
            const float score = tess_route_score(a, p, e);
            second = score > first ? first : score > second ? score : second;
            first = score > first ? score : first;
        }
        tess_route_offer(&best, a->rule.n_kept, a->rule.two_best && size > 1 ? first + second : first, g, kept);
    }
    for (int64_t i = 0; i < best.n; i++)
        bits |= (uint64_t)1 << kept[i];
    return bits;
}

/* Chooses the experts of token t, whose p are written, and writes their weights. */
TESS_SHARED void tess_route_choose(const tess_route_args *a, int64_t t)
{
    const int64_t E = a->E, K = a->K, size = a->rule.n_kept > 0 ? E / a->rule.n_groups : E;
    const float *p = a->probs + t * E, scale = a->rule.scale != 0 ? a->rule.scale : 1;
    const uint64_t groups = a->rule.n_kept > 0 ? tess_route_groups(a, p) : 1;
    int32_t *chosen = a->chosen + t * K;
    float *weights = a->weights + t * K, sum = 0, bad = 0;
    tess_route_best best;
    best.n = 0;
    for (int64_t e = 0; e < E; e++) {
        const float score = tess_route_score(a, p, e);
        bad = score != score ? score : bad;
        if (groups >> (e / size) & 1)
            tess_route_offer(&best, K, score, e, chosen);
    }
    tess_route_sort(chosen, K);
    for (int64_t k = 0; k < K; k++)
        sum += p[chosen[k]];
    for (int64_t k = 0; k < K; k++) {
        const float w = a->rule.normalize ? p[chosen[k]] / (sum + 1e-20f) : p[chosen[k]];
        weights[k] = bad != bad ? bad : scale * w;
    }
}

/* Computes row t of dlogits. */
TESS_SHARED void tess_route_gradient(const tess_route_grad_args *a, int64_t t)
{
    const float *p = a->probs + t * a->E, *w = a->weights + t * a->K;
    const int32_t *chosen = a->chosen + t * a->K, *place = a->place + t * a->K;
    const float scale = a->rule.scale != 0 ? a->rule.scale : 1;
    float dp[TESS_MAX_CHOICES], total = 0, mean = 0, sum = 0;
    for (int64_t k = 0; k < a->K; k++) {
        dp[k] = a->dgate[place[k]];
        total += p[chosen[k]];
        mean += w[k] * dp[k];
        dp[k] *= scale;
    }
    for (int64_t k = 0; k < a->K && a->rule.normalize; k++)
        dp[k] = (dp[k] - mean) / (total + 1e-20f);
    const float z = a->lse != NULL ? a->z * a->lse[t] : 0;
    for (int pass = 0; pass < 2; pass++) /* the sum of p dp, then the gradient */
        for (int64_t e = 0, k = 0; e < a->E; e++) {
            float d = a->ends != NULL ? a->balance * (float)(a->ends[e] - (e > 0 ? a->ends[e - 1] : 0)) : 0;
            for (; k < a->K && chosen[k] == e; k++)
                d += dp[k];
            if (pass == 0)
                sum += p[e] * d;
            else
                tess_put_float(a->dlogits, a->dtype, (size_t)(t * a->E + e),
                               a->rule.sigmoid ? p[e] * (1 - p[e]) * d : p[e] * (d - sum + z));
        }
}

#endif
