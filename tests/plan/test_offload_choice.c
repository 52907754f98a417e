/* The chooser's cases, with the figures of its sources. */
#include "support/test.h"

#include "plan/offload_choice.h"

static void a_model_that_fits_stays(void)
{
    tess_offload_choice c =
        tess_offload_choose(&(tess_offload_case){.model_gb = 3, .device_gb = 40, .host_gb = 100, .batch = 8});
    EXPECT(c.needed_gb == 24.00);
    EXPECT_TEXT(tess_offload_decision_name(c.decision), "NO_OFFLOAD");
    EXPECT(c.n_factors == 1 && c.saved_gb == 0 && c.most_slower_pct == 0 && c.n_advice == 1);
    EXPECT_TEXT(c.factors[0].code, "GPU_MEMORY_SUFFICIENT");
    EXPECT_TEXT(c.factors[0].reason, "24.00 GB are needed, 40.00 GB are there");
    c = tess_offload_choose(&(tess_offload_case){.model_gb = 3, .device_gb = 24, .batch = 8});
    EXPECT(c.decision == TESS_NO_OFFLOAD); /* exactly enough is enough */
}

static void a_model_that_does_not_fit_leaves(void)
{
    tess_offload_case of = {.model_gb = 20, .device_gb = 40, .host_gb = 60, .batch = 4};
    tess_offload_choice c = tess_offload_choose(&of);
    EXPECT(c.needed_gb == 120.00 && c.saved_gb == 40 && c.host_needed_gb == 60);
    EXPECT(c.least_slower_pct == 30 && c.most_slower_pct == 50);
    EXPECT_TEXT(tess_offload_decision_name(c.decision), "OFFLOAD");
    EXPECT(c.n_factors == 2);
    EXPECT_TEXT(c.factors[0].code, "GPU_MEMORY_INSUFFICIENT");
    EXPECT_TEXT(c.factors[1].code, "CPU_MEMORY_SUFFICIENT");
    of.speed_is_critical = true; /* a warning, no vote */
    c = tess_offload_choose(&of);
    EXPECT(c.decision == TESS_OFFLOAD && c.n_factors == 3);
    EXPECT_TEXT(c.factors[2].code, "SPEED_CRITICAL");
}

static void a_host_with_too_little_makes_it_impossible(void)
{
    tess_offload_choice c = tess_offload_choose(
        &(tess_offload_case){.model_gb = 20, .device_gb = 40, .host_gb = 59.9, .batch = 4, .speed_is_critical = true});
    EXPECT_TEXT(tess_offload_decision_name(c.decision), "IMPOSSIBLE");
    EXPECT(c.n_factors == 2 && c.saved_gb == 0 && c.n_advice == 4);
    EXPECT_TEXT(c.factors[1].code, "CPU_MEMORY_INSUFFICIENT");
}

static const test_case cases[] = {
    CASE(a_model_that_fits_stays),
    CASE(a_model_that_does_not_fit_leaves),
    CASE(a_host_with_too_little_makes_it_impossible),
};
TEST_MAIN(cases)
