/* Builds on dry ranks what the ranks of a task have in addition to training. */
#ifndef TESS_PLAN_DRY_TASK_H
#define TESS_PLAN_DRY_TASK_H

#include "engine/engine.h"

struct tess_dry_report;

typedef struct tess_dry_task {
    /* Builds the objects next to a new engine, whose ranks are the first of `all`. *self is destroyed also after an
     * error. */
    tess_status (*create)(tess_engine *engine, tess_team *all, void **self);
    /* Returns another engine that makes the same steps, or NULL. */
    tess_engine *(*second)(const void *self);
    /* Does once, after a step, what the task does between steps and takes memory for. `batch` is as large as any. */
    tess_status (*pause)(void *self, const tess_batch *batch);
    void (*destroy)(void **self);
    /* Builds a rank that does not train, and counts it (tess_dry_count). `all` has all ranks. */
    tess_status (*serve)(tess_team *all, const tess_config *config, const tess_model_config *model,
                         struct tess_dry_report *report);
    /* Whether the loss of a step needs all rows of a micro-batch (tess_token_loss.whole). NULL: it does not. */
    bool (*needs_whole)(const tess_config *config);
} tess_dry_task;

#endif
