/* The chooser, its bands, and the policy lag, with known values. */
#include "train/verify/on_policy_choice.h"

#include <math.h>

#include "support/test.h"
#include "train/verify/policy_lag.h"

static tess_on_policy_answer ask(const char *algorithm, const char *size, const char *budget, double acceptable)
{
    tess_on_policy_question q;
    EXPECT_OK(tess_on_policy_question_parse(algorithm, size, budget, acceptable, &q));
    return tess_on_policy_choose(&q);
}

static void documented_choices(void)
{
    static const struct {
        const char *algorithm, *size, *budget;
        double acceptable;
        bool use;
        tess_confidence confidence;
        int n_alternatives;
    } table[] = {{"grpo", "medium", "medium", 30, true, TESS_CONFIDENCE_HIGH, 0}, /* a known example */
                 {"ppo", "small", "abundant", 0, true, TESS_CONFIDENCE_HIGH, 0},
                 {"dpo", "large", "tight", 5, false, TESS_CONFIDENCE_LOW, 1},
                 {"sft", "small", "abundant", 90, false, TESS_CONFIDENCE_LOW, 1},
                 {"grpo", "large", "medium", 19.9, false, TESS_CONFIDENCE_MEDIUM, 3},
                 {"grpo", "large", "medium", 20, true, TESS_CONFIDENCE_HIGH, 0},
                 {"ppo", "medium", "tight", 24.9, false, TESS_CONFIDENCE_MEDIUM, 3},
                 {"ppo", "medium", "tight", 25, true, TESS_CONFIDENCE_HIGH, 0},
                 {"ppo", "large", "tight", 10, false, TESS_CONFIDENCE_MEDIUM, 3},
                 {"grpo", "large", "abundant", 30, true, TESS_CONFIDENCE_HIGH, 0}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        tess_on_policy_answer a = ask(table[i].algorithm, table[i].size, table[i].budget, table[i].acceptable);
        if (a.use != table[i].use || a.confidence != table[i].confidence)
            test_fail(__FILE__, __LINE__, "row %zu: use %d, confidence %s", i, a.use,
                      tess_confidence_name(a.confidence));
        EXPECT_INT(a.n_alternatives, table[i].n_alternatives);
        EXPECT(a.n_reasons >= 1 && a.n_reasons <= TESS_CHOICE_REASONS);
        for (int k = 0; k < a.n_reasons; k++)
            EXPECT(a.reasons[k] != NULL);
    }
    EXPECT_TEXT(ask("dpo", "small", "tight", 30).alternatives[0], "standard training");
    tess_on_policy_question q;
    EXPECT_FAILS(tess_on_policy_question_parse("gpro", "small", "tight", 30, &q), TESS_E_INVALID, "grpo");
    EXPECT_FAILS(tess_on_policy_question_parse("grpo", "huge", "tight", 30, &q), TESS_E_INVALID, "huge");
    EXPECT_FAILS(tess_on_policy_question_parse("grpo", "small", "", 30, &q), TESS_E_INVALID, "budget");
    EXPECT_FAILS(tess_on_policy_question_parse("grpo", "small", "tight", -1, &q), TESS_E_INVALID, "slowdown of -1%");
    EXPECT_FAILS(tess_on_policy_question_parse("grpo", "small", "tight", NAN, &q), TESS_E_INVALID, "slowdown");
}

static void bands(void)
{
    EXPECT(fabs(tess_on_policy_slowdown(45.23, 58.91) - 30.2454) < 1e-3); /* a known measurement */
    EXPECT(tess_on_policy_slowdown(2, 1) == -50);
    EXPECT_CONTAINS(tess_on_policy_cost_band(19.99), "acceptable");
    EXPECT_CONTAINS(tess_on_policy_cost_band(20), "large (20 to 40%)");
    EXPECT_CONTAINS(tess_on_policy_cost_band(30.2), "consider");
    EXPECT_CONTAINS(tess_on_policy_cost_band(39.99), "large (20 to 40%)");
    EXPECT_CONTAINS(tess_on_policy_cost_band(40), "too large");
    EXPECT_CONTAINS(tess_on_policy_cost_band(-5), "acceptable");
}

