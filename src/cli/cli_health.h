/* `tessera train` looks after the host of its job: what the health section of a configuration asks for. */
#ifndef TESS_CLI_CLI_HEALTH_H
#define TESS_CLI_CLI_HEALTH_H

#include "cli/start.h"
#include "health/watcher.h"
#include "train/train_config.h"

/* Where alerts of a run go; what it points to is its own and the configuration's. */
typedef struct cli_alerts {
    tess_alert_channel channel;
    char file[2 * TESS_TEXT_SIZE];
    char *command[TESS_LIST_SIZE + 1];
} cli_alerts;

/* The channel is good for as long as both are where they are. */
tess_status cli_alerts_open(const tess_config *config, cli_alerts *alerts);

/* Before the ranks are started, in a process that is none of a launcher's: one watcher a host, to be ended with
 * tess_health_watcher_stop. That there is none is told, and no reason not to train. */
void cli_health_start(const tess_config *config, const cli_ranks *ranks, tess_health_watcher *watcher);

#endif
