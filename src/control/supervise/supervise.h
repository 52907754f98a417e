/* Restarts `tessera train -n N`, or a job of `tessera launch`, after a failure. The recovery policy (recover/)
 * decides outside all ranks, and one line reports what is done. */
#ifndef TESS_CONTROL_SUPERVISE_SUPERVISE_H
#define TESS_CONTROL_SUPERVISE_SUPERVISE_H

#include "control/supervise/start_ranks.h"
#include "control/recover/slots.h"
#include "config/config.h"

/* Calls tess_ranks_start_self as often as the recovery and elastic sections of `config` allow. `config` must have
 * passed tess_config_check for ranks->n ranks, with its global batch set. options->reporter gets every line for the
 * user. Returns the exit code. */
int tess_supervise(const tess_config *config, const tess_ranks *ranks, const tess_own_command *command,
                   const tess_launch_options *options);

/* Replaces tess_ranks_start: starts ranks on the hosts of `slots`, with `words` (argv[0] first). Calls
 * options->decide after a failure, and stores the decision in *result. */
typedef struct tess_supervise_starter {
    tess_status (*start)(void *self, const tess_slots *slots, char *const *words, const tess_launch_options *options,
                         tess_launch_result *result);
    /* Returns whether the lost host of a group answers: 1 yes, -1 no, 0 not known yet. */
    int (*answers)(void *self, int group);
    void *self;
} tess_supervise_starter;

/* Called by a starter about once a second while ranks run, with options->self. Returns true once, if more ranks can
 * run: the starter must then ask the ranks to leave after their next save. */
bool tess_supervise_has_room(void *self);

/* Does the same as tess_supervise with a starter, on the hosts of `slots`. Lost ranks are not replaced while the
 * others run. */
int tess_supervise_with(const tess_supervise_starter *starter, const tess_slots *slots, const tess_config *config,
                        const tess_own_command *command, const tess_launch_options *options);

#endif
