#include "rl/algo/rl_tuner.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const tess_tuner_limits tess_tuner_default_limits = {.window = 10,
                                                     .clip_high = 0.5,
                                                     .clip_low = 0.05,
                                                     .kl_high = 0.5,
                                                     .kl_low = 0.01,
                                                     .ratio_high = 2,
                                                     .ratio_low = 0.5,
                                                     .entropy_share = 0.1,
                                                     .plateau = 100,
                                                     .pull_high = 1,
                                                     .spike = 6};

const tess_tuner_preset tess_tuner_presets[TESS_TUNER_PRESETS] = {
    {.task = "llm_rlhf", .clip = 0.2, .kl_beta = 0.02, .entropy_coef = 0.01, .lr = 1e-5, .correction_high = 10},
    {.task = "llm_grpo", .clip = 0.1, .kl_beta = 0.05, .entropy_coef = 0.005, .lr = 5e-6, .correction_high = 5},
    {.task = "game_ai", .clip = 0.2, .kl_beta = 0.01, .entropy_coef = 0.02, .lr = 3e-4},
    {.task = "default", .clip = 0.2, .kl_beta = 0.02, .entropy_coef = 0.01, .lr = 1e-4}};

const tess_tuner_preset *tess_tuner_preset_find(const char *task)
{
    for (int i = 0; i < TESS_TUNER_PRESETS; i++) {
        if (strcmp(tess_tuner_presets[i].task, task) == 0)
            return &tess_tuner_presets[i];
    }
    return NULL;
}

bool tess_kl_too_far(double approx_kl, double target)
{
    return target > 0 && !(approx_kl <= 1.5 * target);
}

/* The history that is judged, and the advice so far. */
typedef struct tuner_case {
    const tess_tuner_limits *limits;
    const tess_tuner_step *history;
    int64_t n;
    tess_advice *advice;
    int n_advice;
} tuner_case;

/* Copies one number of the steps [begin, end), without steps in which it was not measured. */
typedef struct tuner_stats {
    int64_t n;
    double mean, variance; /* NaN or 0: there is no such step */
} tuner_stats;

static double number_at(const tuner_case *c, int64_t step, size_t field)
{
    double value;
    memcpy(&value, (const char *)&c->history[step] + field, sizeof(value));
    return value;
}

static tuner_stats stats_of(const tuner_case *c, size_t field, int64_t begin, int64_t end)
{
    tuner_stats stats = {.mean = NAN};
    double sum = 0, squares = 0;
    for (int64_t i = begin < 0 ? 0 : begin; i < end; i++) {
        double value = number_at(c, i, field);
        sum += isnan(value) ? 0 : value;
        stats.n += !isnan(value);
    }
    if (stats.n == 0)
        return stats;
    stats.mean = sum / (double)stats.n;
    for (int64_t i = begin < 0 ? 0 : begin; i < end; i++) {
        double off = number_at(c, i, field) - stats.mean;
        squares += isnan(off) ? 0 : off * off;
    }
    stats.variance = stats.n > 1 ? squares / (double)(stats.n - 1) : 0;
    return stats;
}

static double recent(const tuner_case *c, size_t field)
{
    return stats_of(c, field, c->n - c->limits->window, c->n).mean;
}

__attribute__((format(printf, 3, 4))) static void advise(tuner_case *c, tess_advice_kind kind, const char *format, ...)
{
    tess_advice *advice = &c->advice[c->n_advice++];
    va_list arguments;
    advice->kind = kind;
    va_start(arguments, format);
    vsnprintf(advice->text, sizeof(advice->text), format, arguments);
    va_end(arguments);
}

/* Whether training is on policy: one update per rollout, generated and trained with the same bits. Then every ratio
 * is 1, and nothing can be clipped. */
static bool on_policy(const tuner_case *c)
{
    return recent(c, offsetof(tess_tuner_step, ratio_mean)) == 1 &&
           recent(c, offsetof(tess_tuner_step, clip_fraction)) == 0;
}

static void judge_clip(tuner_case *c)
{
    double share = recent(c, offsetof(tess_tuner_step, clip_fraction));
    if (share > c->limits->clip_high)
        advise(
            c, TESS_ADVICE_CLIP_HIGH,
            "clip fraction %.3g is above %g: updates are too aggressive; lower the clip (0.2 -> 0.1) or the learning "
            "rate",
            share, c->limits->clip_high);
    if (share < c->limits->clip_low && !on_policy(c))
        advise(c, TESS_ADVICE_CLIP_LOW,
               "clip fraction %.3g is below %g: updates are too conservative; raise the clip (0.2 -> 0.3) or the "
               "learning rate",
               share, c->limits->clip_low);
}

