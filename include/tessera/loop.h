/* Tessera's training loop around a program of your own (tessera/loop_program.h): steps over any number of ranks,
 * learning rate schedule, clipping, checks of numbers, metrics and TensorBoard files, checkpoints during training,
 * resuming, evaluation, and what `tessera top` and `tessera trace` show of a run. It is the loop of `tessera train`.
 *
 *     static const tess_program program = {.name = "convnet", .units = units, .n_units = 3, ...};
 *     tess_loop_run(&program, "run.yaml", settings, n_settings, &observer, &result);
 *
 * Start the program with `tessera run -n 4 -- ./program`, with torchrun or mpirun as docs/many-hosts.md says, or alone
 * as one rank. */
#ifndef TESSERA_LOOP_H
#define TESSERA_LOOP_H

#include "tessera/loop_program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers of a step, of the whole job. */
typedef struct tess_loop_step {
    int64_t step, steps;        /* number of the step, from 1, and of the last one */
    double loss, grad_norm, lr; /* loss: mean over the step's items; grad_norm: that of its gradient, before clipping */
    bool skipped;               /* the step did not update the weights */
    int64_t n_items;            /* items that the run has trained on so far */
    double items_per_s;         /* average since the last log line */
    bool log_line;              /* metrics.log_freq asks for a log line at this step */
} tess_loop_step;

/* The result of an evaluation: the mean loss over its items. */
typedef struct tess_loop_evaluation {
    int64_t step, n_items;
    double loss;
} tess_loop_evaluation;

/* Callbacks on rank 0 that report to the user. Each may be NULL. The arguments are valid during the call. */
typedef struct tess_loop_observer {
    void *self;
    void (*note)(void *self, const char *text); /* a line: what was set up or saved, and warnings */
    void (*step)(void *self, const tess_loop_step *step);
    void (*evaluation)(void *self, const tess_loop_evaluation *evaluation);
} tess_loop_observer;

typedef struct tess_loop_result {
    int64_t steps;             /* number of steps done, with those before a resume */
    bool interrupted;          /* a signal stopped the run after a save: started again, it goes on */
    tess_loop_evaluation last; /* newest evaluation of this process; n_items 0: none */
} tess_loop_result;

/* Runs the program to training.steps, or until the job is asked to stop. Creates and destroys the rank's tess_runtime:
 * the process must not have another one. The model is written to model/ of job.dump_folder, as safetensors.
 *
 * config    a YAML file with the keys of `tessera info`; NULL: none
 * settings  (n_settings) "section.key=value", which override the file
 * observer  NULL: none
 * result    NULL is allowed; all zero after a failure
 *
 * Keys about text, tokens and a model of the library are refused, and so are tensor parallelism, pipelines, passes,
 * loss scaling, offload of activations, and a device other than the CPU. training.local_batch_size is 1 and
 * training.global_batch_size counts micro-batches.
 *
 * All ranks of the job must call it with the same configuration.
 *   TESS_E_INVALID      a key is unknown, does not apply or has a bad value; a member of `program` is missing; or the
 *                       checkpoint in the folder belongs to another program
 *   TESS_E_NOT_FINITE   loss or gradient are not finite (numbers.on_nonfinite); the message names rank and parameter
 *   TESS_E_PEER_LOST, TESS_E_TIMEOUT, TESS_E_MISMATCH, TESS_E_IO, TESS_E_NO_SPACE, TESS_E_NOMEM
 * and the status of a callback that failed. Not thread-safe: one call at a time in a process. */
TESS_API tess_status tess_loop_run(const tess_program *program, const char *config, const char *const *settings,
                                   int n_settings, const tess_loop_observer *observer, tess_loop_result *result);

#ifdef __cplusplus
}
#endif

#endif
