/* Advice, presets, early stop and pass@k. */
#include "rl/algo/rl_tuner.h"

#include <math.h>

#include "rl/algo/rl_passk.h"
#include "rl/rl_advice.h"
#include "support/test.h"

enum { STEPS = 100 };

static void healthy(tess_tuner_step *history)
{
    for (int i = 0; i < STEPS; i++)
        history[i] = (tess_tuner_step){.clip_fraction = 0.15,
                                       .kl = 0.1,
                                       .ratio_mean = 1,
                                       .entropy = 2 - 0.01 * i,
                                       .reward = 0.1 + 0.005 * i + (i % 2 ? 0.02 : -0.02),
                                       .loss = i % 2 ? 0.1 : 0.12};
}

/* Exactly this advice, with the sentence saying `needle`. */
static void expect_advice(const tess_tuner_step *history, tess_advice_kind kind, const char *needle)
{
    tess_advice advice[TESS_ADVICE_MAX];
    int n = tess_tuner_diagnose(&tess_tuner_default_limits, history, STEPS, advice);
    if (n != 1)
        test_fail(__FILE__, __LINE__, "%d advices, the first \"%s\"", n, advice[0].text);
    EXPECT_CONTAINS(advice[0].text, needle);
    EXPECT_INT(advice[0].kind, kind);
}

/* Advice is news once, until it has not held for a step. */
static void advice_is_news_when_it_begins_to_hold(void)
{
    const tess_tuner_limits *limits = &tess_tuner_default_limits;
    tess_tuner_step h[STEPS];
    tess_advice news[TESS_ADVICE_MAX];
    rl_advice advice = {.n = 0};
    tess_mem *mem;
    int n_news = 0, first = -1;
    healthy(h);
    EXPECT_OK(tess_mem_create(&mem));
    for (int i = 0; i < STEPS; i++) {
        const bool ill = (i >= 20 && i < 40) || (i >= 60 && i < 80);
        h[i].clip_fraction = ill ? 0.9 : h[i].clip_fraction;
        EXPECT_OK(rl_advice_add(mem, &advice, &h[i]));
        const int n = rl_advice_news(&advice, limits, news);
        first = first < 0 && n > 0 ? i : first;
        for (int k = 0; k < n; k++)
            EXPECT_INT(news[k].kind, TESS_ADVICE_CLIP_HIGH);
        n_news += n;
    }
    EXPECT_INT(n_news, 2);
    EXPECT(first >= limits->window);
    rl_advice_free(mem, &advice);
    tess_mem_destroy(&mem);
}

static void each_limit_gives_its_advice_and_no_other(void)
{
    tess_tuner_step h[STEPS];
    healthy(h);
    expect_advice(h, TESS_ADVICE_STABLE, "stable");
#define OF_THE_LAST(field, value)              \
    healthy(h);                                \
    for (int i = STEPS - 10; i < STEPS; i++) { \
        h[i].field = (value);                  \
    }
    OF_THE_LAST(clip_fraction, 0.51)
    expect_advice(h, TESS_ADVICE_CLIP_HIGH, "0.51 is above 0.5");
    OF_THE_LAST(clip_fraction, 0.04)
    expect_advice(h, TESS_ADVICE_CLIP_LOW, "0.2 -> 0.3");
    OF_THE_LAST(kl, 0.6)
    expect_advice(h, TESS_ADVICE_KL_HIGH, "0.02 -> 0.05");
    OF_THE_LAST(kl, 0.009)
    expect_advice(h, TESS_ADVICE_KL_LOW, "lower the weight of the KL");
    OF_THE_LAST(ratio_mean, 2.1)
    expect_advice(h, TESS_ADVICE_RATIO, "2.1 is outside 0.5 to 2");
    OF_THE_LAST(ratio_mean, 0.4)
    expect_advice(h, TESS_ADVICE_RATIO, "generate more often");
    OF_THE_LAST(entropy, 0.1)
    expect_advice(h, TESS_ADVICE_ENTROPY_COLLAPSE, "collapses");
    OF_THE_LAST(kl_pull, 1.5)
    expect_advice(h, TESS_ADVICE_KL_DOMINATES, "1.5 times as hard as the rewards");
    OF_THE_LAST(kl_pull, 1)
    expect_advice(h, TESS_ADVICE_STABLE, "stable");
#undef OF_THE_LAST
    healthy(h);
    h[STEPS - 1].loss = 3;
    expect_advice(h, TESS_ADVICE_LOSS_SPIKE, "jumped to 3");
    healthy(h);
    for (int i = 0; i < STEPS; i++)
        h[i].reward = 0.3 + (i % 2 ? 0.1 : -0.1);
    expect_advice(h, TESS_ADVICE_REWARD_PLATEAU, "100 steps");
}

static void on_a_limit_and_after_one_bad_step_nothing_is_said(void)
{
    /* A value on a limit gives no advice; one bad step among ten does not make the mean bad. */
    tess_tuner_step h[STEPS];
    healthy(h);
    for (int i = STEPS - 10; i < STEPS; i++)
        h[i].clip_fraction = h[i].kl = 0.5;
    expect_advice(h, TESS_ADVICE_STABLE, "stable");
    healthy(h);
    h[STEPS - 3].kl = 2;
    expect_advice(h, TESS_ADVICE_STABLE, "stable");
}

