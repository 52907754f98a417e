/* `tessera train` looks after the host of its job: what the health section of a configuration asks for. */
#ifndef TESS_CLI_HEALTH_H
#define TESS_CLI_HEALTH_H

#include "cli/start.h"
#include "health/watcher.h"
#include "train/config.h"

/* Before the ranks are started, in a process that is none of a launcher's: one watcher a host, to be ended with
 * tess_health_watcher_stop. That there is none is told, and no reason not to train. */
void cli_health_start(const tess_config *config, const cli_ranks *ranks, tess_health_watcher *watcher);

#endif
