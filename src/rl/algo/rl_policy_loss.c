#include "rl/algo/rl_policy_loss.h"

#include <math.h>
#include <string.h>

/* The facts of one response token. */
typedef struct policy_token {
    double logprob, old, rollout, advantage, entropy;
    double scale; /* scale of the token's sequence */
} policy_token;

/* The facts of a sequence that its tokens need. Each is a mean over the response's tokens. */
typedef struct policy_sequence {
    double log_ratio;   /* log p - log p_old */
    double log_rollout; /* log p_old - log p_rollout */
} policy_sequence;

/* A token's term of the policy gradient and the term's derivative by log p. */
typedef struct policy_term {
    double loss, slope;
    bool clip_low, clip_high, dual_clip;
} policy_term;

tess_status tess_policy_options_check(const tess_policy_options *o)
{
    TESS_CHECK(o->clip_low >= 0, TESS_E_INVALID, "policy loss: the lower clip is %g; it must not be negative",
               o->clip_low);
    TESS_CHECK(o->clip_high >= 0, TESS_E_INVALID, "policy loss: the upper clip is %g; it must not be negative",
               o->clip_high);
    TESS_CHECK(o->dual_clip == 0 || (o->dual_clip > 1 && isfinite(o->dual_clip)), TESS_E_INVALID,
               "policy loss: the dual clip is %g; it must be above 1, or 0 for none", o->dual_clip);
    TESS_CHECK(isfinite(o->kl_beta) && o->kl_beta >= 0, TESS_E_INVALID,
               "policy loss: the weight of the KL is %g; it must not be negative", o->kl_beta);
    TESS_CHECK(isfinite(o->entropy_coef), TESS_E_INVALID, "policy loss: the weight of the entropy is %g",
               o->entropy_coef);
    TESS_CHECK(o->correction == TESS_CORRECT_NONE ||
                   (o->correction_low >= 0 && o->correction_low <= o->correction_high),
               TESS_E_INVALID, "policy loss: the correction's limits are %g and %g; they must ascend from 0",
               o->correction_low, o->correction_high);
    TESS_CHECK(isfinite(o->opsm_delta) && o->opsm_delta >= 0, TESS_E_INVALID,
               "policy loss: OPSM's delta is %g; it must be above 0, or 0 for off", o->opsm_delta);
    TESS_CHECK(o->reduction != TESS_REDUCE_CONSTANT || (isfinite(o->constant) && o->constant > 0), TESS_E_INVALID,
               "policy loss: the constant to divide by is %g; give the tokens of the longest response", o->constant);
    return TESS_OK;
}

bool tess_policy_needs_whole(const tess_policy_options *options)
{
    return options->kind == TESS_POLICY_GSPO || options->opsm_delta > 0;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* tess_safe_exp clamps its exponent to these. */
static double clamp_log(double x)
{
    return clamp(x, -20, 20);
}

/* max(-r A, -clip(r) A), limited to -c A if A < 0. slope_r: the derivative of r by log p. If two branches are equal,
 * each counts half; a clip's derivative on its bounds is 0. */
static policy_term clipped_term(const tess_policy_options *o, double ratio, double slope_r, double advantage)
{
    double low = 1 - o->clip_low, high = 1 + o->clip_high;
    double open = -ratio * advantage, clipped = -clamp(ratio, low, high) * advantage;
    bool on_bound = ratio == low || ratio == high;
    policy_term term = {.loss = open, .slope = -slope_r * advantage * (on_bound ? 0.5 : 1)};
    if (clipped > open)
        term = (policy_term){.loss = clipped, .clip_low = ratio<low, .clip_high = ratio> high};
    double most = -o->dual_clip * advantage;
    if (o->dual_clip > 0 && advantage < 0 && term.loss >= most) {
        term.dual_clip = term.loss > most;
        term.slope *= term.dual_clip ? 0 : 0.5;
        term.loss = most;
    }
    return term;
}

/* log_ratio: the log ratio that this kind of loss uses. */
static policy_term bare_term(const tess_policy_options *o, const policy_token *t, double log_ratio)
{
    double ratio = tess_safe_exp(log_ratio), bounded = clamp(ratio, 1 - o->clip_low, 1 + o->clip_high);
    switch (o->kind) {
    case TESS_POLICY_CISPO:
        return (policy_term){.loss = -bounded * t->advantage * t->logprob,
                             .slope = -bounded * t->advantage,
                             .clip_low = ratio<bounded, .clip_high = ratio> bounded};
    case TESS_POLICY_REINFORCE:
        return (policy_term){.loss = -t->advantage * t->logprob, .slope = -t->advantage};
    case TESS_POLICY_PPO:
    case TESS_POLICY_GSPO:
        break;
    }
    return clipped_term(o, ratio, fabs(log_ratio) < 20 ? ratio : 0, t->advantage);
}

/* Returns the correction factor of a term for a token that another policy has drawn; w: exp(log p_old - log
 * p_rollout). */
static double correction_weight(const tess_policy_options *o, const policy_sequence *sequence, double w)
{
    double judged = w;
    switch (o->correction) {
    case TESS_CORRECT_NONE:
        return 1;
    case TESS_CORRECT_TIS:
        return clamp(w, o->correction_low, o->correction_high);
    case TESS_CORRECT_ICEPOP:
        break;
    case TESS_CORRECT_SEQUENCE_MASK:
        judged = tess_safe_exp(sequence->log_rollout);
        break;
    }
    return judged >= o->correction_low && judged <= o->correction_high ? w : 0;
}

static bool opsm_drops(const tess_policy_options *o, const policy_sequence *sequence, double advantage)
{
    return o->opsm_delta > 0 && advantage < 0 && -sequence->log_ratio > o->opsm_delta;
}

static void raise(float *max, double value)
{
    *max = (float)value > *max ? (float)value : *max;
}

static void add_term(const policy_term *term, double weight, double scale, tess_policy_sums *sums)
{
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_PG], scale * weight * term->loss);
    sums->count[TESS_POLICY_N_CLIP_LOW] += term->clip_low;
    sums->count[TESS_POLICY_N_CLIP_HIGH] += term->clip_high;
    sums->count[TESS_POLICY_N_DUAL_CLIP] += term->dual_clip;
}

