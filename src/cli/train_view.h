/* Shows a training run: a progress bar on a terminal, log lines in the form of torchtitan's, and the loss curve at
 * the end. A terminal of fewer than 100 columns gets short lines. */
#ifndef TESS_CLI_TRAIN_VIEW_H
#define TESS_CLI_TRAIN_VIEW_H

#include "control/supervise/train_rank.h"

enum { CLI_CURVE_POINTS = 256 };

typedef enum cli_log {
    CLI_LOG_TEXT,  /* lines for people */
    CLI_LOG_QUIET, /* the same without steps, bar and curve */
    CLI_LOG_JSON   /* each step, note and validation is a line of JSON */
} cli_log;

typedef struct cli_train_view {
    cli_log log; /* set by the caller; begin clears the rest */
    double begin_s;
    const char *folder;      /* job.dump_folder */
    int64_t steps, patience; /* training.steps, validation.patience */
    bool saves, resumes;
    /* Points of the curve, each the mean of `per_point` steps. */
    const char *curve; /* name of the curve, such as "loss" */
    double values[CLI_CURVE_POINTS];
    int n_points, n_in_point;
    bool is_noisy; /* the curve is drawn smoothed */
    int64_t per_point, first_step, last_step;
} cli_train_view;

/* Returns the callbacks for the rank. They keep a pointer to `view`. */
tess_train_view cli_train_view_of(cli_train_view *view);

#endif
