/* A rank of `tessera train`: it joins the job, trains, and may begin anew when a peer is lost. */
#ifndef TESS_CONTROL_SUPERVISE_TRAIN_RANK_H
#define TESS_CONTROL_SUPERVISE_TRAIN_RANK_H

#include "train/task.h"

/* Shows a rank's training; all functions get observer.self. */
typedef struct tess_train_view {
    tess_train_observer observer;
    void (*begin)(void *self, const tess_config *config);
    void (*end)(void *self, tess_status status,
                const tess_train_result *result); /* called on rank 0, at the end of each life */
} tess_train_view;

/* True: a collective that takes longer than comm.timeout_s is reported, and goes on. */
bool tess_train_waits_on(const tess_config *config);

/* Trains in this process, on a task of this kind. Prints why it failed; returns the exit code. */
int tess_train_rank(const tess_task_kind *kind, const tess_config *config, const tess_train_view *view);

#endif