static void judge_kl(tuner_case *c)
{
    double kl = recent(c, offsetof(tess_tuner_step, kl));
    if (kl > c->limits->kl_high)
        advise(c, TESS_ADVICE_KL_HIGH,
               "KL %.3g is above %g: the policy drifts away; raise the weight of the KL (0.02 -> 0.05) or lower the "
               "learning rate",
               kl, c->limits->kl_high);
    if (kl < c->limits->kl_low && !(kl == 0 && on_policy(c)))
        advise(c, TESS_ADVICE_KL_LOW,
               "KL %.3g is below %g: the policy hardly moves; lower the weight of the KL or raise the learning rate",
               kl, c->limits->kl_low);
}

static void judge_ratio(tuner_case *c)
{
    double ratio = recent(c, offsetof(tess_tuner_step, ratio_mean));
    if (ratio > c->limits->ratio_high || ratio < c->limits->ratio_low)
        advise(
            c, TESS_ADVICE_RATIO,
            "mean ratio %.3g is outside %g to %g: the policy has left the samples behind; lower the learning rate or "
            "generate more often",
            ratio, c->limits->ratio_low, c->limits->ratio_high);
}

static void judge_entropy(tuner_case *c)
{
    size_t field = offsetof(tess_tuner_step, entropy);
    double first = stats_of(c, field, 0, c->n < c->limits->window ? c->n : c->limits->window).mean;
    double now = recent(c, field);
    if (now < c->limits->entropy_share * first)
        advise(
            c, TESS_ADVICE_ENTROPY_COLLAPSE,
            "entropy fell from %.3g to %.3g: the policy collapses; lower the learning rate, or raise the upper clip or "
            "the weight of the entropy",
            first, now);
}

static void judge_reward(tuner_case *c)
{
    size_t field = offsetof(tess_tuner_step, reward);
    int64_t half = c->limits->plateau / 2;
    if (c->n < 2 * half)
        return;
    tuner_stats before = stats_of(c, field, c->n - 2 * half, c->n - half), now = stats_of(c, field, c->n - half, c->n);
    if (before.n == 0 || now.n == 0)
        return;
    double noise = sqrt(before.variance / (double)before.n + now.variance / (double)now.n);
    if (now.mean - before.mean <= noise)
        advise(c, TESS_ADVICE_REWARD_PLATEAU,
               "the reward has not risen in %lld steps (%.3g, then %.3g): stop, or look at the share of groups whose "
               "rewards are equal",
               (long long)(2 * half), before.mean, now.mean);
}

static void judge_loss(tuner_case *c)
{
    size_t field = offsetof(tess_tuner_step, loss);
    tuner_stats before = stats_of(c, field, c->n - 1 - c->limits->window, c->n - 1);
    double newest = number_at(c, c->n - 1, field), spread = sqrt(before.variance);
    if (before.n >= c->limits->window && fabs(newest - before.mean) > c->limits->spike * spread)
        advise(c, TESS_ADVICE_LOSS_SPIKE,
               "the loss jumped to %.3g from %.3g +- %.2g: look at this step's samples and gradient norm", newest,
               before.mean, spread);
}

static void judge_distance(tuner_case *c)
{
    const double approx_kl = c->history[c->n - 1].approx_kl;
    if (!isnan(approx_kl) && tess_kl_too_far(approx_kl, c->limits->kl_target))
        advise(
            c, TESS_ADVICE_KL_TOO_FAR,
            "KL %.3g from the weights that drew the rollout is above 1.5 times the target %g: its further updates do "
            "harm; fewer rl.updates or rl.epochs",
            approx_kl, c->limits->kl_target);
}

static void judge_balance(tuner_case *c)
{
    const double pull = recent(c, offsetof(tess_tuner_step, kl_pull));
    if (pull > c->limits->pull_high)
        advise(
            c, TESS_ADVICE_KL_DOMINATES,
            "the KL pulls at log-probabilities %.3g times as hard as the rewards do: lower its weight, or the policy "
            "learns the reference alone",
            pull);
}

int tess_tuner_diagnose(const tess_tuner_limits *limits, const tess_tuner_step *history, int64_t n, tess_advice *advice)
{
    tuner_case c = {.limits = limits, .history = history, .n = n, .advice = advice};
    if (n == 0)
        return 0;
    judge_clip(&c);
    judge_kl(&c);
    judge_ratio(&c);
    judge_entropy(&c);
    judge_reward(&c);
    judge_loss(&c);
    judge_distance(&c);
    judge_balance(&c);
    if (c.n_advice == 0)
        advise(&c, TESS_ADVICE_STABLE, "all metrics are normal: training is stable");
    return c.n_advice;
}
