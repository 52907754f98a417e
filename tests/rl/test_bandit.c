/* Bandits with a known optimum: a softmax over 8 arms, learned by every algorithm from drawn actions. A response is two
 * draws of the same policy, its reward the sum of what the arms pay, with noise. */
#include <math.h>

#include "base/core/rng.h"
#include "rl/algo/rl_advantage.h"
#include "rl/algo/rl_dpo.h"
#include "rl/algo/rl_moments.h"
#include "rl/algo/rl_policy_loss.h"
#include "rl/algo/rl_value.h"
#include "support/test.h"

enum { ARMS = 8, TOKENS = 2, GROUPS = 16, GROUP = 8, SEQS = GROUPS * GROUP, ROWS = SEQS * TOKENS, BEST = 5 };

static const double pays[ARMS] = {0.1, 0.5, -0.3, 0.8, 0, 1.2, 0.3, -0.8};

/* Logits, and what follows from them. */
typedef struct policy {
    double logit[ARMS], logp[ARMS], entropy;
} policy;

static void refresh(policy *p)
{
    double top = p->logit[0], sum = 0;
    for (int a = 1; a < ARMS; a++)
        top = fmax(p->logit[a], top);
    for (int a = 0; a < ARMS; a++)
        sum += exp(p->logit[a] - top);
    const double z = top + log(sum);
    p->entropy = 0;
    for (int a = 0; a < ARMS; a++) {
        p->logp[a] = p->logit[a] - z;
        p->entropy -= exp(p->logp[a]) * p->logp[a];
    }
}

static int draw(const policy *p, double u)
{
    int a = 0;
    for (u -= exp(p->logp[0]); u >= 0 && a < ARMS - 1; u -= exp(p->logp[a]))
        a++;
    return a;
}

/* One way to learn. */
typedef struct recipe {
    const char *name;
    tess_policy_options options;
    tess_advantage_kind advantage;
    bool stale; /* the samples come from the policy two steps ago */
} recipe;

/* A step's samples. */
typedef struct step_rows {
    int32_t cu[SEQS + 1];
    int arm[ROWS];
    uint8_t mask[ROWS];
    float advantage[ROWS], old_logprob[ROWS], rollout[ROWS], reference[ROWS], seq_scale[SEQS];
    double reward[SEQS], divisor;
} step_rows;

static void sample(const policy *actor, const policy *now, uint64_t step, step_rows *s)
{
    for (int i = 0; i < SEQS; i++) {
        s->cu[i + 1] = (i + 1) * TOKENS;
        s->reward[i] = 0;
        for (int row = i * TOKENS; row < (i + 1) * TOKENS; row++) {
            int arm = draw(actor, tess_rng_uniform(1, TESS_RNG_TEST, step, (uint64_t)row));
            s->arm[row] = arm;
            s->mask[row] = 1;
            s->rollout[row] = (float)actor->logp[arm];
            s->old_logprob[row] = (float)now->logp[arm];
            s->reference[row] = -logf(ARMS);
            s->reward[i] += pays[arm] + 0.3 * tess_rng_normal(2, TESS_RNG_TEST, step, (uint64_t)row);
        }
    }
}

static void whiten(step_rows *s)
{
    static tess_moments moments;
    memset(&moments, 0, sizeof(moments));
    tess_moments_add_rows(&moments, s->advantage, s->mask, ROWS);
    tess_whiten(&moments, 1e-8, s->mask, s->advantage, ROWS);
}

/* The critic knows one number for each position of a response. */
static void advantages_of_critic(step_rows *s, const float *reward, double *critic)
{
    static float value[ROWS], ret[ROWS], dvalue[ROWS];
    static tess_value_sums sums;
    for (int row = 0; row < ROWS; row++)
        value[row] = (float)critic[row % TOKENS];
    tess_gae(1, 0.95, SEQS, s->cu, s->mask, reward, value, s->advantage, ret);
    EXPECT_OK(tess_value_grade(0.5, s->mask, value, value, ret, ROWS, dvalue, &sums));
    for (int row = 0; row < ROWS; row++)
        critic[row % TOKENS] -= 0.2 * dvalue[row] / SEQS;
}

