#include "rl/algo/rl_value.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "rl/algo/rl_words.h"

/* Returns the token's loss and sets *slope to its derivative by the value. Counts whether the clipped square was the
 * larger. */
static double grade_value(double clip, double value, double old_value, double ret, double *slope, int64_t *n_clipped)
{
    double change = value - old_value, held = change < -clip ? -clip : change > clip ? clip : change;
    double error = value - ret, clipped_error = old_value + held - ret;
    double open = error * error, clipped = clipped_error * clipped_error;
    /* Within the clip both squares are the same function. Outside, if they are equal, each counts half; the clip's
     * derivative on its bounds is 0. */
    bool within = change > -clip && change < clip;
    *slope = within || open > clipped ? error : open == clipped ? error / 2 : 0;
    *n_clipped += clipped > open;
    return (open > clipped ? open : clipped) / 2;
}

tess_status tess_value_grade(double clip, const uint8_t *mask, const float *value, const float *old_value,
                             const float *ret, int64_t n, float *dvalue, tess_value_sums *sums)
{
    bool clips = clip > 0 && old_value != NULL;
    for (int64_t i = 0; i < n; i++) {
        dvalue[i] = 0;
        if (!mask[i])
            continue;
        TESS_CHECK(isfinite(value[i]) && isfinite(ret[i]) && (!clips || isfinite(old_value[i])), TESS_E_NOT_FINITE,
                   "value loss: row %lld has value %g, old value %g, return %g", (long long)i, (double)value[i],
                   clips ? (double)old_value[i] : 0, (double)ret[i]);
        double slope, v = value[i], r = ret[i];
        tess_exact_add(&sums->loss,
                       grade_value(clips ? clip : INFINITY, v, clips ? old_value[i] : v, r, &slope, &sums->n_clipped));
        tess_moments_add(&sums->value, v);
        tess_moments_add(&sums->ret, r);
        tess_moments_add(&sums->error, r - v);
        dvalue[i] = (float)slope;
    }
    return TESS_OK;
}

void tess_value_sums_pack(const tess_value_sums *sums, int64_t *words)
{
    tess_exact_pack(&sums->loss, 1, words);
    words += TESS_EXACT_LIMBS;
    tess_moments_pack(&sums->value, words);
    tess_moments_pack(&sums->ret, words + TESS_MOMENTS_WORDS);
    tess_moments_pack(&sums->error, words + 2 * TESS_MOMENTS_WORDS);
    words[3 * TESS_MOMENTS_WORDS] = sums->n_clipped;
}

void tess_value_sums_unpack(const int64_t *words, tess_value_sums *sums)
{
    tess_exact_unpack(words, 1, &sums->loss);
    words += TESS_EXACT_LIMBS;
    tess_moments_unpack(words, &sums->value);
    tess_moments_unpack(words + TESS_MOMENTS_WORDS, &sums->ret);
    tess_moments_unpack(words + 2 * TESS_MOMENTS_WORDS, &sums->error);
    sums->n_clipped = words[3 * TESS_MOMENTS_WORDS];
}

double tess_value_mean_loss(const tess_value_sums *sums)
{
    return tess_exact_value(&sums->loss) / (double)(sums->ret.n > 0 ? sums->ret.n : 1);
}

double tess_explained_variance(const tess_value_sums *sums)
{
    double all = tess_moments_variance(&sums->ret);
    return all > 0 ? 1 - tess_moments_variance(&sums->error) / all : 0;
}

void tess_value_metrics(const tess_value_sums *sums, tess_metric *out)
{
    double n = sums->ret.n > 0 ? (double)sums->ret.n : 1;
    out[0] = (tess_metric){"train/value_loss", tess_value_mean_loss(sums)};
    out[1] = (tess_metric){"train/value_clipfrac", (double)sums->n_clipped / n};
    out[2] = (tess_metric){"train/value_mean", tess_moments_mean(&sums->value)};
    out[3] = (tess_metric){"train/return_mean", tess_moments_mean(&sums->ret)};
    out[4] = (tess_metric){"train/explained_variance", tess_explained_variance(sums)};
}
