/* Manages the persistent memory of a run's ranks on this host: creates it before they start, and removes it when
 * nothing can use it any more. */
#ifndef TESS_CONTROL_SUPERVISE_RUN_MEMORY_H
#define TESS_CONTROL_SUPERVISE_RUN_MEMORY_H

#include "control/launch/launcher.h"
#include "job/persist/persist.h"
#include "config/config.h"

typedef struct tess_run_memory { /* all members zero: there is no memory */
    tess_mem *mem;
    tess_persist_set persist;
    char folder[1024]; /* folder of copies that outlive the launcher; "": none */
} tess_run_memory;

/* Returns the folder of copies that outlive the launcher, for an existing dump folder. */
tess_status tess_run_memory_folder(const char *dump_folder, char *path, size_t size);

/* Sets options->persist if `config` asks for it, for n_ranks ranks on this host. Reuses the memory of the previous
 * life if that had as many ranks, otherwise creates new memory. Always call tess_run_memory_end at the end. */
tess_status tess_run_memory_begin(const tess_config *config, int n_ranks, tess_launch_options *options,
                                  tess_run_memory *memory);
/* Frees the memory. `over`: also removes copies that outlive the launcher, because no run will use them. Otherwise,
 * reports where they are. */
void tess_run_memory_end(tess_run_memory *memory, bool over, const tess_reporter *reporter);

#endif