static void advantages(const recipe *r, step_rows *s, double *critic)
{
    static float reward[ROWS];
    int64_t group[GROUPS + 1];
    double sequence[SEQS];
    for (int g = 0; g <= GROUPS; g++)
        group[g] = g * GROUP;
    EXPECT_OK(tess_group_advantages(r->advantage, 1e-6, s->reward, NULL, SEQS, group, GROUPS, sequence));
    tess_token_spread(SEQS, s->cu, s->mask, sequence, s->advantage);
    bool by_token = r->advantage == TESS_ADV_REINFORCE_PP || r->advantage == TESS_ADV_GAE;
    if (by_token)
        tess_token_rewards(0.01, TESS_KL_K1, SEQS, s->cu, s->mask, sequence, s->rollout, s->reference, reward);
    if (r->advantage == TESS_ADV_REINFORCE_PP)
        tess_returns_to_go(1, SEQS, s->cu, s->mask, reward, s->advantage);
    if (r->advantage == TESS_ADV_GAE)
        advantages_of_critic(s, reward, critic);
    if (by_token || r->advantage == TESS_ADV_REINFORCE_PP_BASELINE)
        whiten(s);
}

/* One update of the logits. */
static void update(const recipe *r, const step_rows *s, double rate, policy *p)
{
    static float logprob[ROWS], entropy[ROWS], dlogprob[ROWS], dentropy[ROWS];
    static tess_policy_sums sums;
    const tess_policy_rows rows = {.n_rows = ROWS,
                                   .n_seqs = SEQS,
                                   .cu = s->cu,
                                   .mask = s->mask,
                                   .advantage = s->advantage,
                                   .old_logprob = s->old_logprob,
                                   .rollout_logprob = s->rollout,
                                   .reference = s->reference,
                                   .seq_scale = s->seq_scale};
    double gradient[ARMS] = {0};
    for (int row = 0; row < ROWS; row++) {
        logprob[row] = (float)p->logp[s->arm[row]];
        entropy[row] = (float)p->entropy;
    }
    EXPECT_OK(tess_policy_grade(&r->options, &rows, 0, ROWS, logprob, entropy, dlogprob, dentropy, &sums));
    for (int row = 0; row < ROWS; row++) {
        for (int a = 0; a < ARMS; a++) {
            double prob = exp(p->logp[a]);
            gradient[a] += dlogprob[row] * ((a == s->arm[row]) - prob);
            gradient[a] -= dentropy[row] * prob * (p->logp[a] + p->entropy);
        }
    }
    for (int a = 0; a < ARMS; a++)
        p->logit[a] -= rate * gradient[a] / s->divisor;
    refresh(p);
}

static void learn(const recipe *r, int n_steps, double rate, policy *p)
{
    static step_rows s;
    policy past[2]; /* policies of the last two steps */
    double critic[TOKENS] = {0};
    int64_t lengths[SEQS];
    for (int i = 0; i < SEQS; i++)
        lengths[i] = TOKENS;
    EXPECT_OK(tess_policy_options_check(&r->options));
    EXPECT_OK(tess_reduction_plan(r->options.reduction, r->options.constant, lengths, SEQS, s.seq_scale, &s.divisor));
    *p = (policy){0};
    refresh(p);
    past[0] = past[1] = *p;
    for (int step = 0; step < n_steps; step++) {
        policy now = *p;
        sample(r->stale ? &past[step % 2] : &now, &now, (uint64_t)step, &s);
        past[step % 2] = now;
        advantages(r, &s, critic);
        for (int epoch = 0; epoch < 2; epoch++)
            update(r, &s, rate * (1 - 0.9 * step / n_steps), p);
    }
}

#define CLIPS .clip_low = 0.2, .clip_high = 0.28