static void add_ratio(const policy_token *t, double log_ratio, tess_policy_sums *sums)
{
    double held = clamp_log(log_ratio), excess = expm1(held);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_EXCESS], excess);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_EXCESS_SQUARED], excess * excess);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_APPROX_KL], excess - held);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_OLD_K1], t->old - t->logprob);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_ADVANTAGE], t->advantage);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_ADVANTAGE_SQUARED], t->advantage * t->advantage);
    raise(&sums->max[TESS_POLICY_MAX_RATIO], excess + 1);
}

/* w: exp(log p_old - log p_rollout); weight: the factor that the term was multiplied by. */
static void add_rollout(const tess_policy_options *o, const policy_token *t, double w, double weight,
                        tess_policy_sums *sums)
{
    double diff = fabs(t->logprob - t->rollout);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_DIFF], diff);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_W], w);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_W_USED], weight);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_W_ABS], fabs(w - 1));
    sums->count[TESS_POLICY_N_W_CLIPPED] += o->correction != TESS_CORRECT_NONE && weight != w;
    raise(&sums->max[TESS_POLICY_MAX_DIFF], diff);
    raise(&sums->max[TESS_POLICY_MAX_W], w);
}

/* Computes the token's whole term, and returns its derivative by log p. */
static double grade_token(const tess_policy_options *o, const policy_token *t, const policy_sequence *sequence,
                          tess_policy_sums *sums)
{
    double log_ratio = o->kind == TESS_POLICY_GSPO ? sequence->log_ratio : t->logprob - t->old;
    policy_term term = bare_term(o, t, log_ratio);
    double w = tess_safe_exp(t->old - t->rollout), weight = correction_weight(o, sequence, w);
    bool dropped = opsm_drops(o, sequence, t->advantage);
    double used = dropped ? 0 : weight;
    sums->count[TESS_POLICY_N_TOKENS]++;
    sums->count[TESS_POLICY_N_OPSM] += dropped;
    add_term(&term, used, t->scale, sums);
    add_ratio(t, log_ratio, sums);
    add_rollout(o, t, w, weight, sums);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_H], t->scale * t->entropy);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_TOKEN_H], t->entropy);
    const double pull = used * term.slope;
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_PULL_SQUARED], pull * pull);
    return pull;
}

/* Returns beta times the KL's derivative by log p. */
static double grade_kl(const tess_policy_options *o, const policy_token *t, double reference, tess_policy_sums *sums)
{
    double slope, d = t->logprob - reference, kl = tess_kl_estimate(o->kl, d, &slope);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_KL], t->scale * kl);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_TOKEN_KL], kl);
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_REFERENCE_K1], d);
    sums->count[TESS_POLICY_N_REFERENCE]++;
    const double pull = o->kl_beta * slope;
    tess_exact_add(&sums->sum[TESS_POLICY_SUM_KL_PULL_SQUARED], pull * pull);
    return pull;
}

