/* Where a run's alerts go, as the health section of its configuration has it. */
#ifndef TESS_SUPERVISE_RUN_ALERTS_H
#define TESS_SUPERVISE_RUN_ALERTS_H

#include "health/alert.h"
#include "train/train_config.h"

/* Where alerts of a run go; what it points to is its own and the configuration's. */
typedef struct tess_run_alerts {
    tess_alert_channel channel;
    char file[2 * TESS_TEXT_SIZE];
    char *command[TESS_LIST_SIZE + 1];
} tess_run_alerts;

/* The channel is good for as long as both are where they are. */
tess_status tess_run_alerts_open(const tess_config *config, tess_run_alerts *alerts);

#endif
