/* The calls of a task to the trainer that runs it. */
#ifndef TESS_TRAIN_TRAINER_H
#define TESS_TRAIN_TRAINER_H

#include "data/conversation/conversation.h"
#include "data/tokenizer/tokenizer.h"
#include "train/task.h"

/* Borrowed, and there as soon as the task is opened. */
tess_runtime *tess_trainer_runtime(const tess_trainer *t);
tess_team *tess_trainer_team(const tess_trainer *t);           /* the ranks that do what this one does */
const tess_config *tess_trainer_config(const tess_trainer *t); /* checked */
const tess_tokenizer *tess_trainer_tokenizer_of(const tess_trainer *t);
const char *tess_trainer_tokenizer_path(const tess_trainer *t); /* argument for tess_tokenizer_read */
const tess_model_config *tess_trainer_model(const tess_trainer *t);
const tess_chat *tess_trainer_chat(const tess_trainer *t); /* how messages are written */

/* The run ends before its next step, and writes no model: the task has done all that was asked for. Called by its
 * begin, on all ranks. */
void tess_trainer_end_here(tess_trainer *t);

/* A line for people, from rank 0. */
void tess_trainer_note(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same after "warning: "; the job's records keep it too. */
void tess_trainer_warn(const tess_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Path inside job.dump_folder. */
tess_status tess_trainer_path(const tess_trainer *t, const char *name, char *path, size_t size);

/* A line of metrics.jsonl for the newest step beside the step's own, and its points in TensorBoard; once a step,
 * however often the run is resumed. A full disk delays it, and costs nothing else. Rank 0 alone; others do nothing. */
void tess_trainer_add_metrics(tess_trainer *t, const tess_metric *metrics, int n);

#endif
