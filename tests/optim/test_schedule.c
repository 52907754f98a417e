/* Schedules against their closed forms. */
#include <math.h>

#include "support/test.h"
#include "tessera/optim.h"

static void expect_lr(const tess_schedule *schedule, int64_t step, double want)
{
    double got = tess_schedule_lr(schedule, step);
    if (!(fabs(got - want) <= 1e-15 * fabs(schedule->lr)))
        test_fail(__FILE__, __LINE__, "lr of step %lld is %.17g, expected %.17g", (long long)step, got, want);
}

static void warm_up_is_linear_and_full_at_its_last_step(void)
{
    for (int kind = TESS_SCHEDULE_CONSTANT; kind <= TESS_SCHEDULE_WSD; kind++) {
        tess_schedule s = {(tess_schedule_kind)kind, 2e-3, 0.1, 10, 100, 20};
        for (int64_t step = 1; step <= 10; step++)
            expect_lr(&s, step, 2e-3 * (double)step / 10);
    }
}

static void constant_stays(void)
{
    tess_schedule s = {TESS_SCHEDULE_CONSTANT, 1e-3, 0.1, 0, 50, 0};
    for (int64_t step = 1; step <= 60; step++)
        expect_lr(&s, step, 1e-3);
}

static void linear_reaches_the_lowest_rate_at_the_last_step(void)
{
    tess_schedule s = {TESS_SCHEDULE_LINEAR, 1e-3, 0.2, 20, 100, 0};
    expect_lr(&s, 20, 1e-3);
    for (int64_t step = 20; step <= 100; step++)
        expect_lr(&s, step, 1e-3 - 0.8e-3 * (double)(step - 20) / 80);
    expect_lr(&s, 100, 0.2e-3);
    expect_lr(&s, 101, 0.2e-3);
}

static void cosine_follows_its_formula(void)
{
    tess_schedule s = {TESS_SCHEDULE_COSINE, 1e-3, 0.1, 20, 100, 0};
    const double pi = acos(-1.0);
    for (int64_t step = 20; step <= 100; step++)
        expect_lr(&s, step, 0.1e-3 + 0.9e-3 * 0.5 * (1 + cos(pi * (double)(step - 20) / 80)));
    expect_lr(&s, 60, 0.55e-3);
    expect_lr(&s, 100, 0.1e-3);
    expect_lr(&s, 500, 0.1e-3);
}

static void wsd_is_stable_and_then_falls_linearly(void)
{
    tess_schedule s = {TESS_SCHEDULE_WSD, 1e-3, 0, 10, 100, 25};
    for (int64_t step = 10; step <= 75; step++)
        expect_lr(&s, step, 1e-3);
    for (int64_t step = 75; step <= 100; step++)
        expect_lr(&s, step, 1e-3 * (double)(100 - step) / 25);
}

static void short_runs_and_long_decays_are_sane(void)
{
    tess_schedule whole_decay = {
        TESS_SCHEDULE_WSD, 1e-3, 0, 10, 100, 1000}; /* the decay begins after the warm-up at the earliest */
    expect_lr(&whole_decay, 10, 1e-3);
    expect_lr(&whole_decay, 55, 0.5e-3);
    for (int kind = TESS_SCHEDULE_LINEAR; kind <= TESS_SCHEDULE_WSD; kind++) {
        tess_schedule one = {(tess_schedule_kind)kind, 1e-3, 0.5, 0, 1, 1};
        expect_lr(&one, 1, 0.5e-3);
        tess_schedule only_warmup = {(tess_schedule_kind)kind, 1e-3, 0.5, 10, 5, 1};
        for (int64_t step = 1; step <= 5; step++)
            expect_lr(&only_warmup, step, 1e-3 * (double)step / 10);
    }
}

static const test_case cases[] = {
    CASE(warm_up_is_linear_and_full_at_its_last_step),     CASE(constant_stays),
    CASE(linear_reaches_the_lowest_rate_at_the_last_step), CASE(cosine_follows_its_formula),
    CASE(wsd_is_stable_and_then_falls_linearly),           CASE(short_runs_and_long_decays_are_sane),
};
TEST_MAIN(cases)
