/* The report of a rollout and a step, for people and metrics.jsonl. Names are slime's where it has them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rl/rl_impl.h"
#include "rl/algo/policy_lag.h"

void rl_add_metric(rl_figures *f, const char *name, double value)
{
    enum { ROOM = sizeof(f->metrics) / sizeof(f->metrics[0]) };
    if (f->n < ROOM)
        f->metrics[f->n++] = (tess_metric){name, value};
}

/* ---- Lengths and rewards ---- */
typedef struct spread {
    double sum, least, most;
    int64_t n;
} spread;

static void see(spread *s, double value)
{
    s->least = s->n == 0 || value < s->least ? value : s->least;
    s->most = s->n == 0 || value > s->most ? value : s->most;
    s->sum += value;
    s->n++;
}

static double mean(const spread *s)
{
    return s->n > 0 ? s->sum / (double)s->n : 0;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of n > 0 lengths, which are sorted in a copy. */
static tess_status add_median(rl *r, const char *name, const int64_t *lengths, int64_t n)
{
    TESS_AUTO(tess_mem_drop) int64_t *sorted = NULL;
    TESS_TRY(TESS_NEW(r->mem, n, "lengths", &sorted));
    memcpy(sorted, lengths, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
    rl_add_metric(&r->figures, name, (double)(sorted[(n - 1) / 2] + sorted[n / 2]) / 2);
    return TESS_OK;
}

/* Returns the share of prompts whose rewards are all equal; nothing can be learned from them. */
static double zero_spread(const rl_rows *rows)
{
    int64_t n = 0;
    for (int64_t g = 0; g < rows->n_groups; g++) {
        const int64_t first = rows->group[g]; /* samples of one prompt are consecutive */
        n += !rl_rewards_differ(rows->samples[first], rows->group[g + 1] - first);
    }
    return rows->n_groups > 0 ? (double)n / (double)rows->n_groups : 0;
}

/* Adds the mean of each reward part over the samples that have it. Only the first names get a metric. */
static void report_parts(rl *r)
{
    static const char prefix[] = "rollout/reward/";
    spread parts[RL_PART_METRICS] = {{.n = 0}};
    int n = 0;
    for (int64_t i = 0; i < r->rows.n_seqs; i++) {
        const rl_sample *s = r->rows.samples[i];
        for (int k = 0; k < s->n_parts && s->grade == RL_SCORED; k++) {
            int at = 0;
            while (at < n && strcmp(r->figures.part_names[at] + sizeof(prefix) - 1, s->part[k].name) != 0)
                at++;
            if (at == RL_PART_METRICS)
                continue;
            if (at == n)
                snprintf(r->figures.part_names[n++], sizeof(r->figures.part_names[0]), "%s%s", prefix, s->part[k].name);
            see(&parts[at], s->part[k].value);
        }
    }
    for (int at = 0; at < n; at++)
        rl_add_metric(&r->figures, r->figures.part_names[at], mean(&parts[at]));
}

/* Reports the ages of the weights that drew the rollout, at its first step. Samples of another run have no age. */
static tess_status report_ages(rl *r)
{
    const rl_rows *rows = &r->rows;
    const int64_t now = r->training.rollout * rl_steps_per_rollout(r->config);
    const tess_policy_lag_limits limits = {.mean = r->config->rl.max_lag};
    tess_policy_lag lag = {0};
    char text[256];
    if (r->config->rl.phase == TESS_RL_TRAIN)
        return TESS_OK;
    TESS_TRY(tess_policy_lag_count(rows->version, rows->mask, rows->n_rows, now, 1, &lag));
    rl_add_metric(&r->figures, "rollout/weight_version_age/mean", tess_policy_lag_mean(&lag));
    rl_add_metric(&r->figures, "rollout/weight_version_age/max", (double)lag.max);
    if (tess_policy_lag_judge(&lag, -1, &limits, text, sizeof(text)) == TESS_LAG_SYNC)
        tess_trainer_note(r->trainer, "advice: rollout %lld: %s", (long long)r->training.rollout, text);
    return TESS_OK;
}

tess_status rl_report_rollout(rl *r)
{
    const rl_rows *rows = &r->rows;
    spread reward = {.n = 0}, length = {.n = 0};
    int64_t truncated = 0, none = 0, turns = 0;
    for (int64_t i = 0; i < rows->n_seqs; i++) {
        const rl_sample *s = rows->samples[i];
        truncated += s->finish == TESS_FINISH_LENGTH;
        none += s->grade != RL_SCORED;
        turns += s->turns;
        see(&length, (double)rows->n_targets[i]);
        if (s->grade == RL_SCORED)
            see(&reward, s->reward);
    }
    r->figures.n = 0;
    rl_add_metric(&r->figures, "rollout/raw_reward", mean(&reward)); /* RL_METRIC_REWARD */
    report_parts(r);
    rl_add_metric(&r->figures, "rollout/step", (double)r->training.rollout);
    rl_add_metric(&r->figures, "rollout/response_len/mean", mean(&length));
    TESS_TRY(add_median(r, "rollout/response_len/median", rows->n_targets, rows->n_seqs));
    rl_add_metric(&r->figures, "rollout/response_len/max", length.most);
    rl_add_metric(&r->figures, "rollout/response_len/min", length.least);
    rl_add_metric(&r->figures, "rollout/truncated_ratio", (double)truncated / (double)rows->n_seqs);
    rl_add_metric(&r->figures, "rollout/no_reward_ratio", (double)none / (double)rows->n_seqs);
    rl_add_metric(&r->figures, "rollout/zero_std_ratio", zero_spread(rows));
    rl_add_metric(&r->figures, "rollout/rounds", (double)r->newest.facts.rounds);
    if (r->environment != NULL)
        rl_add_metric(&r->figures, "rollout/turns/mean", (double)turns / (double)rows->n_seqs);
    if (r->config->rl.filter) {
        rl_add_metric(&r->figures, "rollout/dynamic_filter/drop_zero_std_low", (double)r->newest.facts.dropped[0]);
        rl_add_metric(&r->figures, "rollout/dynamic_filter/drop_zero_std_high", (double)r->newest.facts.dropped[1]);
    }
    TESS_TRY(report_ages(r));
    rl_add_metric(&r->figures, "perf/rollout_time", r->newest.facts.draw_s);
    rl_add_metric(&r->figures, "perf/reward_time", r->newest.facts.grade_s);
    rl_add_metric(&r->figures, "perf/log_probs_time", r->newest.facts.prepare_s);
    if (r->orders != NULL) {
        rl_add_metric(&r->figures, "perf/update_weights_time", r->sync.send_s);
        rl_add_metric(&r->figures, "perf/update_weights_bytes", (double)r->sync.sent_bytes);
        rl_add_metric(&r->figures, "perf/train_wait_time", r->sync.wait_s);
        r->sync = (rl_sync_facts){.sent_bytes = 0};
    }
    r->figures.n_of_rollout = r->figures.n;
    return TESS_OK;
}

/* ---- A step ---- */
static double value_of(const rl_figures *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->metrics[i].name, name) == 0)
            return f->metrics[i].value;
    return NAN;
}

