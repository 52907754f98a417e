/* `tessera train` watches the host of its job and sends alerts, as the health section of its configuration says. */
#ifndef TESS_SUPERVISE_RUN_HEALTH_H
#define TESS_SUPERVISE_RUN_HEALTH_H

#include "supervise/start_ranks.h"
#include "health/alert.h"
#include "health/watcher.h"
#include "train/train_config.h"

/* Where a run's alerts go. `channel` points into this struct and the configuration: neither may move. */
typedef struct tess_run_alerts {
    tess_alert_channel channel;
    char file[2 * TESS_TEXT_SIZE];
    char *command[TESS_LIST_SIZE + 1];
} tess_run_alerts;

tess_status tess_run_alerts_open(const tess_config *config, tess_run_alerts *alerts);

/* Starts one watcher a host, to be ended with tess_health_watcher_stop. Call it before the ranks start, in a process
 * that is no rank of a launcher. A failure is printed, and training goes on. */
void tess_run_health_start(const tess_config *config, const tess_ranks *ranks, tess_health_watcher *watcher);

#endif
