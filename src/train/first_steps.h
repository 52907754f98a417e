/* Runs the first steps of a run for programs that inspect its numbers. Writes nothing to the run's folder. */
#ifndef TESS_TRAIN_FIRST_STEPS_H
#define TESS_TRAIN_FIRST_STEPS_H

#include "train/task.h"

/* Callbacks of tess_train_first_steps on each rank. All are collective; an error from one ends the run. */
typedef struct tess_first_steps_observer {
    void *self;
    tess_status (*ready)(void *self, tess_engine *engine); /* called when the engine has its initial weights */
    tess_status (*stepped)(void *self, tess_engine *engine, const tess_engine_report *report);
    tess_status (*finished)(void *self, tess_engine *engine); /* called after the last step */
} tess_first_steps_observer;

/* Runs the first `steps` steps of the run that `config` describes, from its initial weights; reads no checkpoint.
 * `config` must have passed tess_config_check. Collective. Returns TESS_E_INTERRUPTED if the run was asked to stop. */
tess_status tess_train_first_steps(tess_runtime *runtime, const tess_task_kind *kind, const tess_config *config,
                                   int64_t steps, const tess_first_steps_observer *observer);

#endif
