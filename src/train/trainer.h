/* The functions that a task calls on its trainer. */
#ifndef TESS_TRAIN_TRAINER_H
#define TESS_TRAIN_TRAINER_H

#include "train/task.h"

/* These are borrowed from the trainer. All exist when the task is created, except the model's configuration, which
 * exists when the task is opened. */
tess_runtime *tess_trainer_runtime(const tess_trainer *t);
tess_team *tess_trainer_team(const tess_trainer *t);           /* the ranks of the same role, by place */
const tess_config *tess_trainer_config(const tess_trainer *t); /* checked */
const tess_model_config *tess_trainer_model(const tess_trainer *t);
const struct tess_program *tess_trainer_program(const tess_trainer *t); /* tess_task_kind.program */
bool tess_trainer_goes_on(const tess_trainer *t); /* whether the run continues from state in memory */
/* Whether `part` of a checkpoint is not loaded: see exclude.h. */
bool tess_trainer_leaves_out(const tess_trainer *t, const char *part);
/* Checks that all hosts read the same files. `what`: the option that names them. Collective. */
tess_status tess_trainer_check_files(const tess_trainer *t, const char *const *paths, size_t n, const char *what);

/* Ends the run before its next step, without writing a model, because the task has done all that was asked for. The
 * task's `begin` calls it on all ranks. */
void tess_trainer_end_here(tess_trainer *t);

/* Writes the model, or its adapter if it has one, to the folder `name` of job.dump_folder: in the layout of Hugging
 * Face or PEFT. If `name` is NULL, the folder is called model or adapter. Collective. */
tess_status tess_trainer_export(tess_trainer *t, const char *name, char *folder, size_t size);
/* Records this rank's place again. Called after an evaluation has changed the place, before the evaluation is marked
 * as done. */
void tess_trainer_place_evaluation(const tess_trainer *t);

/* Shows a text of any length to the user, from rank 0. */
void tess_trainer_show(const tess_trainer *t, const char *text);
/* Shows one line to the user, from rank 0. */
void tess_trainer_note(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like tess_trainer_note, with "warning: " before the line. The job's records also keep it. */
void tess_trainer_warn(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Builds the path of `name` in job.dump_folder. */
tess_status tess_trainer_path(const tess_trainer *t, const char *name, char *path, size_t size);

/* Adds metrics of the newest step to metrics.jsonl and TensorBoard, in addition to the step's own. Writes them once
 * for each step, even if the run is resumed. A full disk only delays them. Does nothing on ranks other than 0. */
void tess_trainer_add_metrics(tess_trainer *t, const tess_metric *metrics, int n);

/* A generated text for people. The texts are UTF-8, and need no NUL at the end. */
typedef struct tess_sample_text {
    int64_t rollout, number;
    const char *prompt, *response;
    size_t prompt_size, response_size;
    double reward; /* NaN: none */
} tess_sample_text;

/* Writes samples (n) of the newest step to samples.jsonl and TensorBoard. A failure is only a warning. Does nothing on
 * ranks other than 0, and if metrics.samples is 0. */
void tess_trainer_add_samples(tess_trainer *t, const tess_sample_text *samples, int n);

#endif
