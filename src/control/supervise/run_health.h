/* Watches the host of a `tessera train` job and sends alerts, as the health section of its configuration says. */
#ifndef TESS_CONTROL_SUPERVISE_RUN_HEALTH_H
#define TESS_CONTROL_SUPERVISE_RUN_HEALTH_H

#include "control/supervise/start_ranks.h"
#include "control/health/alert.h"
#include "control/health/watcher.h"
#include "config/config.h"

/* The destination of a run's alerts. `channel` points into this struct and into the configuration, so neither may be
 * moved. */
typedef struct tess_run_alerts {
    tess_alert_channel channel;
    char file[2 * TESS_TEXT_SIZE];
    char *command[TESS_LIST_SIZE + 1];
} tess_run_alerts;

tess_status tess_run_alerts_open(const tess_config *config, tess_run_alerts *alerts);

/* The watcher of a host, and the state needed to replace it. */
typedef struct tess_run_health {
    const tess_config *config; /* borrowed; NULL: no watcher is started */
    tess_reporter reporter;
    int job;                     /* process id of the process that starts the ranks, or that is the rank */
    tess_health_watcher watcher; /* if this process becomes a rank: the process that starts watchers for it */
    /* when the newest watcher was started, and the pause after its end before the next one */
    double started_s, again_s;
    double due_s; /* when the next watcher is to be started */
} tess_run_health;

/* Returns the limits of the configuration. The limit for a silent rank is not among them: it depends on the rank's
 * phase. */
tess_health_limits tess_run_health_limits(const tess_config *config);

/* Starts one watcher per host, to be ended with tess_run_health_stop. Call it before the ranks start, in a process
 * that is not a rank of a launcher. A failure is reported, and training continues. */
void tess_run_health_start(const tess_config *config, const tess_ranks *ranks, const tess_reporter *reporter,
                           tess_run_health *health);
/* Called now and then in a process that is not a rank. Reaps a watcher that was killed, reports it and starts
 * another one: at once the first time, and later if it happens again and again. */
void tess_run_health_look(tess_run_health *health);
void tess_run_health_stop(tess_run_health *health);

#endif
