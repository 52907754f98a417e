/* Training that replaces ranks that are lost: the memory that they keep, and when it is given up. */
#ifndef TESS_SUPERVISE_RUN_MEMORY_H
#define TESS_SUPERVISE_RUN_MEMORY_H

#include "launch/launcher.h"
#include "job/persist/persist.h"
#include "train/train_config.h"

typedef struct tess_run_memory { /* all zero: nothing is kept */
    tess_mem *mem;
    tess_persist_set persist;
    char folder[1024]; /* of the copies that outlive the launcher, "": none */
} tess_run_memory;

/* Where copies that outlive the launcher lie, for a dump folder that is there. */
tess_status tess_run_memory_folder(const char *dump_folder, char *path, size_t size);

/* Sets options->keep where `config` asks for it, for n_ranks on this host: what `replacing` still holds of the life
 * before, which had as many, or new. It goes to tess_run_memory_end at last, whatever was asked for; until then the
 * next life may go on with it. */
tess_status tess_run_memory_begin(const tess_config *config, int n_ranks, tess_launch_options *options,
                                  tess_run_memory *replacing);
/* `over`: nobody is to go on from copies that outlive the launcher: they are removed. Else people are told of them. */
void tess_run_memory_end(tess_run_memory *replacing, bool over);

#endif
