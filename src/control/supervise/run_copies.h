/* Copies of a run's checkpoints in other places, as the checkpoint section of its configuration says
 * (ckpt/store/copies.h). */
#ifndef TESS_CONTROL_SUPERVISE_RUN_COPIES_H
#define TESS_CONTROL_SUPERVISE_RUN_COPIES_H

#include "base/core/reporter.h"
#include "ckpt/store/copies.h"
#include "config/config.h"

/* The processes that make copies, one for each place: a place that hangs delays only its own. */
typedef struct tess_run_copies {
    int n;
    int pids[TESS_LIST_SIZE + 1]; /* 0: none */
    double patience_s;            /* time that they have at the end */
} tess_run_copies;

/* Checks that the keys go together. TESS_E_INVALID: the message names the key. */
tess_status tess_run_copies_check(const tess_config *config);

/* Brings the newest good checkpoint of all places into the run's folder. With checkpoint.resume=false, sets all copies
 * aside instead. Called before ranks start, by the process that holds the folder's lock. *brought: whether the folder
 * has a checkpoint that it did not have before. */
tess_status tess_run_copies_bring(const tess_config *config, const tess_reporter *reporter, bool *brought);

/* Starts the processes. They copy each new checkpoint that they find in the run's folder, and try again after a failure
 * until a newer one is there. The calling process has one thread, and holds the folder's lock. They end with it. */
void tess_run_copies_start(const tess_config *config, const tess_reporter *reporter, tess_run_copies *copies);

/* Lets them copy the newest checkpoint, and ends them. Those that are not done in checkpoint.copy_wait_s are killed. */
void tess_run_copies_stop(tess_run_copies *copies);
/* Ends them at once: others with another configuration take their place. */
void tess_run_copies_kill(tess_run_copies *copies);

#endif
