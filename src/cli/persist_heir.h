/* What ranks keep in memory is laid out for their number and settings (train/run_layout.h). Where others are to go on,
 * those who kept it live once more, to save it: from a checkpoint anybody goes on. */
#ifndef TESS_CLI_PERSIST_HEIR_H
#define TESS_CLI_PERSIST_HEIR_H

#include "cli/start.h"
#include "job/persist/persist.h"
#include "train/run_layout.h"

/* A life to come. */
typedef struct cli_persist_heir {
    const tess_config *config; /* that tess_config_check_step has passed for n_ranks */
    int n_ranks;
    const cli_arguments *command; /* its words, with room for TESS_LAYOUT_KEYS + 2 more */
    const tess_launch_options *options;
} cli_persist_heir;

/* Of an earlier launch (checkpoint.memory_copies), before the first life of this one. Returns CLI_OK, with *saved where
 * there is a new checkpoint now; or the exit code with which to end: what is kept stays, and people were told why. A
 * request to stop that comes meanwhile is left to the stop signals (stop_signals.h), which must be heard. */
int cli_persist_inherit(const cli_persist_heir *heir, bool *saved);

/* Of the life before, in `set`. True: the heir goes on with it. False: it was saved where it was newer than the disk,
 * and is of no use any more. Requests to stop as above. */
bool cli_persist_hand_on(const cli_persist_heir *heir, const tess_persist_set *set);

#endif
