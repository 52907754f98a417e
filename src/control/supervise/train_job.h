/* Runs `tessera train` and other tasks in the process that the user starts. It locks the run's folder, starts the
 * writer of checkpoints and the watcher of the host, and starts the ranks or becomes one. */
#ifndef TESS_CONTROL_SUPERVISE_TRAIN_JOB_H
#define TESS_CONTROL_SUPERVISE_TRAIN_JOB_H

#include "control/supervise/start_ranks.h"
#include "control/supervise/train_rank.h"

typedef struct tess_train_job {
    const tess_task_kind *kind; /* kind of the task: training or RL */
    const char *config;         /* path of the configuration; NULL: no file */
    char *const *overrides;
    int n_overrides;
    const tess_own_command *command; /* command that starts the ranks */
    tess_ranks ranks;                /* not set in a rank of a launcher; neither is `command` */
    bool counts_ranks;               /* -n was given */
    tess_train_view view;
} tess_train_job;

/* Runs the job. Prints why it failed. Returns the exit code. */
int tess_train_job_run(const tess_train_job *job);

#endif
