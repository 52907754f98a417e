/* Runs a rank of `tessera train`: it joins the job, trains, and may start again when a peer is lost. */
#ifndef TESS_CONTROL_SUPERVISE_TRAIN_RANK_H
#define TESS_CONTROL_SUPERVISE_TRAIN_RANK_H

#include "train/task.h"

/* Callbacks that show a rank's training. All get observer.self. */
typedef struct tess_train_view {
    tess_train_observer observer;
    void (*begin)(void *self, const tess_config *config);
    void (*end)(void *self, tess_status status,
                const tess_train_result *result); /* called on rank 0, at the end of each life */
} tess_train_view;

/* Whether a collective that takes longer than comm.timeout_s is only reported, and continues. */
bool tess_train_waits_on(const tess_config *config);

/* Trains in this process, on a task of this kind. Prints why it failed. Returns the exit code. */
int tess_train_rank(const tess_task_kind *kind, const tess_config *config, const tess_train_view *view);

#endif
