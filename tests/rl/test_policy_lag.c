/* Policy lag with known values. */
#include "rl/algo/policy_lag.h"

#include <string.h>

#include "support/test.h"

static void ages_add_up_over_ranks(void)
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

static void the_measure_that_is_furthest_past_its_limit_is_named(void)
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
    CASE(ages_add_up_over_ranks),
    CASE(the_measure_that_is_furthest_past_its_limit_is_named),
};
TEST_MAIN(cases)
