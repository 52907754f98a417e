/* The first steps of a run, for programs that look at its numbers: nothing is written to the run's folder. */
#ifndef TESS_TRAIN_FIRST_STEPS_H
#define TESS_TRAIN_FIRST_STEPS_H

#include "train/task.h"

/* Calls of tess_train_first_steps on each rank; all are collective. An error ends the run. */
typedef struct tess_first_steps_observer {
    void *self;
    tess_status (*ready)(void *self, tess_engine *engine); /* the engine has its first weights */
    tess_status (*stepped)(void *self, tess_engine *engine, const tess_engine_report *report);
    tess_status (*finished)(void *self, tess_engine *engine); /* after the last step */
} tess_first_steps_observer;

/* Takes `steps` steps of the run that `config` describes. Its weights are the run's first ones: no checkpoint is read.
 * `config` has passed tess_config_check. Collective. TESS_E_INTERRUPTED: the run was asked to stop. */
tess_status tess_train_first_steps(tess_runtime *runtime, const tess_task_kind *kind, const tess_config *config,
                                   int64_t steps, const tess_first_steps_observer *observer);

#endif
