#include "health/health_rules.h"

/* A failing check recovers when its value is within the limit by this share. */
static const double margin = 0.05;

typedef enum side { ABOVE, BELOW } side;

static const side sides[] = {
#define X(name, text, side, limit) side,
    TESS_HEALTH_CHECKS(X)
#undef X
};

/* Returns the stricter of the configured limit and the reading's own; 0: the check is off. */
static double limit_of(const tess_health_limits *limits, tess_health_check check, const tess_health_reading *reading)
{
    double configured = limits->at[check], own = reading->limit;
    if (configured <= 0 || own <= 0)
        return configured > 0 ? configured : own;
    return (sides[check] == ABOVE) == (own < configured) ? own : configured;
}

/* Whether a check fails. `failing`: it failed in the previous round. */
static bool fails(tess_health_check check, double value, double limit, bool failing)
{
    if (sides[check] == ABOVE)
        return value >= (failing ? limit * (1 - margin) : limit);
    return value < (failing ? limit * (1 + margin) : limit);
}

void tess_health_update(tess_health *health, const tess_health_limits *limits, const tess_health_reading *readings,
                        tess_health_change *change)
{
    int n_known = 0, n_failing = 0;
    *change = (tess_health_change){.was = health->state};
    for (int i = 0; i < TESS_HEALTH_CHECK_COUNT; i++) {
        double limit = limit_of(limits, (tess_health_check)i, &readings[i]);
        if (readings[i].known && limit > 0) {
            bool now = fails((tess_health_check)i, readings[i].value, limit, health->failing[i]);
            change->began[i] = now && !health->failing[i];
            change->ended[i] = !now && health->failing[i];
            change->any |= now != health->failing[i];
            health->failing[i] = now;
            health->last[i] = readings[i];
            health->last[i].limit = limit;
            n_known++;
        }
        n_failing += health->failing[i];
    }
    health->failures = n_failing > 0 ? health->failures + 1 : 0;
    health->state = health->failures >= limits->max_failures ? TESS_HEALTH_UNHEALTHY
                    : health->failures > 0                   ? TESS_HEALTH_DEGRADED
                    : n_known > 0                            ? TESS_HEALTH_HEALTHY
                                                             : TESS_HEALTH_UNKNOWN;
    change->any |= health->state != change->was && health->state > TESS_HEALTH_HEALTHY;
}
