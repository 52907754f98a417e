/* `tessera train` watches the host of its job and sends alerts, as the health section of its configuration says. */
#ifndef TESS_CONTROL_SUPERVISE_RUN_HEALTH_H
#define TESS_CONTROL_SUPERVISE_RUN_HEALTH_H

#include "control/supervise/start_ranks.h"
#include "control/health/alert.h"
#include "control/health/watcher.h"
#include "config/config.h"

/* The destination of a run's alerts. `channel` points into this struct and the configuration: neither may move. */
typedef struct tess_run_alerts {
    tess_alert_channel channel;
    char file[2 * TESS_TEXT_SIZE];
    char *command[TESS_LIST_SIZE + 1];
} tess_run_alerts;

tess_status tess_run_alerts_open(const tess_config *config, tess_run_alerts *alerts);

/* A host's watcher, and what replaces it. */
typedef struct tess_run_health {
    const tess_config *config; /* borrowed; NULL: no watcher is started */
    tess_reporter reporter;
    int job;                     /* pid of the process that starts the ranks, or is the rank */
    tess_health_watcher watcher; /* if this process becomes a rank: the process that starts watchers for it */
    double started_s, again_s;   /* when the newest was started, and how long after its end another is; */
    double due_s;                /* when that will be */
} tess_run_health;

/* Starts one watcher a host, to be ended with tess_run_health_stop. Call it before the ranks start, in a process that
 * is no rank of a launcher. A failure is reported, and training goes on. */
void tess_run_health_start(const tess_config *config, const tess_ranks *ranks, const tess_reporter *reporter,
                           tess_run_health *health);
/* Called now and then in a process that is no rank. Reaps a watcher that was killed, reports that and starts
 * another, at once the first time and later if that happens again and again. */
void tess_run_health_look(tess_run_health *health);
void tess_run_health_stop(tess_run_health *health);

#endif