static void say(rl *r, int64_t checked, int64_t differ, double diff)
{
    char n[32], m[32];
    size_t at = tess_text_add(r->figures.words, sizeof(r->figures.words), 0, "reward: %.4f  ",
                              value_of(&r->figures, "rollout/raw_reward"));
    if (checked > 0)
        at = tess_text_add(r->figures.words, sizeof(r->figures.words), at, "logprob_diff %.3g (%s of %s tokens)  ",
                           differ > 0 ? diff : 0, tess_format_grouped(differ, m, sizeof(m)),
                           tess_format_grouped(checked, n, sizeof(n)));
    else
        at = tess_text_add(r->figures.words, sizeof(r->figures.words), at, "off-policy  ");
    at = tess_text_add(r->figures.words, sizeof(r->figures.words), at,
                       "entropy: %.3f  clipped: %.1f%%  length: %.1f  zero_std: %.0f%%",
                       value_of(&r->figures, "train/entropy"), 100 * value_of(&r->figures, "train/pg_clipfrac"),
                       value_of(&r->figures, "rollout/response_len/mean"),
                       100 * value_of(&r->figures, "rollout/zero_std_ratio"));
    if (r->reference != NULL)
        tess_text_add(r->figures.words, sizeof(r->figures.words), at, "  kl: %.4f", r->figures.kl);
}

