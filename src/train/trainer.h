/* The calls of a task to the trainer that runs it. */
#ifndef TESS_TRAIN_TRAINER_H
#define TESS_TRAIN_TRAINER_H

#include "train/task.h"

/* Borrowed, and there as soon as the task is created; the model's configuration, when it is opened. */
tess_runtime *tess_trainer_runtime(const tess_trainer *t);
tess_team *tess_trainer_team(const tess_trainer *t);           /* the ranks that do what this one does */
const tess_config *tess_trainer_config(const tess_trainer *t); /* checked */
const tess_model_config *tess_trainer_model(const tess_trainer *t);
bool tess_trainer_goes_on(const tess_trainer *t); /* whether the run continues from state in memory */
/* Whether a checkpoint's `part` is not loaded: see exclude.h. */
bool tess_trainer_leaves_out(const tess_trainer *t, const char *part);
/* Checks that all hosts read the same files. `what`: the option that names them. Collective. */
tess_status tess_trainer_check_files(const tess_trainer *t, const char *const *paths, size_t n, const char *what);

/* The run ends before its next step, and writes no model: the task has done all that was asked for. Called by its
 * begin, on all ranks. */
void tess_trainer_end_here(tess_trainer *t);

/* Writes the model to the folder `name` of job.dump_folder, as Hugging Face has it, or its adapter, as PEFT has it.
 * NULL: model, or adapter. Collective. */
tess_status tess_trainer_export(tess_trainer *t, const char *name, char *folder, size_t size);
/* Keeps this rank's place once more, after an evaluation that has changed it and before that is marked as done. */
void tess_trainer_place_evaluation(const tess_trainer *t);

/* A text of any length for people, from rank 0. */
void tess_trainer_show(const tess_trainer *t, const char *text);
/* A line for people, from rank 0. */
void tess_trainer_note(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same after "warning: "; the job's records keep it too. */
void tess_trainer_warn(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Path inside job.dump_folder. */
tess_status tess_trainer_path(const tess_trainer *t, const char *name, char *path, size_t size);

/* A line of metrics.jsonl for the newest step in addition to the step's own, and its points in TensorBoard; once a
 * step, however often the run is resumed. A full disk delays it, and costs nothing else. Rank 0 alone; others do
 * nothing. */
void tess_trainer_add_metrics(tess_trainer *t, const tess_metric *metrics, int n);

#endif
