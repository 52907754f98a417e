/* The persistent memory of a run's ranks on this host: made before they start, removed when nobody can use it. */
#ifndef TESS_CONTROL_SUPERVISE_RUN_MEMORY_H
#define TESS_CONTROL_SUPERVISE_RUN_MEMORY_H

#include "control/launch/launcher.h"
#include "job/persist/persist.h"
#include "config/config.h"

typedef struct tess_run_memory { /* all zero: none */
    tess_mem *mem;
    tess_persist_set persist;
    char folder[1024]; /* folder of copies that outlive the launcher, "": none */
} tess_run_memory;

/* The folder of copies that outlive the launcher, for an existing dump folder. */
tess_status tess_run_memory_folder(const char *dump_folder, char *path, size_t size);

/* Sets options->persist if `config` asks for it, for n_ranks on this host: reuses the memory of the previous life,
 * which had as many ranks, or makes new memory. Call tess_run_memory_end at last in any case. */
tess_status tess_run_memory_begin(const tess_config *config, int n_ranks, tess_launch_options *options,
                                  tess_run_memory *memory);
/* `over`: removes copies that outlive the launcher, which nobody will use. Otherwise reports where they are. */
void tess_run_memory_end(tess_run_memory *memory, bool over, const tess_reporter *reporter);

#endif
