/* Turns a step's sums into words for other ranks, the loss, and the metrics. */
#include "rl/algo/rl_policy_loss.h"

#include <math.h>
#include <string.h>

#include "rl/algo/rl_words.h"

void tess_policy_sums_pack(const tess_policy_sums *sums, int64_t *words)
{
    tess_exact_pack(sums->sum, TESS_POLICY_SUM_COUNT, words);
    memcpy(words + TESS_POLICY_SUM_COUNT * TESS_EXACT_LIMBS, sums->count, sizeof(sums->count));
}

void tess_policy_sums_unpack(const int64_t *words, tess_policy_sums *sums)
{
    tess_exact_unpack(words, TESS_POLICY_SUM_COUNT, sums->sum);
    memcpy(sums->count, words + TESS_POLICY_SUM_COUNT * TESS_EXACT_LIMBS, sizeof(sums->count));
}

/* A metric list under construction. */
typedef struct policy_report {
    const tess_policy_sums *sums;
    double divisor, n; /* divisor of the loss; tokens, at least 1 */
    tess_metric *out;
    int n_out;
} policy_report;

static void put(policy_report *report, const char *name, double value)
{
    report->out[report->n_out++] = (tess_metric){name, value};
}

static double sum_of(const policy_report *report, tess_policy_sum which)
{
    return tess_exact_value(&report->sums->sum[which]);
}

static void put_mean(policy_report *report, const char *name, tess_policy_sum which)
{
    put(report, name, sum_of(report, which) / report->n);
}

static void put_share(policy_report *report, const char *name, int64_t count)
{
    put(report, name, (double)count / report->n);
}

/* Returns the unbiased variance from the sums of x and x^2. */
static void put_std(policy_report *report, const char *name, tess_policy_sum first, tess_policy_sum second)
{
    double sum = sum_of(report, first), squares = sum_of(report, second) - sum * sum / report->n;
    put(report, name, report->n > 1 && squares > 0 ? sqrt(squares / (report->n - 1)) : 0);
}

static double ratio_mean(const policy_report *report)
{
    return 1 + sum_of(report, TESS_POLICY_SUM_EXCESS) / report->n;
}

/* Returns the strength of the KL relative to the rewards: the ratio of their derivatives by log p, as root mean
 * squares over tokens. */
static void put_pull(policy_report *report)
{
    const double of_rewards = sum_of(report, TESS_POLICY_SUM_PULL_SQUARED);
    if (of_rewards > 0)
        put(report, "train/kl_pull", sqrt(sum_of(report, TESS_POLICY_SUM_KL_PULL_SQUARED) / of_rewards));
}

static void put_losses(policy_report *report, const tess_policy_options *o)
{
    put(report, "train/loss", tess_policy_loss(o, report->sums, report->divisor));
    put(report, "train/pg_loss", sum_of(report, TESS_POLICY_SUM_PG) / report->divisor);
    put(report, "train/entropy_loss", sum_of(report, TESS_POLICY_SUM_H) / report->divisor);
    put_mean(report, "train/entropy", TESS_POLICY_SUM_TOKEN_H);
    if (report->sums->count[TESS_POLICY_N_REFERENCE] > 0) {
        put(report, "train/kl_loss", sum_of(report, TESS_POLICY_SUM_KL) / report->divisor);
        put_mean(report, "train/kl", TESS_POLICY_SUM_TOKEN_KL);
        put_mean(report, "train/ref_k1", TESS_POLICY_SUM_REFERENCE_K1);
        put_pull(report);
    }
}

static void put_ratio(policy_report *report)
{
    const int64_t *count = report->sums->count;
    put_share(report, "train/pg_clipfrac", count[TESS_POLICY_N_CLIP_LOW] + count[TESS_POLICY_N_CLIP_HIGH]);
    put_share(report, "train/pg_clipfrac_low", count[TESS_POLICY_N_CLIP_LOW]);
    put_share(report, "train/pg_clipfrac_high", count[TESS_POLICY_N_CLIP_HIGH]);
    put_mean(report, "train/ppo_kl", TESS_POLICY_SUM_OLD_K1);
    put_mean(report, "train/approx_kl", TESS_POLICY_SUM_APPROX_KL);
    put(report, "train/ratio_mean", ratio_mean(report));
    put_std(report, "train/ratio_std", TESS_POLICY_SUM_EXCESS, TESS_POLICY_SUM_EXCESS_SQUARED);
    put(report, "train/ratio_max", report->sums->max[TESS_POLICY_MAX_RATIO]);
    put_mean(report, "train/advantage_mean", TESS_POLICY_SUM_ADVANTAGE);
    put_std(report, "train/advantage_std", TESS_POLICY_SUM_ADVANTAGE, TESS_POLICY_SUM_ADVANTAGE_SQUARED);
}

static void put_rollout(policy_report *report, const tess_policy_options *o)
{
    const tess_policy_sums *sums = report->sums;
    put_mean(report, "train/train_rollout_logprob_abs_diff", TESS_POLICY_SUM_DIFF);
    put(report, "train/train_rollout_logprob_max_diff", sums->max[TESS_POLICY_MAX_DIFF]);
    put(report, "train/train_rollout_logprob_differ", (double)sums->count[TESS_POLICY_N_DIFFER]);
    if (o->correction == TESS_CORRECT_NONE)
        return;
    put(report, "train/ois", ratio_mean(report));
    put_mean(report, "train/tis", TESS_POLICY_SUM_W);
    put_mean(report, "train/tis_abs", TESS_POLICY_SUM_W_ABS);
    put_mean(report, "train/tis_weight", TESS_POLICY_SUM_W_USED);
    put_share(report, "train/tis_clipfrac", sums->count[TESS_POLICY_N_W_CLIPPED]);
    put(report, "train/tis_max", sums->max[TESS_POLICY_MAX_W]);
}

double tess_policy_loss(const tess_policy_options *options, const tess_policy_sums *sums, double divisor)
{
    double loss = tess_exact_value(&sums->sum[TESS_POLICY_SUM_PG]) / divisor;
    loss += options->kl_beta * (tess_exact_value(&sums->sum[TESS_POLICY_SUM_KL]) / divisor);
    return loss - options->entropy_coef * (tess_exact_value(&sums->sum[TESS_POLICY_SUM_H]) / divisor);
}

int tess_policy_metrics(const tess_policy_options *options, const tess_policy_sums *sums, double divisor,
                        tess_metric *out)
{
    int64_t n = sums->count[TESS_POLICY_N_TOKENS];
    policy_report report = {.sums = sums, .divisor = divisor, .n = n > 0 ? (double)n : 1, .out = out};
    put_losses(&report, options);
    put_ratio(&report);
    if (options->dual_clip > 0)
        put_share(&report, "train/pg_clipfrac_dual", sums->count[TESS_POLICY_N_DUAL_CLIP]);
    put_rollout(&report, options);
    if (options->opsm_delta > 0)
        put_share(&report, "train/opsm_clipfrac", sums->count[TESS_POLICY_N_OPSM]);
    put(&report, "train/tokens", (double)n);
    return report.n_out;
}
