/* tessera/health.h: figures of steps and of the host are judged without a trainer. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "health/spikes.h"
#include "support/test.h"

static tess_health_step step_of(int64_t number, double loss, double grad_norm)
{
    return (tess_health_step){.step = number, .loss = loss, .grad_norm = grad_norm};
}

/* Losses and norms that move a little around 2 and 1. */
static void record_ordinary(tess_health_monitor *monitor, int64_t first, int64_t n)
{
    for (int64_t s = first; s < first + n; s++) {
        tess_health_step step = step_of(s, 2 + 0.01 * (double)(s % 7), 1 + 0.01 * (double)(s % 5));
        tess_health_monitor_step(monitor, &step);
    }
}

static void read_value(tess_health_monitor *monitor, tess_health_check check, double value)
{
    tess_health_reading reading = {.known = true, .value = value, .who = -1, .rank = -1};
    EXPECT_OK(tess_health_monitor_read(monitor, check, &reading));
}

static void a_spike_of_the_loss_is_reported_with_its_step(void)
{
    tess_spikes same = {0};
    tess_health_monitor *monitor;
    EXPECT_OK(tess_health_monitor_create(NULL, &monitor));
    EXPECT_INT(tess_health_monitor_state(monitor), TESS_HEALTH_UNKNOWN);
    record_ordinary(monitor, 0, TESS_SPIKE_WINDOW);
    EXPECT(tess_health_monitor_round(monitor) == NULL);
    EXPECT_INT(tess_health_monitor_state(monitor), TESS_HEALTH_HEALTHY);
    tess_health_step spike = step_of(128, 9, 1.02);
    tess_health_monitor_step(monitor, &spike);
    record_ordinary(monitor, 129, 3); /* the worst step of a round counts, not the newest */
    const tess_health_alert *alert = tess_health_monitor_round(monitor);
    EXPECT(alert != NULL);
    EXPECT_INT(alert->was, TESS_HEALTH_HEALTHY);
    EXPECT_INT(alert->state, TESS_HEALTH_DEGRADED);
    EXPECT_INT(alert->n_findings, 1);
    EXPECT_INT(alert->findings[0].check, TESS_HEALTH_LOSS);
    EXPECT_INT(alert->findings[0].reading.who, 128);
    EXPECT_CONTAINS(alert->text, "degraded: the loss of step 128 is +11.");
    EXPECT_CONTAINS(alert->text, "standard deviations from the mean of the newest 128 (limit 6)");
    double z = 0;
    for (int64_t s = 0; s < TESS_SPIKE_WINDOW; s++)
        tess_spikes_add(&same, 2 + 0.01 * (double)(s % 7));
    z = tess_spikes_add(&same, 9);
    EXPECT(alert->findings[0].reading.value == z); /* the rule of our runs, to the last bit */
    record_ordinary(monitor, 132, 1);
    alert = tess_health_monitor_round(monitor);
    EXPECT(alert != NULL && !alert->findings[0].failing);
    EXPECT_CONTAINS(alert->text, "healthy again");
    tess_health_monitor_destroy(&monitor);
    EXPECT(monitor == NULL);
    tess_health_monitor_destroy(&monitor);
}

/* A number that is not finite does not spoil the windows. */
static void a_loss_that_is_not_finite_is_reported(void)
{
    tess_health_monitor *monitor;
    EXPECT_OK(tess_health_monitor_create(NULL, &monitor));
    record_ordinary(monitor, 0, TESS_SPIKE_WINDOW);
    tess_health_step bad = step_of(500, NAN, 1);
    tess_health_monitor_step(monitor, &bad);
    const tess_health_alert *alert = tess_health_monitor_round(monitor);
    EXPECT(alert != NULL);
    EXPECT_TEXT(alert->text, "degraded: the loss or gradient norm of step 500 is NaN or infinite");
    tess_health_step spike = step_of(501, 2, 50);
    tess_health_monitor_step(monitor, &spike);
    alert = tess_health_monitor_round(monitor);
    EXPECT(alert != NULL);
    EXPECT_INT(alert->n_findings, 2);
    EXPECT_INT(alert->findings[0].check, TESS_HEALTH_NOT_FINITE);
    EXPECT(!alert->findings[0].failing);
    EXPECT_TEXT(alert->findings[0].text, "loss and gradient norm of step 501 are finite");
    EXPECT_INT(alert->findings[1].check, TESS_HEALTH_GRAD_NORM);
    EXPECT(alert->findings[1].failing);
    tess_health_monitor_destroy(&monitor);
}

