/* What ranks keep in memory is laid out for their number and settings (train/run_layout.h). Where others are to go on,
 * those who kept it live once more, to save it: from a checkpoint anybody goes on. */
#ifndef TESS_SUPERVISE_PERSIST_HANDOVER_H
#define TESS_SUPERVISE_PERSIST_HANDOVER_H

#include "launch/launcher.h"
#include "supervise/own_command.h"
#include "job/persist/persist.h"
#include "train/run_layout.h"

/* A life to come. */
typedef struct tess_persist_heir {
    const tess_config *config; /* that tess_config_check_step has passed for n_ranks */
    int n_ranks;
    const tess_own_command *command; /* its words, with room for TESS_LAYOUT_KEYS + 2 more */
    const tess_launch_options *options;
} tess_persist_heir;

/* Of an earlier launch (checkpoint.memory_copies), before the first life of this one. Returns TESS_EXIT_OK, with *saved
 * where there is a new checkpoint now; or the exit code with which to end: what is kept stays, and people were told
 * why. A request to stop that comes meanwhile is left to the stop signals (stop_signals.h), which must be heard. */
int tess_persist_inherit(const tess_persist_heir *heir, bool *saved);

/* Of the life before, in `set`. True: the heir goes on with it. False: it was saved where it was newer than the disk,
 * and is of no use any more. Requests to stop as above. */
bool tess_persist_hand_on(const tess_persist_heir *heir, const tess_persist_set *set);

#endif
