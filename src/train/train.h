/* Training: the composition root. From a configuration to a trained model in a folder.
 *
 * Prints nothing: reports go to an observer, on rank 0 alone. */
#ifndef TESS_TRAIN_TRAIN_H
#define TESS_TRAIN_TRAIN_H

#include "base/core/metric.h"
#include "engine/engine.h"

/* After every step; values are those of the whole job. */
typedef struct tess_step_report {
    int64_t step, steps;
    double loss, grad_norm, lr; /* loss: mean -log p over the step's target tokens */
    double loss_scale;          /* factor of its gradients on their way; 1: none */
    double zloss, zgrad;        /* deviations above the newest 128; NaN: not known yet */
    bool skipped;               /* the step's update was left out */
    int64_t n_tokens;           /* target tokens trained on so far */
    double tps, tflops, mfu;    /* since the last log line; mfu against the measured peak of these cores, 0..1 */
    double eta_s;               /* time left, at the present speed */
    tess_step_times times;      /* times of this step on rank 0 */
    size_t peak_bytes[TESS_POOL_COUNT]; /* peaks of rank 0 */
    size_t total_peak_bytes;            /* all pools of all ranks */
    bool log_line;                      /* metrics.log_freq asks for a line */
    const tess_metric *metrics;         /* (n_metrics) of the task, in addition to these */
    int n_metrics;
    const char *words; /* the task's words for a log line; NULL: none */
    const char *curve; /* name of the curve that is drawn at the end of the run; NULL: the loss */
    double curve_value;
} tess_step_report;

typedef enum tess_validation_outcome {
    TESS_VALIDATION_WHOLE,
    TESS_VALIDATION_PARTIAL, /* the first n_tokens of about n_tokens_all */
    TESS_VALIDATION_MISSING  /* there are no numbers */
} tess_validation_outcome;

typedef struct tess_validation_report {
    int64_t step;
    tess_validation_outcome outcome;
    int64_t n_tokens, n_tokens_all;
    double loss, perplexity, bits_per_byte; /* bits_per_byte 0 when the text's bytes are unknown */
    double seconds;
    bool cut_off;  /* by a stop of the job: it is repeated when the run goes on */
    char why[400]; /* reason that it is partial or missing */
} tess_validation_report;

/* Any member may be NULL. */
typedef struct tess_train_observer {
    void *self;
    void (*note)(void *self, const char *text); /* a line: what was set up, saved, warned of */
    void (*step)(void *self, const tess_step_report *report);
    void (*validation)(void *self, const tess_validation_report *report);
} tess_train_observer;

typedef struct tess_train_result {
    int64_t steps;                     /* done in all */
    bool interrupted;                  /* stopped by a signal, after saving (checkpoint.enable) */
    tess_validation_report last;       /* the last that is not missing; n_tokens 0: none */
    char model_folder[TESS_TEXT_SIZE]; /* "" when no model was written */
} tess_train_result;

/* If training.global_batch_size is open (0), sets it to that of the checkpoint that this run would resume from, so that
 * it stays the same with any number of ranks. Without such a checkpoint, or if it cannot be read (resuming reports
 * that), it stays open. Before tess_config_check. */
void tess_train_take_batch(tess_mem *mem, tess_config *config);

struct tess_task_kind; /* task.h */

/* Runs the job that `config` describes on a task of this kind, as one rank of `runtime`. Collective. The config is
 * checked here (tess_config_check, kind->check). */
tess_status tess_train(tess_runtime *runtime, const struct tess_task_kind *kind, const tess_config *config,
                       const tess_train_observer *observer, tess_train_result *result);

#endif