static const float *rollout_of(const tess_policy_rows *rows)
{
    return rows->rollout_logprob != NULL ? rows->rollout_logprob : rows->old_logprob;
}

/* logprob: (n_rows) used only if tess_policy_needs_whole. */
static policy_sequence look_at_sequence(const tess_policy_options *o, const tess_policy_rows *rows, int64_t s,
                                        const float *logprob)
{
    policy_sequence sequence = {0};
    bool whole = tess_policy_needs_whole(o), masks = o->correction == TESS_CORRECT_SEQUENCE_MASK;
    double n = 0;
    if (!whole && !masks)
        return sequence;
    for (int64_t row = rows->cu[s]; row < rows->cu[s + 1]; row++) {
        if (!rows->mask[row])
            continue;
        n++;
        sequence.log_ratio += whole ? (double)logprob[row] - rows->old_logprob[row] : 0;
        sequence.log_rollout += masks ? (double)rows->old_logprob[row] - rollout_of(rows)[row] : 0;
    }
    sequence.log_ratio /= n > 0 ? n : 1;
    sequence.log_rollout /= n > 0 ? n : 1;
    return sequence;
}

static tess_status check_token(const policy_token *t, double reference, int64_t row)
{
    const struct {
        const char *name;
        double value;
    } inputs[] = {{"log-probability", t->logprob},
                  {"entropy", t->entropy},
                  {"old log-probability", t->old},
                  {"log-probability of the rollout", t->rollout},
                  {"log-probability of the reference", reference},
                  {"advantage", t->advantage}};
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        TESS_CHECK(isfinite(inputs[i].value), TESS_E_NOT_FINITE, "policy loss: the %s of row %lld is %g",
                   inputs[i].name, (long long)row, inputs[i].value);
    return TESS_OK;
}

/* Returns the sequence that contains row `row`, or the first sequence after it. */
static int64_t sequence_at(const tess_policy_rows *rows, int64_t row)
{
    int64_t low = 0, high = rows->n_seqs; /* the first sequence that ends after the row is in [low, high] */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (rows->cu[middle + 1] > row)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

tess_status tess_policy_grade(const tess_policy_options *o, const tess_policy_rows *rows, int64_t begin, int64_t n,
                              const float *logprob, const float *entropy, float *dlogprob, float *dentropy,
                              tess_policy_sums *sums)
{
    TESS_CHECK(begin >= 0 && n >= 0 && begin + n <= rows->n_rows, TESS_E_INVALID,
               "policy loss: rows %lld to %lld of a micro-batch of %lld", (long long)begin, (long long)(begin + n),
               (long long)rows->n_rows);
    TESS_CHECK(
        !tess_policy_needs_whole(o) || n == rows->n_rows, TESS_E_INVALID,
        "policy loss: GSPO and OPSM look at whole sequences, and were given %lld of %lld rows; set `whole` of the "
        "token loss",
        (long long)n, (long long)rows->n_rows);
    memset(dlogprob, 0, (size_t)n * sizeof(*dlogprob));
    memset(dentropy, 0, (size_t)n * sizeof(*dentropy));
    for (int64_t s = sequence_at(rows, begin); s < rows->n_seqs && rows->cu[s] < begin + n; s++) {
        policy_sequence sequence = look_at_sequence(o, rows, s, logprob);
        double scale = rows->seq_scale != NULL ? rows->seq_scale[s] : 1;
        int64_t first = rows->cu[s] > begin ? rows->cu[s] : begin;
        int64_t end = rows->cu[s + 1] < begin + n ? rows->cu[s + 1] : begin + n;
        for (int64_t row = first; row < end; row++) {
            if (!rows->mask[row])
                continue;
            int64_t i = row - begin;
            policy_token t = {.logprob = logprob[i],
                              .old = rows->old_logprob[row],
                              .rollout = rollout_of(rows)[row],
                              .advantage = rows->advantage[row],
                              .entropy = entropy[i],
                              .scale = scale};
            double reference = rows->reference != NULL ? rows->reference[row] : 0;
            TESS_TRY(check_token(&t, reference, row));
            double slope = grade_token(o, &t, &sequence, sums);
            if (rows->reference != NULL)
                slope += grade_kl(o, &t, reference, sums);
            sums->count[TESS_POLICY_N_DIFFER] += memcmp(&logprob[i], &rollout_of(rows)[row], sizeof(float)) != 0;
            dlogprob[i] = (float)(scale * slope);
            dentropy[i] = (float)(-scale * o->entropy_coef);
        }
    }
    return TESS_OK;
}
