/* Persistent memory is laid out for a number of ranks and their settings (config/run_layout.h). When a launch continues
 * with others, the former ranks are started once more to save a checkpoint, from which any layout continues. */
#ifndef TESS_CONTROL_SUPERVISE_PERSIST_HANDOVER_H
#define TESS_CONTROL_SUPERVISE_PERSIST_HANDOVER_H

#include "control/supervise/start_ranks.h"
#include "job/persist/persist.h"
#include "config/run_layout.h"

/* The launch that continues. */
typedef struct tess_persist_heir {
    const tess_config *config; /* tess_config_check_step has passed it for n_ranks */
    int n_ranks;
    const tess_own_command *command;    /* has room for TESS_LAYOUT_MOST + 2 more words */
    const tess_launch_options *options; /* have a reporter */
} tess_persist_heir;

/* Before the first life: saves what an earlier launch left in memory (checkpoint.memory_copies) for another layout.
 * *saved: there is a new checkpoint. Returns TESS_EXIT_OK, or the exit code to end with, after reporting why; the
 * memory stays then. The caller has called tess_stop_signals_hear; a request to stop stays pending. */
int tess_persist_inherit(const tess_persist_heir *heir, bool *saved);

/* The same for the previous life's memory, in `set`. *usable: the heir uses it as it is. Otherwise it may be removed:
 * it was saved if only memory had it. TESS_E_IO: it could not be saved, and memory with a name keeps it. */
tess_status tess_persist_hand_on(const tess_persist_heir *heir, const tess_persist_set *set, bool *usable);

/* The step of the run that `set` holds; 0 or -1: none. */
int64_t tess_persist_step(const tess_config *config, const tess_persist_set *set);

/* Before `set` is removed: TESS_OK if the run's newest checkpoint is not older than the step in it, and every byte is
 * as it was saved. */
tess_status tess_persist_read_back(const tess_config *config, const tess_persist_set *set);

#endif