static const recipe recipes[] = {
    {"grpo", {TESS_POLICY_PPO, CLIPS, .reduction = TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN}, TESS_ADV_GRPO, false},
    {"dapo", {TESS_POLICY_PPO, CLIPS, .dual_clip = 3}, TESS_ADV_GRPO, false},
    {"dr. grpo",
     {TESS_POLICY_PPO, CLIPS, .reduction = TESS_REDUCE_CONSTANT, .constant = TOKENS},
     TESS_ADV_DR_GRPO,
     false},
    {"rloo", {TESS_POLICY_REINFORCE, .reduction = TESS_REDUCE_SEQ_MEAN_TOKEN_SUM}, TESS_ADV_RLOO, false},
    {"batch std", {TESS_POLICY_PPO, CLIPS}, TESS_ADV_BATCH_STD, false},
    {"gspo", {TESS_POLICY_GSPO, CLIPS, .reduction = TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN}, TESS_ADV_GRPO, false},
    {"cispo", {TESS_POLICY_CISPO, .clip_low = 1, .clip_high = 0.28}, TESS_ADV_GRPO, false},
    {"reinforce", {TESS_POLICY_REINFORCE}, TESS_ADV_DR_GRPO, false},
    {"reinforce++", {TESS_POLICY_PPO, CLIPS}, TESS_ADV_REINFORCE_PP, false},
    {"reinforce++ with baseline", {TESS_POLICY_PPO, CLIPS}, TESS_ADV_REINFORCE_PP_BASELINE, false},
    {"ppo with a critic", {TESS_POLICY_PPO, CLIPS}, TESS_ADV_GAE, false},
    {"tis on stale samples",
     {TESS_POLICY_PPO, CLIPS, .correction = TESS_CORRECT_TIS, .correction_high = 2},
     TESS_ADV_GRPO,
     true},
    {"icepop on stale samples",
     {TESS_POLICY_PPO, CLIPS, .correction = TESS_CORRECT_ICEPOP, .correction_low = 0.5, .correction_high = 2},
     TESS_ADV_GRPO,
     true},
    {"sequence mask on stale samples",
     {TESS_POLICY_PPO, CLIPS, .correction = TESS_CORRECT_SEQUENCE_MASK, .correction_low = 0.5, .correction_high = 2},
     TESS_ADV_GRPO,
     true},
    {"opsm on stale samples", {TESS_POLICY_PPO, CLIPS, .opsm_delta = 0.05}, TESS_ADV_GRPO, true},
};

static void every_algorithm_finds_the_best_arm(void)
{
    for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++) {
        policy p;
        learn(&recipes[i], 200, 0.5, &p);
        if (!(exp(p.logp[BEST]) > 0.9))
            test_fail(__FILE__, __LINE__, "%s: the best arm has probability %g", recipes[i].name, exp(p.logp[BEST]));
    }
}

/* If the entropy, or the KL to the uniform policy, has weight w, the optimum is p ~ e^(pays / w). Advantages are
 * those whose expectation is the gradient. */
static void expect_boltzmann(const recipe *r, double weight)
{
    policy p, want;
    learn(r, 2000, 0.3, &p);
    for (int a = 0; a < ARMS; a++)
        want.logit[a] = pays[a] / weight;
    refresh(&want);
    for (int a = 0; a < ARMS; a++) {
        if (!(fabs(exp(p.logp[a]) - exp(want.logp[a])) < 0.02))
            test_fail(__FILE__, __LINE__, "%s: arm %d has probability %g, the optimum %g", r->name, a, exp(p.logp[a]),
                      exp(want.logp[a]));
    }
}

static void entropy_and_kl_lead_to_the_boltzmann_policy(void)
{
    const recipe regular[] = {
        {"entropy", {TESS_POLICY_PPO, CLIPS, .entropy_coef = 0.5}, TESS_ADV_RLOO, false},
        {"k2", {TESS_POLICY_PPO, CLIPS, .kl = TESS_KL_K2, .kl_beta = 0.5}, TESS_ADV_RLOO, false},
    };
    for (size_t i = 0; i < sizeof(regular) / sizeof(regular[0]); i++)
        expect_boltzmann(&regular[i], 0.5);
}

