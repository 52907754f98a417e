/* Implements the monitor of tessera/health.h: it collects the readings of a round, and keeps what an alert points to.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "health/facts.h"
#include "health/health_rules.h"
#include "health/spikes.h"

enum { TEXT_BYTES = 1024 };

struct tess_health_monitor {
    tess_health_limits limits;
    tess_health health;
    tess_health_reading readings[TESS_HEALTH_CHECK_COUNT]; /* readings for the next round */
    tess_spikes losses, norms;
    double stepped_s; /* when the newest step came; 0: none yet */
    tess_health_alert alert;
    tess_health_finding findings[TESS_HEALTH_CHECK_COUNT];
    char texts[TESS_HEALTH_CHECK_COUNT][TESS_HEALTH_TEXT_BYTES];
    char text[TEXT_BYTES];
};

void tess_health_limits_default(tess_health_limits *limits)
{
    static const double defaults[] = {
#define X(name, text, side, limit) [name] = (limit),
        TESS_HEALTH_CHECKS(X)
#undef X
    };
    memcpy(limits->at, defaults, sizeof(defaults));
    limits->max_failures = 3;
}

static tess_status check_limits(const tess_health_limits *limits)
{
    for (int i = 0; i < TESS_HEALTH_CHECK_COUNT; i++)
        TESS_CHECK(limits->at[i] >= 0, TESS_E_INVALID, "the limit of %s is %g: give a number that is not negative",
                   tess_health_check_name((tess_health_check)i), limits->at[i]);
    TESS_CHECK(limits->max_failures >= 1, TESS_E_INVALID, "max_failures is %lld: give at least 1",
               (long long)limits->max_failures);
    return TESS_OK;
}

tess_status tess_health_monitor_create(const tess_health_limits *limits, tess_health_monitor **monitor)
{
    tess_health_limits defaults;
    *monitor = NULL;
    tess_health_limits_default(&defaults);
    limits = limits != NULL ? limits : &defaults;
    TESS_TRY(check_limits(limits));
    tess_health_monitor *m = calloc(1, sizeof(*m));
    TESS_CHECK(m != NULL, TESS_E_NOMEM, "a monitor of health: %zu bytes", sizeof(*m));
    m->limits = *limits;
    *monitor = m;
    return TESS_OK;
}

void tess_health_monitor_destroy(tess_health_monitor **monitor)
{
    free(*monitor);
    *monitor = NULL;
}

/* ---- Readings ---- */
/* Keeps the worst value of the round. `sign` is -1 if low values are bad. */
static void keep_worst(tess_health_monitor *m, tess_health_check check, double sign, double value, int64_t step)
{
    tess_health_reading *kept = &m->readings[check];
    if (!isnan(value) && (!kept->known || sign * value > sign * kept->value))
        *kept = (tess_health_reading){.known = true, .value = value, .who = (int)step, .rank = -1};
}

void tess_health_monitor_step(tess_health_monitor *m, const tess_health_step *step)
{
    bool has_loss = isfinite(step->loss), has_norm = isfinite(step->grad_norm);
    keep_worst(m, TESS_HEALTH_NOT_FINITE, 1, !has_loss + !has_norm, step->step);
    if (has_loss && has_norm) {
        keep_worst(m, TESS_HEALTH_LOSS, 1, tess_spikes_add(&m->losses, step->loss), step->step);
        keep_worst(m, TESS_HEALTH_GRAD_NORM, 1, tess_spikes_add(&m->norms, step->grad_norm), step->step);
    }
    if (step->tokens_per_s > 0)
        keep_worst(m, TESS_HEALTH_SPEED, -1, step->tokens_per_s, step->step);
    m->stepped_s = tess_os_now_s();
}

tess_status tess_health_monitor_read(tess_health_monitor *m, tess_health_check check,
                                     const tess_health_reading *reading)
{
    TESS_CHECK((unsigned)check < TESS_HEALTH_CHECK_COUNT, TESS_E_INVALID, "there is no check %d of health", (int)check);
    TESS_CHECK(!reading->known || !isnan(reading->value), TESS_E_INVALID, "the reading of %s is not a number",
               tess_health_check_name(check));
    m->readings[check] = *reading;
    return TESS_OK;
}

void tess_health_monitor_host(tess_health_monitor *m, const char *folder, const int *pids, int n)
{
    int own = (int)getpid();
    tess_health_reading *readings = m->readings;
    readings[TESS_HEALTH_MEMORY] = tess_health_read_memory("");
    readings[TESS_HEALTH_GROUP] = tess_health_read_group(own);
    readings[TESS_HEALTH_LOAD] = tess_health_read_load("");
    readings[TESS_HEALTH_FILES] = tess_health_read_files("", pids != NULL ? pids : &own, pids != NULL ? n : 1);
    if (pids == NULL)
        readings[TESS_HEALTH_FILES].rank = -1;
    if (folder != NULL)
        tess_health_read_disk(folder, &readings[TESS_HEALTH_DISK], &readings[TESS_HEALTH_INODES]);
}

/* ---- Rounds ---- */
static void describe(tess_health_monitor *m, const tess_health_change *change)
{
    int n = 0;
    const tess_health *health = &m->health;
    for (int i = 0; i < TESS_HEALTH_CHECK_COUNT; i++) {
        tess_health_check check = (tess_health_check)i;
        if (!health->failing[i] && !change->ended[i])
            continue;
        m->findings[n++] = (tess_health_finding){
            .check = check,
            .failing = health->failing[i],
            .reading = health->last[i],
            .text = tess_health_describe(check, &health->last[i], m->texts[i], sizeof(m->texts[i]))};
    }
    m->alert = (tess_health_alert){.was = change->was,
                                   .state = health->state,
                                   .failures = health->failures,
                                   .text = tess_health_report(health, change, m->text, sizeof(m->text)),
                                   .findings = m->findings,
                                   .n_findings = n};
}

const tess_health_alert *tess_health_monitor_round(tess_health_monitor *m)
{
    tess_health_change change;
    tess_health_reading *waited = &m->readings[TESS_HEALTH_STEPS];
    if (!waited->known && m->stepped_s > 0)
        *waited = (tess_health_reading){.known = true, .value = tess_os_now_s() - m->stepped_s, .who = -1, .rank = -1};
    tess_health_update(&m->health, &m->limits, m->readings, &change);
    for (int i = 0; i < TESS_HEALTH_CHECK_COUNT; i++)
        m->readings[i] = (tess_health_reading){0};
    if (!change.any)
        return NULL;
    describe(m, &change);
    return &m->alert;
}

tess_health_state tess_health_monitor_state(const tess_health_monitor *m)
{
    return m->health.state;
}