void rl_report_step(rl *r, const tess_policy_sums *sums, double divisor, int64_t checked, int64_t differ)
{
    tess_metric metrics[TESS_POLICY_METRICS_MAX];
    const int n = tess_policy_metrics(&r->policy, sums, divisor, metrics);
    const int64_t n_tokens = sums->count[TESS_POLICY_N_TOKENS];
    r->figures.kl = tess_exact_value(&sums->sum[TESS_POLICY_SUM_TOKEN_KL]) / (n_tokens > 0 ? (double)n_tokens : 1);
    r->figures.n = r->figures.n_of_rollout;
    for (int i = 0; i < n; i++) /* the loss includes the value loss of a shared trunk */
        rl_add_metric(&r->figures, metrics[i].name,
                      strcmp(metrics[i].name, "train/loss") == 0 ? r->figures.loss : metrics[i].value);
    if (r->rows.value != NULL) {
        tess_metric values[TESS_VALUE_METRICS];
        tess_value_metrics(&r->value_sums, values);
        for (int i = 0; i < TESS_VALUE_METRICS; i++)
            rl_add_metric(&r->figures, values[i].name, values[i].value);
    }
    rl_add_metric(&r->figures, "bit_wise/logprob_tokens", (double)checked);
    rl_add_metric(&r->figures, "bit_wise/logprob_tokens_different", (double)differ);
    if (r->reference != NULL)
        rl_add_metric(&r->figures, "train/kl_beta", r->training.kl_beta);
    say(r, checked, differ, (double)sums->max[TESS_POLICY_MAX_DIFF]);
}

void rl_report_pairs(rl *r, const tess_dpo_sums *sums)
{
    tess_metric metrics[TESS_DPO_METRICS];
    tess_dpo_metrics(sums, metrics);
    r->figures.n = 0;
    for (int i = 0; i < TESS_DPO_METRICS; i++)
        rl_add_metric(&r->figures, metrics[i].name, metrics[i].value);
    snprintf(r->figures.words, sizeof(r->figures.words), "accuracy: %.3f  margin: %.4f  chosen: %.4f  rejected: %.4f",
             value_of(&r->figures, "rewards/accuracies"), value_of(&r->figures, "rewards/margins"),
             value_of(&r->figures, "rewards/chosen"), value_of(&r->figures, "rewards/rejected"));
}

/* Reports the drift of the weights for which the step's gradient was computed. */
tess_status rl_report_drift(rl *r)
{
    double drift;
    if (r->reference == NULL || (r->engine->step + 1) % r->config->metrics.log_freq != 0)
        return TESS_OK;
    TESS_TRY(tess_reference_drift(r->reference, &drift));
    if (!isnan(drift)) /* a reference with other parameters has no drift */
        rl_add_metric(&r->figures, "train/ref_drift", drift);
    return TESS_OK;
}

/* ---- Advice ---- */
tess_status rl_advise(rl *r)
{
    const rl_figures *f = &r->figures;
    const bool reuses =
        rl_steps_per_rollout(r->config) > 1 || r->config->rollout.lag > 0; /* otherwise the ratio is 1 */
    tess_tuner_limits limits = tess_tuner_default_limits;
    tess_advice news[TESS_ADVICE_MAX];
    limits.kl_target = r->config->rl.kl_target;
    TESS_TRY(rl_advice_add(r->mem, &r->advice,
                           &(tess_tuner_step){.clip_fraction = reuses ? value_of(f, "train/pg_clipfrac") : NAN,
                                              .kl = r->reference != NULL ? f->kl : NAN,
                                              .ratio_mean = reuses ? value_of(f, "train/ratio_mean") : NAN,
                                              .entropy = value_of(f, "train/entropy"),
                                              .reward = f->metrics[RL_METRIC_REWARD].value,
                                              .loss = f->loss,
                                              .approx_kl = reuses ? value_of(f, "train/approx_kl") : NAN,
                                              .kl_pull = value_of(f, "train/kl_pull")}));
    if (r->engine->step < r->config->lr_scheduler.warmup_steps + limits.window)
        return TESS_OK; /* steps of a warm-up tell nothing about the settings */
    const int n = rl_advice_news(&r->advice, &limits, news);
    for (int i = 0; i < n; i++)
        tess_trainer_note(r->trainer, "advice: %s", news[i].text);
    return TESS_OK;
}