static void on_policy_an_empty_clip_is_no_fault(void)
{
    tess_tuner_step h[STEPS];
    healthy(h);
    for (int i = 0; i < STEPS; i++)
        h[i].clip_fraction = h[i].kl = 0;
    expect_advice(h, TESS_ADVICE_STABLE, "stable");
    for (int i = 0; i < STEPS; i++)
        h[i].kl = 0.001; /* the KL to a reference does say something */
    expect_advice(h, TESS_ADVICE_KL_LOW, "hardly moves");
    h[STEPS - 1].ratio_mean = 1 + 1e-6;
    h[STEPS - 1].kl = 1;
    expect_advice(h, TESS_ADVICE_CLIP_LOW, "too conservative");
}

static void a_short_history_is_judged_by_what_it_has(void)
{
    tess_advice advice[TESS_ADVICE_MAX];
    tess_tuner_step one = {.clip_fraction = NAN, .kl = NAN, .ratio_mean = 1, .entropy = 1, .reward = 0, .loss = 5};
    EXPECT_INT(tess_tuner_diagnose(&tess_tuner_default_limits, NULL, 0, advice), 0);
    EXPECT_INT(tess_tuner_diagnose(&tess_tuner_default_limits, &one, 1, advice), 1);
    EXPECT_INT(advice[0].kind, TESS_ADVICE_STABLE); /* values that were not measured are not judged */
    one = (tess_tuner_step){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    EXPECT_INT(tess_tuner_diagnose(&tess_tuner_default_limits, &one, 1, advice), 1);
    EXPECT_INT(advice[0].kind, TESS_ADVICE_STABLE);
    tess_tuner_step bad[STEPS];
    for (int i = 0; i < STEPS; i++)
        bad[i] = (tess_tuner_step){.clip_fraction = 1, .kl = 1, .ratio_mean = 3, .entropy = i < 10, .reward = 0};
    bad[STEPS - 1].loss = 1;
    EXPECT_INT(tess_tuner_diagnose(&tess_tuner_default_limits, bad, STEPS, advice), 6);
}

static void presets_are_those_of_the_documents(void)
{
    const tess_tuner_preset *p = tess_tuner_preset_find("llm_rlhf");
    EXPECT(p->clip == 0.2 && p->kl_beta == 0.02 && p->entropy_coef == 0.01 && p->correction_high == 10 &&
           p->lr == 1e-5);
    p = tess_tuner_preset_find("llm_grpo");
    EXPECT(p->clip == 0.1 && p->kl_beta == 0.05 && p->entropy_coef == 0.005 && p->correction_high == 5 &&
           p->lr == 5e-6);
    p = tess_tuner_preset_find("game_ai");
    EXPECT(p->clip == 0.2 && p->kl_beta == 0.01 && p->entropy_coef == 0.02 && p->correction_high == 0 && p->lr == 3e-4);
    p = tess_tuner_preset_find("default");
    EXPECT(p->clip == 0.2 && p->kl_beta == 0.02 && p->entropy_coef == 0.01 && p->lr == 1e-4);
    EXPECT(tess_tuner_preset_find("chess") == NULL);
}

static void updates_stop_beyond_one_and_a_half_targets(void)
{
    EXPECT(!tess_kl_too_far(0.014, 0.01) && tess_kl_too_far(0.0151, 0.01));
    EXPECT(!tess_kl_too_far(1e9, 0) && tess_kl_too_far(NAN, 0.01));
    tess_tuner_step h[STEPS];
    tess_tuner_limits limits = tess_tuner_default_limits;
    tess_advice advice[TESS_ADVICE_MAX];
    healthy(h);
    h[STEPS - 1].approx_kl = 0.16;
    EXPECT(tess_tuner_diagnose(&limits, h, STEPS, advice) == 1 && advice[0].kind == TESS_ADVICE_STABLE);
    limits.kl_target = 0.1;
    EXPECT(tess_tuner_diagnose(&limits, h, STEPS, advice) == 1 && advice[0].kind == TESS_ADVICE_KL_TOO_FAR);
    EXPECT_CONTAINS(advice[0].text, "above 1.5 times the target 0.1");
    h[STEPS - 1].approx_kl = NAN; /* not measured */
    EXPECT(tess_tuner_diagnose(&limits, h, STEPS, advice) == 1 && advice[0].kind == TESS_ADVICE_STABLE);
}

static void pass_at_k_is_the_unbiased_estimate(void)
{
    EXPECT(fabs(tess_pass_at_k(10, 3, 1) - 0.3) < 1e-15);
    EXPECT(fabs(tess_pass_at_k(4, 2, 2) - 5.0 / 6) < 1e-15); /* 1 - C(2,2)/C(4,2) */
    EXPECT(fabs(tess_pass_at_k(16, 1, 8) - 0.5) < 1e-15);
    EXPECT(tess_pass_at_k(8, 0, 4) == 0 && tess_pass_at_k(8, 8, 1) == 1 && tess_pass_at_k(8, 5, 4) == 1);
    EXPECT(fabs(tess_pass_at_k(200, 1, 100) - 0.5) < 1e-12);
    EXPECT(fabs(tess_pass_at_k(100000, 10, 10) - 9.996e-4) < 1e-6); /* no binomial fits a double */
    EXPECT(isnan(tess_pass_at_k(4, 2, 5)) && isnan(tess_pass_at_k(4, 5, 1)) && isnan(tess_pass_at_k(4, 2, 0)));
}

static const test_case cases[] = {
    CASE(each_limit_gives_its_advice_and_no_other), CASE(on_a_limit_and_after_one_bad_step_nothing_is_said),
    CASE(on_policy_an_empty_clip_is_no_fault),      CASE(a_short_history_is_judged_by_what_it_has),
    CASE(presets_are_those_of_the_documents),       CASE(updates_stop_beyond_one_and_a_half_targets),
    CASE(pass_at_k_is_the_unbiased_estimate),       CASE(advice_is_news_when_it_begins_to_hold),
};
TEST_MAIN(cases)
