/* `tessera train` looks after the host of its job: what the health section of a configuration asks for. */
#ifndef TESS_SUPERVISE_RUN_HEALTH_H
#define TESS_SUPERVISE_RUN_HEALTH_H

#include "supervise/start_ranks.h"
#include "health/watcher.h"
#include "train/train_config.h"

/* Before the ranks are started, in a process that is none of a launcher's: one watcher a host, to be ended with
 * tess_health_watcher_stop. That there is none is told, and no reason not to train. */
void tess_run_health_start(const tess_config *config, const tess_ranks *ranks, tess_health_watcher *watcher);

#endif
