/* The defaults of the health checks are the numbers of the design that users know from other launchers: a check every
 * 10 s, 3 failures, 95% of a GPU's memory, 90% of the host's, 10,000 open files, and a hang after 300 s. The design's
 * time of 30 s for a check has no counterpart: no check of ours is a collective that could hang (docs/howto/logs.md).
 */
#include <string.h>

#include "config/config.h"
#include "control/supervise/run_health.h"
#include "health/health_rules.h"
#include "support/test.h"

static void the_sections_have_the_numbers(void)
{
    tess_config config = {0};
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "c.yaml", &config));
    EXPECT(config.health.enable);
    EXPECT(config.health.interval_s == 10);
    EXPECT_INT(config.health.max_failures, 3);
    EXPECT(config.health.gpu_memory_percent == 95);
    EXPECT(config.health.memory_percent == 90);
    EXPECT_INT(config.health.fds, 10000);
    /* -1 is half of the deadline of a collective */
    EXPECT(config.health.heartbeat_s == -1 && config.comm.timeout_s / 2 == 300);
    EXPECT_INT(config.recovery.max_failures, 3);
    tess_config_free(&config);
}

static void the_library_has_the_numbers(void)
{
    tess_health_limits limits;
    tess_health_limits_default(&limits);
    EXPECT_INT(limits.max_failures, 3);
    EXPECT(limits.at[TESS_HEALTH_GPU_MEMORY] == 95);
    EXPECT(limits.at[TESS_HEALTH_MEMORY] == 90);
    EXPECT(limits.at[TESS_HEALTH_FILES] == 10000);
    EXPECT(limits.at[TESS_HEALTH_HEARTBEAT] == 300);
}

/* Judges n rounds in which the memory is as full as `percent`, and returns the state. */
static tess_health_state state_after(int n, double percent)
{
    tess_health health = {0};
    tess_health_change change;
    tess_health_limits limits;
    tess_health_reading readings[TESS_HEALTH_CHECK_COUNT] = {{0}};
    tess_health_limits_default(&limits);
    readings[TESS_HEALTH_MEMORY] = (tess_health_reading){.known = true, .value = percent};
    for (int i = 0; i < n; i++)
        tess_health_update(&health, &limits, readings, &change);
    return health.state;
}

static void the_third_failure_is_unhealthy(void)
{
    EXPECT_INT(state_after(3, 89.9), TESS_HEALTH_HEALTHY);
    EXPECT_INT(state_after(1, 90), TESS_HEALTH_DEGRADED);
    EXPECT_INT(state_after(2, 90), TESS_HEALTH_DEGRADED);
    EXPECT_INT(state_after(3, 90), TESS_HEALTH_UNHEALTHY);
}

static const test_case cases[] = {
    CASE(the_sections_have_the_numbers),
    CASE(the_library_has_the_numbers),
    CASE(the_third_failure_is_unhealthy),
};

TEST_MAIN(cases)