/* ---- Lag ---- */
static void ages(void)
{
    const int32_t versions[] = {10, 7, 10, 4, 9, 0};
    const uint8_t mask[] = {1, 1, 1, 1, 0, 1};
    tess_policy_lag whole = {0}, parts = {0}, half = {0};
    EXPECT_OK(tess_policy_lag_count(versions, mask, 5, 10, 3, &whole));
    EXPECT_INT(whole.n_tokens, 4);
    EXPECT_INT(whole.sum, 9);
    EXPECT_INT(whole.max, 6);
    EXPECT_INT(whole.n_stale, 2);
    EXPECT(tess_policy_lag_mean(&whole) == 2.25);

    EXPECT_OK(tess_policy_lag_count(versions, mask, 2, 10, 3, &parts)); /* ranks count, and add up */
    EXPECT_OK(tess_policy_lag_count(versions + 2, mask + 2, 3, 10, 3, &half));
    tess_policy_lag_merge(&half, &parts);
    EXPECT(memcmp(&parts, &whole, sizeof(whole)) == 0);

    EXPECT_FAILS(tess_policy_lag_count(versions, NULL, 5, 9, 3, &whole), TESS_E_INVALID,
                 "token 0 was drawn by weights");
    EXPECT_FAILS(tess_policy_lag_count(versions, NULL, 5, 10, 0, &whole), TESS_E_INVALID, "at least 1");
    EXPECT(memcmp(&parts, &whole, sizeof(whole)) == 0); /* nothing was counted */
    EXPECT_OK(tess_policy_lag_count(versions, NULL, 5, 10, 3, &whole));
    EXPECT_INT(whole.n_tokens, 9);
    tess_policy_lag none = {0};
    EXPECT(tess_policy_lag_mean(&none) == 0);
}

static void verdicts(void)
{
    char text[256];
    const tess_policy_lag fresh = {.n_tokens = 12288}, old = {.n_tokens = 100, .sum = 150, .max = 4, .n_stale = 30};
    tess_policy_lag_limits limits = {.mean = 1, .max = 1, .stale_share = 0.01, .kl = 1e-9};
    EXPECT_INT(tess_policy_lag_judge(&fresh, 0, &limits, text, sizeof(text)), TESS_LAG_NONE);
    EXPECT_CONTAINS(text, "all 12288 tokens");
    limits = (tess_policy_lag_limits){0};
    EXPECT_INT(tess_policy_lag_judge(&old, 5, &limits, text, sizeof(text)), TESS_LAG_BEARABLE); /* no limits */
    EXPECT_TEXT(text, "tokens are 1.5 versions old in the mean, at most 4");
    limits.mean = 2;
    EXPECT_INT(tess_policy_lag_judge(&old, -1, &limits, text, sizeof(text)), TESS_LAG_BEARABLE);
    limits.mean = 1.8;
    EXPECT_INT(tess_policy_lag_judge(&old, -1, &limits, text, sizeof(text)), TESS_LAG_NEAR);
    limits.mean = 1.5; /* a limit may be reached */
    EXPECT_INT(tess_policy_lag_judge(&old, -1, &limits, text, sizeof(text)), TESS_LAG_NEAR);
    limits.max = 3;
    EXPECT_INT(tess_policy_lag_judge(&old, -1, &limits, text, sizeof(text)), TESS_LAG_SYNC);
    EXPECT_CONTAINS(text, "largest age 4, limit 3");
    limits = (tess_policy_lag_limits){.stale_share = 0.25};
    EXPECT_INT(tess_policy_lag_judge(&old, -1, &limits, text, sizeof(text)), TESS_LAG_SYNC);
    EXPECT_CONTAINS(text, "share of stale tokens 0.3");
    limits = (tess_policy_lag_limits){.stale_share = 0.25, .kl = 0.02};
    EXPECT_INT(tess_policy_lag_judge(&old, 0.5, &limits, text, sizeof(text)), TESS_LAG_SYNC);
    EXPECT_CONTAINS(text, "KL 0.5, limit 0.02"); /* the value that exceeds its limit most */
    EXPECT_INT(tess_policy_lag_judge(&old, 0.5, &limits, text, 9), TESS_LAG_SYNC);
    EXPECT_TEXT(text, "tokens a");
}

static const test_case cases[] = {
    {"choices_are_the_documents_and_a_no_is_never_certain", documented_choices},
    {"a_price_falls_into_one_of_three_bands", bands},
    {"ages_add_up_over_ranks", ages},
    {"the_measure_that_is_furthest_past_its_limit_is_named", verdicts},
};
TEST_MAIN(cases)
