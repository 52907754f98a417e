/* Hands persistent memory over to a launch with another layout. The memory is laid out for a number of ranks and
 * their settings (config/run_layout.h). If the next launch differs, the former ranks are started once more to save a
 * checkpoint; any layout can continue from it. */
#ifndef TESS_CONTROL_SUPERVISE_PERSIST_HANDOVER_H
#define TESS_CONTROL_SUPERVISE_PERSIST_HANDOVER_H

#include "control/supervise/start_ranks.h"
#include "job/persist/persist.h"
#include "config/run_layout.h"

/* The launch that continues. */
typedef struct tess_persist_heir {
    const tess_config *config; /* configuration that has passed tess_config_check_step for n_ranks */
    int n_ranks;
    const tess_own_command *command;    /* command, which must have room for TESS_LAYOUT_MOST + 2 more words */
    const tess_launch_options *options; /* options, which must have a reporter */
} tess_persist_heir;

/* Called before the first life. Saves what an earlier launch with another layout left in memory
 * (checkpoint.memory_copies). *saved: there is a new checkpoint. The caller has called tess_stop_signals_hear; a
 * request to stop stays pending. Returns TESS_EXIT_OK, or else the exit code to end with; the reason was then
 * reported, and the memory is kept. */
int tess_persist_inherit(const tess_persist_heir *heir, bool *saved);

/* Does the same for the previous life's memory, in `set`. *usable: the heir can use it unchanged. Otherwise it may
 * be removed, because it was saved if only memory held it. TESS_E_IO: it could not be saved; memory with a name
 * still holds it. */
tess_status tess_persist_hand_on(const tess_persist_heir *heir, const tess_persist_set *set, bool *usable);

/* Returns the step of the run that `set` holds; 0 or -1: none. */
int64_t tess_persist_step(const tess_config *config, const tess_persist_set *set);

/* Called before `set` is removed. Returns TESS_OK if the run's newest checkpoint is not older than the step in
 * `set`, and every byte is as it was saved. */
tess_status tess_persist_read_back(const tess_config *config, const tess_persist_set *set);

#endif