/* Pairs that Bradley and Terry's model ranks by what the arms pay: DPO's optimum is p ~ e^(pays / beta). */
static void learn_pairs(const tess_dpo_options *options, policy *p)
{
    enum { PAIRS = 64 };
    int32_t cu[2 * PAIRS + 1];
    uint8_t mask[2 * PAIRS];
    float logprob[2 * PAIRS], reference[2 * PAIRS], dlogprob[2 * PAIRS];
    int arm[2 * PAIRS];
    const tess_dpo_rows rows = {.n_rows = 2 * PAIRS, .n_pairs = PAIRS, .cu = cu, .mask = mask, .reference = reference};
    static tess_dpo_sums sums;
    *p = (policy){0};
    refresh(p);
    for (uint64_t step = 0; step < 1500; step++) {
        double gradient[ARMS] = {0};
        for (uint64_t j = 0; j < PAIRS; j++) {
            int a = (int)(tess_rng_u64(3, TESS_RNG_TEST, step, 3 * j) % ARMS);
            int b = (int)(tess_rng_u64(3, TESS_RNG_TEST, step, 3 * j + 1) % ARMS);
            bool a_wins = tess_rng_uniform(3, TESS_RNG_TEST, step, 3 * j + 2) < 1 / (1 + exp(pays[b] - pays[a]));
            arm[2 * j] = a_wins ? a : b;
            arm[2 * j + 1] = a_wins ? b : a;
        }
        for (int row = 0; row <= 2 * PAIRS; row++)
            cu[row] = row;
        for (int row = 0; row < 2 * PAIRS; row++) {
            mask[row] = 1;
            logprob[row] = (float)p->logp[arm[row]];
            reference[row] = -logf(ARMS);
        }
        EXPECT_OK(tess_dpo_grade(options, &rows, logprob, dlogprob, &sums));
        for (int row = 0; row < 2 * PAIRS; row++) {
            for (int a = 0; a < ARMS; a++)
                gradient[a] += dlogprob[row] * ((a == arm[row]) - exp(p->logp[a]));
        }
        for (int a = 0; a < ARMS; a++)
            p->logit[a] -= (1 - 0.95 * (double)step / 1500) * gradient[a] / PAIRS;
        refresh(p);
    }
}

static void pairs_lead_to_the_policy_of_bradley_and_terry(void)
{
    policy p, want;
    const tess_dpo_options sigmoid = {.kind = TESS_DPO_SIGMOID, .beta = 0.5};
    for (int a = 0; a < ARMS; a++)
        want.logit[a] = pays[a] / sigmoid.beta;
    refresh(&want);
    learn_pairs(&sigmoid, &p);
    for (int a = 0; a < ARMS; a++) {
        if (!(fabs(exp(p.logp[a]) - exp(want.logp[a])) < 0.03))
            test_fail(__FILE__, __LINE__, "arm %d has probability %g, the optimum %g", a, exp(p.logp[a]),
                      exp(want.logp[a]));
    }
    for (int kind = TESS_DPO_IPO; kind <= TESS_DPO_HINGE; kind++) {
        const tess_dpo_options options = {.kind = (tess_dpo_kind)kind, .beta = 0.5};
        learn_pairs(&options, &p);
        for (int a = 0; a < ARMS; a++)
            EXPECT(a == BEST || p.logp[BEST] > p.logp[a]);
    }
}

static const test_case cases[] = {
    CASE(every_algorithm_finds_the_best_arm),
    CASE(entropy_and_kl_lead_to_the_boltzmann_policy),
    CASE(pairs_lead_to_the_policy_of_bradley_and_terry),
};
TEST_MAIN(cases)
