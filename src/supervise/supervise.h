/* `tessera train -n N`, or one that `tessera launch` has started, goes on by itself after a failure (recover/): what is
 * done is decided here, outside every rank,
 * and told in one line. */
#ifndef TESS_SUPERVISE_SUPERVISE_H
#define TESS_SUPERVISE_SUPERVISE_H

#include "supervise/start_ranks.h"
#include "recover/slots.h"
#include "train/train_config.h"

/* As tess_ranks_start_self, and again for as long as the recovery and elastic sections of `config` have it so. `config`
 * would pass tess_config_check for ranks->n ranks, and its global batch is set. */
int tess_supervise(const tess_config *config, const tess_ranks *ranks, const tess_own_command *command,
                   const tess_launch_options *options);

/* Another way than tess_ranks_start to have ranks: on the places that `slots` says, with `words` (argv[0] first). Like
 * it, it asks options->decide about a failure and says in *result what was decided. */
typedef struct tess_supervise_starter {
    tess_status (*start)(void *self, const tess_slots *slots, char *const *words, const tess_launch_options *options,
                         tess_launch_result *result);
    /* Whether the host of a group that is out of service can be reached: 1, or -1; 0: it is being asked. */
    int (*answers)(void *self, int group);
    void *self;
} tess_supervise_starter;

/* For a starter, about once a second while ranks run, with options->self: true, once, when they are to be asked to
 * leave after their next save, for there is room for more. */
bool tess_supervise_look(void *self);

/* The same with ranks on the places that `slots` begins with, where none is replaced while the others run. */
int tess_supervise_with(const tess_supervise_starter *starter, const tess_slots *slots, const tess_config *config,
                        const tess_own_command *command, const tess_launch_options *options);

#endif
