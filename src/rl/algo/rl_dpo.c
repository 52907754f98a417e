#include "rl/algo/rl_dpo.h"

#include <math.h>
#include <string.h>

#include "rl/algo/rl_words.h"

/* The sums of one response, chosen or rejected. */
typedef struct dpo_side {
    double logp, gap; /* sums over its tokens: log p, log p - log p_ref */
    double share;     /* weight of a token in h: 1, or for means 1 / tokens */
} dpo_side;

tess_status tess_dpo_options_check(const tess_dpo_options *o)
{
    TESS_CHECK(isfinite(o->beta) && o->beta > 0, TESS_E_INVALID, "dpo: beta is %g; it must be above 0", o->beta);
    TESS_CHECK(o->label_smoothing >= 0 && o->label_smoothing < 0.5, TESS_E_INVALID,
               "dpo: label smoothing is %g; it must be in [0, 0.5)", o->label_smoothing);
    TESS_CHECK(o->label_smoothing == 0 || o->kind == TESS_DPO_SIGMOID, TESS_E_INVALID,
               "dpo: label smoothing goes with the sigmoid loss only");
    return TESS_OK;
}

static dpo_side look_at_side(const tess_dpo_options *o, const tess_dpo_rows *rows, int64_t s, const float *logprob)
{
    dpo_side side = {.share = 1};
    double n = 0;
    for (int64_t row = rows->cu[s]; row < rows->cu[s + 1]; row++) {
        if (!rows->mask[row])
            continue;
        n++;
        side.logp += logprob[row];
        side.gap += (double)logprob[row] - (rows->reference != NULL ? rows->reference[row] : 0);
    }
    if (o->kind == TESS_DPO_IPO && n > 0)
        side.share = 1 / n;
    return side;
}

/* log(1 / (1 + e^-x)) */
static double log_sigmoid(double x)
{
    return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x));
}

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* Returns a pair's loss, and sets its derivative by h. */
static double pair_loss(const tess_dpo_options *o, double h, double *slope)
{
    double z = o->beta * h, e = o->label_smoothing, off = h - 1 / (2 * o->beta);
    switch (o->kind) {
    case TESS_DPO_IPO:
        *slope = 2 * off;
        return off * off;
    case TESS_DPO_HINGE:
        *slope = z < 1 ? -o->beta : 0;
        return z < 1 ? 1 - z : 0;
    case TESS_DPO_SIGMOID:
        break;
    }
    *slope = -o->beta * ((1 - e) * sigmoid(-z) - e * sigmoid(z));
    return -(1 - e) * log_sigmoid(z) - e * log_sigmoid(-z);
}

static void put_slope(const tess_dpo_rows *rows, int64_t s, double slope, float *dlogprob)
{
    for (int64_t row = rows->cu[s]; row < rows->cu[s + 1]; row++) {
        if (rows->mask[row])
            dlogprob[row] = (float)slope;
    }
}

tess_status tess_dpo_grade(const tess_dpo_options *o, const tess_dpo_rows *rows, const float *logprob, float *dlogprob,
                           tess_dpo_sums *sums)
{
    memset(dlogprob, 0, (size_t)rows->n_rows * sizeof(*dlogprob));
    for (int64_t j = 0; j < rows->n_pairs; j++) {
        dpo_side chosen = look_at_side(o, rows, 2 * j, logprob), rejected = look_at_side(o, rows, 2 * j + 1, logprob);
        TESS_CHECK(isfinite(chosen.gap) && isfinite(rejected.gap), TESS_E_NOT_FINITE,
                   "dpo: pair %lld's log-probabilities beside the reference's add up to %g (chosen) and %g (rejected)",
                   (long long)j, chosen.gap, rejected.gap);
        double slope, h = chosen.share * chosen.gap - rejected.share * rejected.gap;
        double part[TESS_DPO_SUM_COUNT] = {pair_loss(o, h, &slope), o->beta * chosen.gap, o->beta * rejected.gap,
                                           chosen.logp, rejected.logp};
        for (int i = 0; i < TESS_DPO_SUM_COUNT; i++)
            tess_exact_add(&sums->sum[i], part[i]);
        sums->n_pairs++;
        sums->n_right += chosen.gap > rejected.gap;
        put_slope(rows, 2 * j, slope * chosen.share, dlogprob);
        put_slope(rows, 2 * j + 1, -slope * rejected.share, dlogprob);
    }
    return TESS_OK;
}

void tess_dpo_sums_pack(const tess_dpo_sums *sums, int64_t *words)
{
    tess_exact_pack(sums->sum, TESS_DPO_SUM_COUNT, words);
    words[TESS_DPO_SUM_COUNT * TESS_EXACT_LIMBS] = sums->n_pairs;
    words[TESS_DPO_SUM_COUNT * TESS_EXACT_LIMBS + 1] = sums->n_right;
}

void tess_dpo_sums_unpack(const int64_t *words, tess_dpo_sums *sums)
{
    tess_exact_unpack(words, TESS_DPO_SUM_COUNT, sums->sum);
    sums->n_pairs = words[TESS_DPO_SUM_COUNT * TESS_EXACT_LIMBS];
    sums->n_right = words[TESS_DPO_SUM_COUNT * TESS_EXACT_LIMBS + 1];
}

void tess_dpo_metrics(const tess_dpo_sums *sums, tess_metric *out)
{
    double n = sums->n_pairs > 0 ? (double)sums->n_pairs : 1, mean[TESS_DPO_SUM_COUNT];
    for (int i = 0; i < TESS_DPO_SUM_COUNT; i++)
        mean[i] = tess_exact_value(&sums->sum[i]) / n;
    out[0] = (tess_metric){"train/loss", mean[TESS_DPO_SUM_LOSS]};
    out[1] = (tess_metric){"rewards/chosen", mean[TESS_DPO_SUM_CHOSEN]};
    out[2] = (tess_metric){"rewards/rejected", mean[TESS_DPO_SUM_REJECTED]};
    out[3] = (tess_metric){"rewards/margins", mean[TESS_DPO_SUM_CHOSEN] - mean[TESS_DPO_SUM_REJECTED]};
    out[4] = (tess_metric){"rewards/accuracies", (double)sums->n_right / n};
    out[5] = (tess_metric){"logps/chosen", mean[TESS_DPO_SUM_CHOSEN_LOGP]};
    out[6] = (tess_metric){"logps/rejected", mean[TESS_DPO_SUM_REJECTED_LOGP]};
}
