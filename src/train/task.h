/* A task: what a run trains on. The loop, checkpoints, hot recovery, metrics and the launcher know no more of it than
 * this table. There are two: text (text/text_task.c) and reinforcement learning (rl/rl_task.c). A command names the
 * kind of its task (tess_task_kind in train.h). */
#ifndef TESS_TRAIN_TASK_H
#define TESS_TRAIN_TASK_H

#include "base/text/json.h"
#include "ckpt/store/tensor.h"
#include "plan/memory_need.h"
#include "train/train.h"

/* The place of a rank in its task, for the process that replaces it. */
typedef struct tess_task_place {
    int64_t word[136]; /* the task knows what they mean */
} tess_task_place;

typedef struct tess_task {
    void *self;
    /* The micro-batches of the step that follows. All ranks get the same numbers. */
    tess_status (*next_step)(void *self, tess_batch_source *source);
    /* Writes where this rank is, between two of its micro-batches. go_to goes back there. `newest` is the report of the
     * step that the place belongs to, whose carry is newer than the place; NULL: no process has recorded it. */
    void (*place)(const void *self, tess_task_place *place);
    tess_status (*go_to)(void *self, const tess_task_place *place, const tess_engine_report *newest);
    /* Adds to a checkpoint's description what any number of ranks needs to go on after the newest step; restore goes on
     * from there. Collective. */
    tess_status (*describe)(void *self, json_t *meta);
    tess_status (*restore)(void *self, const json_t *meta);
    /* Takes what a step has changed into the task's own state; called after each step, also where the run stops there,
     * and before its checkpoint. Collective. NULL: nothing. */
    tess_status (*settle)(void *self);
    /* Whether an evaluation follows the newest step; `last`: the run's last one. */
    bool (*evaluates)(const void *self, bool last);
    /* Does what is due after a step at which the run does not stop. Sets *report if that was an evaluation, else leaves
     * it. Also called when a run goes on from a checkpoint that lacks its step's evaluation. Collective. */
    tess_status (*after_step)(void *self, bool last, tess_validation_report *report);
    /* The task's part of a checkpoint besides its description; NULL: nothing. It has n_tensors tensors, which borrow
     * the task's memory: a load writes there, and loaded, which is collective, follows restore. */
    int (*n_tensors)(const void *self);
    tess_status (*tensors)(void *self, tess_ckpt_tensor *tensors);
    tess_status (*loaded)(void *self, const json_t *meta);
    /* Adds what the task knows of a step: metrics, and words for people. Rank 0 alone. NULL: nothing. */
    void (*report)(void *self, tess_step_report *report);
    /* Whether the run ends at the newest step, before training.steps. All ranks say the same. NULL: it never does. */
    bool (*is_done)(const void *self);
    /* No step follows in this process; `interrupted`: the run is to go on later. Collective. NULL: nothing. */
    tess_status (*finish)(void *self, bool interrupted);
    /* Adds to the folder of an exported model what its users need besides weights and config.json, before the weights.
     * Rank 0 alone. NULL: nothing. */
    tess_status (*export)(const void *self, const char *folder);
    /* The run has ended, and its model is in `folder`: reports what there is to report. Rank 0 alone. NULL: nothing. */
    tess_status (*conclude)(void *self, const char *folder);
} tess_task;

typedef struct tess_trainer tess_trainer;

/* The kind of a task: the command that runs it names it. */
typedef struct tess_task_kind {
    bool has_own_batches;        /* a step is what the task makes it: training.global_batch_size says nothing */
    const char *const *defaults; /* keys whose default differs here (tess_config_load_over); NULL: none */
    /* Checks what tess_config_check cannot know, before anything is started; may set open options. NULL: nothing. */
    tess_status (*check)(tess_config *config);
    /* Makes the task, and finds the files of its data; all hosts must have the same. The model's configuration is not
     * there yet. If it fails once task->self is set, `close` follows. Collective. */
    tess_status (*create)(tess_trainer *trainer, tess_task *task);
    /* A hash of what decides which samples the task takes, except for debug.seed and training.seq_len: only a run with
     * the same goes on from state in memory. */
    tess_status (*identify)(const void *self, uint64_t *hash);
    /* Opens the data, and sets what the model's configuration leaves to it, such as the vocabulary's special tokens.
     * Weights do not exist yet. Collective. */
    tess_status (*open)(void *self, tess_model_config *model);
    /* The engine is there, with its initial weights, and no checkpoint has been read. Collective. NULL: nothing. */
    tess_status (*ready)(void *self, tess_engine *engine);
    /* job.dump_folder exists: writes what belongs there before the first step. Collective. NULL: nothing. */
    tess_status (*write)(void *self);
    /* The run goes on from its state, or begins; before the first step. Collective. NULL: nothing. */
    tess_status (*begin)(void *self);
    /* Called after `open`, instead of all others, on ranks that do not train (tess_config_trainers): they have no
     * engine, and their team has such ranks only. Returns when the trainers have finished; *interrupted is theirs.
     * NULL: this kind has no such ranks. */
    tess_status (*serve)(void *self, bool *interrupted);
    /* Does what tess_memory_predict_rank does, for all memory of the task; needs no task. */
    tess_memory_rank_fn predict_memory;
    /* Frees the task; before the engine is freed. */
    void (*close)(void *self);
} tess_task_kind;

#endif