static void failing_rounds_in_a_row_are_unhealthy(void)
{
    tess_health_monitor *monitor;
    const tess_health_alert *alert;
    static const tess_health_state states[] = {TESS_HEALTH_DEGRADED, TESS_HEALTH_DEGRADED, TESS_HEALTH_UNHEALTHY};
    EXPECT_OK(tess_health_monitor_create(NULL, &monitor));
    for (int i = 0; i < 3; i++) {
        read_value(monitor, TESS_HEALTH_GPU_MEMORY, 97);
        alert = tess_health_monitor_round(monitor);
        EXPECT_INT(tess_health_monitor_state(monitor), states[i]);
        EXPECT_INT(alert != NULL, i != 1); /* only changes are reported */
    }
    EXPECT_INT(alert->failures, 3);
    EXPECT_CONTAINS(alert->text, "unhealthy (3 looks in a row): 97.0% of the memory of GPU");
    EXPECT(tess_health_monitor_round(monitor) == NULL); /* a check without a reading keeps its result */
    EXPECT_INT(tess_health_monitor_state(monitor), TESS_HEALTH_UNHEALTHY);
    read_value(monitor, TESS_HEALTH_GPU_MEMORY, 40);
    EXPECT(tess_health_monitor_round(monitor) != NULL);
    EXPECT_INT(tess_health_monitor_state(monitor), TESS_HEALTH_HEALTHY);
    tess_health_monitor_destroy(&monitor);
}

static void speed_and_missing_steps_have_limits_of_the_user(void)
{
    tess_health_limits limits;
    tess_health_monitor *monitor;
    tess_health_limits_default(&limits);
    limits.at[TESS_HEALTH_SPEED] = 1000;
    limits.at[TESS_HEALTH_STEPS] = 0.001;
    EXPECT_OK(tess_health_monitor_create(&limits, &monitor));
    usleep(5000);
    EXPECT(tess_health_monitor_round(monitor) == NULL); /* before the first step there is no time between steps */
    tess_health_step step = step_of(1, 2, 1);
    step.tokens_per_s = 900;
    tess_health_monitor_step(monitor, &step);
    usleep(5000);
    const tess_health_alert *alert = tess_health_monitor_round(monitor);
    EXPECT(alert != NULL);
    EXPECT_INT(alert->n_findings, 2);
    EXPECT_CONTAINS(alert->text, "no step was finished for ");
    EXPECT_CONTAINS(alert->text, "step 1 computed 900 tokens/s (limit 1000)");
    tess_health_monitor_destroy(&monitor);
}

static void the_host_is_read(void)
{
    tess_health_limits limits = {.max_failures = 1};
    tess_health_monitor *monitor;
    limits.at[TESS_HEALTH_MEMORY] = 1e-9;
    limits.at[TESS_HEALTH_FILES] = 1;
    limits.at[TESS_HEALTH_DISK] = 1e18;
    EXPECT_OK(tess_health_monitor_create(&limits, &monitor));
    tess_health_monitor_host(monitor, test_folder(), NULL, 0);
    const tess_health_alert *alert = tess_health_monitor_round(monitor);
    EXPECT(alert != NULL);
    EXPECT_INT(alert->state, TESS_HEALTH_UNHEALTHY);
    EXPECT_INT(alert->n_findings, 3);
    EXPECT_INT(alert->findings[1].check, TESS_HEALTH_FILES);
    EXPECT_INT(alert->findings[1].reading.who, (int)getpid());
    EXPECT_CONTAINS(alert->text, "% of the machine's memory is in use");
    tess_health_monitor_destroy(&monitor);
}

static void wrong_limits_and_readings_are_refused(void)
{
    tess_health_limits limits;
    tess_health_monitor *monitor;
    tess_health_reading reading = {.known = true, .value = NAN};
    tess_health_limits_default(&limits);
    limits.at[TESS_HEALTH_LOAD] = -1;
    EXPECT_FAILS(tess_health_monitor_create(&limits, &monitor), TESS_E_INVALID, "the limit of load is -1");
    EXPECT(monitor == NULL);
    tess_health_limits_default(&limits);
    limits.at[TESS_HEALTH_LOAD] = NAN;
    EXPECT_FAILS(tess_health_monitor_create(&limits, &monitor), TESS_E_INVALID, "the limit of load");
    tess_health_limits_default(&limits);
    limits.max_failures = 0;
    EXPECT_FAILS(tess_health_monitor_create(&limits, &monitor), TESS_E_INVALID, "max_failures is 0");
    EXPECT_OK(tess_health_monitor_create(NULL, &monitor));
    EXPECT_FAILS(tess_health_monitor_read(monitor, TESS_HEALTH_CHECK_COUNT, &reading), TESS_E_INVALID, "no check");
    EXPECT_FAILS(tess_health_monitor_read(monitor, TESS_HEALTH_LOAD, &reading), TESS_E_INVALID, "not a number");
    EXPECT(tess_health_monitor_round(monitor) == NULL);
    tess_health_monitor_destroy(&monitor);
}

static const test_case cases[] = {
    CASE(a_spike_of_the_loss_is_reported_with_its_step),
    CASE(a_loss_that_is_not_finite_is_reported),
    CASE(failing_rounds_in_a_row_are_unhealthy),
    CASE(speed_and_missing_steps_have_limits_of_the_user),
    CASE(the_host_is_read),
    CASE(wrong_limits_and_readings_are_refused),
};

TEST_MAIN(cases)
