/* Trains the model of a program outside of the library (tessera/loop_program.h) as a task of the trainer. */
#ifndef TESS_TRAIN_PROGRAM_PROGRAM_TASK_H
#define TESS_TRAIN_PROGRAM_PROGRAM_TASK_H

#include "tessera/loop_program.h"
#include "train/task.h"

/* Returns the kind of task that trains the program, which tess_foreign_check has passed; borrowed. */
tess_task_kind tess_program_task_kind(const tess_program *program);

/* program_config.c: loads the configuration of a run of the program, with its own defaults, and refuses options that
 * only apply to models of the library. The caller frees it. Arguments and errors as for tess_config_load. */
tess_status tess_program_config_load(tess_mem *mem, const tess_program *program, const char *path,
                                     char *const *settings, int n_settings, tess_config *config);

#endif
