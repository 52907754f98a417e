/* The chooser and its bands, with known values. */
#include "verify/on_policy_choice.h"

#include <math.h>

#include "support/test.h"

static tess_on_policy_answer ask(const char *algorithm, const char *size, const char *budget, double acceptable)
{
    tess_on_policy_question q;
    EXPECT_OK(tess_on_policy_question_parse(algorithm, size, budget, acceptable, &q));
    return tess_on_policy_choose(&q);
}

static void choices_are_the_documents_and_a_no_is_never_certain(void)
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

static void a_price_falls_into_one_of_three_bands(void)
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

static const test_case cases[] = {
    CASE(choices_are_the_documents_and_a_no_is_never_certain),
    CASE(a_price_falls_into_one_of_three_bands),
};
TEST_MAIN(cases)
