/* A task: what a run trains on. The loop, checkpoints, hot recovery, metrics and the launcher know no more of it than
 * this table. Text is the first (text_task.c). */
#ifndef TESS_TRAIN_TASK_H
#define TESS_TRAIN_TASK_H

#include "base/text/json.h"
#include "train/engine.h"
#include "train/train.h"

/* Where a rank is in its task, for the process that replaces it. */
typedef struct tess_task_place {
    int64_t word[8]; /* the task knows what they mean */
} tess_task_place;

typedef struct tess_task {
    void *self;
    /* The micro-batches of the step that follows. All ranks get the same numbers. */
    tess_status (*next_step)(void *self, tess_batch_source *source);
    /* Of this rank, between two of its micro-batches, and back to it. */
    void (*place)(const void *self, tess_task_place *place);
    tess_status (*go_to)(void *self, const tess_task_place *place);
    /* Adds to a checkpoint's description what any number of ranks needs to go on after the newest step; restore goes on
     * from there. Collective. */
    tess_status (*describe)(void *self, json_t *meta);
    tess_status (*restore)(void *self, const json_t *meta);
    /* Does what is due after a step; `last`: the run's last one. Sets *report if that was an evaluation, else leaves
     * it. Collective. */
    tess_status (*after_step)(void *self, bool last, tess_validation_report *report);
} tess_task;

#endif
