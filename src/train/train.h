/* Trains a model: from a configuration to a model in a folder. This module connects all others.
 *
 * Prints nothing: rank 0 reports to an observer. */
#ifndef TESS_TRAIN_TRAIN_H
#define TESS_TRAIN_TRAIN_H

#include "base/core/metric.h"
#include "engine/engine.h"

/* Reported after every step. Values are those of the whole job. */
typedef struct tess_step_report {
    int64_t step, steps;
    double loss, grad_norm, lr; /* loss: mean -log p over the step's target tokens */
    double loss_scale;          /* factor of the gradients during backward (loss scaling); 1: none */
    double zloss, zgrad;        /* z-score relative to the newest 128 values; NaN: not known yet */
    tess_load_report load;
    bool skipped;     /* the step did not update the weights */
    int64_t n_tokens; /* target tokens that the run has trained on so far */
    int n_ranks;      /* ranks of the job */
    /* averages since the last log line; mfu is relative to the measured peak of these cores, 0..1 */
    double tps, tflops, mfu;
    double eta_s;                       /* seconds until the last step, at the present speed */
    tess_step_times times;              /* times of this step on rank 0 */
    size_t peak_bytes[TESS_POOL_COUNT]; /* peak bytes of each pool on rank 0 */
    size_t total_peak_bytes;            /* sum over all pools of all ranks */
    bool log_line;                      /* metrics.log_freq asks for a log line at this step */
    const tess_metric *metrics;         /* (n_metrics) further metrics of the task */
    int n_metrics;
    const char *words; /* text of the task for a log line; NULL: none */
    const char *curve; /* name of the curve drawn at the end of the run; NULL: the loss */
    double curve_value;
} tess_step_report;

typedef enum tess_validation_outcome {
    TESS_VALIDATION_WHOLE,
    TESS_VALIDATION_PARTIAL, /* covers the first n_tokens of about n_tokens_all */
    TESS_VALIDATION_MISSING  /* there is no result */
} tess_validation_outcome;

typedef struct tess_validation_report {
    int64_t step;
    tess_validation_outcome outcome;
    int64_t n_tokens, n_tokens_all;
    double loss, perplexity; /* perplexity: 0 if the task does not train on text */
    double bits_per_byte;    /* 0 if the number of bytes in the text is unknown */
    double seconds;
    bool cut_off;  /* a stop of the job cut it off; it is repeated when the run continues */
    char why[400]; /* why the result is partial or missing */
} tess_validation_report;

/* Any member may be NULL. */
typedef struct tess_train_observer {
    void *self;
    void (*note)(void *self, const char *text); /* a line for the user: what was set up or saved, and warnings */
    void (*step)(void *self, const tess_step_report *report);
    void (*validation)(void *self, const tess_validation_report *report);
} tess_train_observer;

typedef struct tess_train_result {
    int64_t steps;                     /* total number of steps done */
    bool interrupted;                  /* a signal stopped the run after a save (checkpoint.enable) */
    tess_validation_report last;       /* newest report that is not missing; n_tokens 0: none */
    char model_folder[TESS_TEXT_SIZE]; /* "" if no model was written */
} tess_train_result;

/* If training.global_batch_size is open (0), or training.local_batch_size (auto), sets it to that of the checkpoint
 * that this run would resume from, so that it depends neither on the number of ranks nor on the memory of a machine. It
 * stays open if there is no such checkpoint, or if it cannot be read (resuming reports that). Call it before
 * tess_config_check. */
void tess_train_take_batch(tess_mem *mem, tess_config *config);

struct tess_task_kind; /* task.h */

/* Runs the job that `config` describes as one rank of `runtime`, on a task of this kind. Checks the configuration
 * itself (tess_config_check, kind->check). Collective. */
tess_status tess_train(tess_runtime *runtime, const struct tess_task_kind *kind, const tess_config *config,
                       const tess_train_observer *observer, tess_train_result *result);

#endif
