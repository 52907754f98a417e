/* A task defines what a run trains on. The training loop, checkpoints, hot recovery, metrics and the launcher know
 * it only through this table. There are two kinds: text (text/text_task.c) and reinforcement learning
 * (rl/rl_task.c). A command chooses the kind (tess_task_kind). */
#ifndef TESS_TRAIN_TASK_H
#define TESS_TRAIN_TASK_H

#include "base/text/json.h"
#include "ckpt/store/tensor.h"
#include "plan/memory_need.h"
#include "train/train.h"

/* A rank's place in its task. A process that replaces the rank continues from it. */
typedef struct tess_task_place {
    int64_t word[136]; /* only the task knows what the words mean */
} tess_task_place;

typedef struct tess_task {
    void *self;
    /* Provides the micro-batches of the next step. All ranks get the same numbers. */
    tess_status (*next_step)(void *self, tess_batch_source *source);
    /* place: writes this rank's place between two of its micro-batches. go_to: returns to that place. `newest`:
     * report of the step that the place belongs to, whose carry is newer than the place; NULL: no process has
     * recorded it. */
    void (*place)(const void *self, tess_task_place *place);
    tess_status (*go_to)(void *self, const tess_task_place *place, const tess_engine_report *newest);
    /* describe: adds to a checkpoint's description what is needed to continue after the newest step with any number
     * of ranks. restore: continues from such a description. Collective. */
    tess_status (*describe)(void *self, json_t *meta);
    tess_status (*restore)(void *self, const json_t *meta);
    /* Updates the task's own state with the results of a step. Called after each step, before its checkpoint, even
     * if the run stops at that step. Collective. NULL: nothing to do. */
    tess_status (*settle)(void *self);
    /* Whether an evaluation follows the newest step. `last`: the step is the run's last. */
    bool (*evaluates)(const void *self, bool last);
    /* Does what is due after a step, unless the run stops there. Sets *report only if it ran an evaluation. Also
     * called when a run resumes from a checkpoint that lacks its step's evaluation. Collective. */
    tess_status (*after_step)(void *self, bool last, tess_validation_report *report);
    /* Tensors that the task adds to a checkpoint; NULL: none. There are n_tensors of them, and they borrow the
     * task's memory: a load writes into it. `loaded` follows `restore` and is collective. */
    int (*n_tensors)(const void *self);
    tess_status (*tensors)(void *self, tess_ckpt_tensor *tensors);
    tess_status (*loaded)(void *self, const json_t *meta);
    /* Adds the task's metrics and words to the report of a step. Called on rank 0 only. NULL: nothing to do. */
    void (*report)(void *self, tess_step_report *report);
    /* Whether the run ends at the newest step, before training.steps. Returns the same on all ranks. NULL: never. */
    bool (*is_done)(const void *self);
    /* Called when no more steps follow in this process. `interrupted`: the run will continue later. Collective.
     * NULL: nothing to do. */
    tess_status (*finish)(void *self, bool interrupted);
    /* Adds files to the folder of an exported model besides weights and config.json, before the weights. Called on
     * rank 0 only. NULL: nothing to do. */
    tess_status (*export)(const void *self, const char *folder);
    /* Called when the run has ended and its model is in `folder`; reports the task's results. Called on rank 0 only.
     * NULL: nothing to do. */
    tess_status (*conclude)(void *self, const char *folder);
} tess_task;

typedef struct tess_trainer tess_trainer;

/* A kind of task. The command that runs the task names its kind. */
typedef struct tess_task_kind {
    /* A program outside of the library, whose model and data this kind trains (program/program_task.h). NULL: the model
     * is that of the configuration */
    const struct tess_program *program;
    bool has_own_batches;        /* the task decides how large a step is: training.global_batch_size has no effect */
    const char *const *defaults; /* options whose default differs for this kind (tess_config_load_over); NULL: none */
    /* Checks what tess_config_check cannot know, before anything starts. May set open options. NULL: nothing to do. */
    tess_status (*check)(tess_config *config);
    /* Creates the task and finds its data files, which must be the same on all hosts. The model's configuration is
     * not known yet. If it fails after setting task->self, `close` is called. Collective. */
    tess_status (*create)(tess_trainer *trainer, tess_task *task);
    /* Hashes all settings that decide which samples the task takes, except debug.seed and training.seq_len. A run
     * continues from state in memory only if the hash is the same. */
    tess_status (*identify)(const void *self, uint64_t *hash);
    /* Opens the data, and sets what the model's configuration leaves open, such as special tokens of the vocabulary.
     * Weights do not exist yet. Collective. */
    tess_status (*open)(void *self, tess_model_config *model);
    /* Called when the engine has its initial weights, before a checkpoint is read. Collective. NULL: nothing to do. */
    tess_status (*ready)(void *self, tess_engine *engine);
    /* Writes the task's files to job.dump_folder, which exists, before the first step. Collective. NULL: nothing to
     * do. */
    tess_status (*write)(void *self);
    /* Called before the first step, when a resumed run has its state. Collective. NULL: nothing to do. */
    tess_status (*begin)(void *self);
    /* Called after `open` on ranks that do not train (tess_config_trainers), instead of all other callbacks. These
     * ranks have no engine, and form their own team. Returns when the trainers have finished, and sets *interrupted
     * to theirs. NULL: this kind has no such ranks. */
    tess_status (*serve)(void *self, bool *interrupted);
    /* Builds what its ranks have in addition to training, to predict their memory. Needs no task. NULL: nothing. */
    const tess_dry_task *dry;
    /* Lists samples of a run in `folder` for its page (page/run_page.h), after the run. Needs no task. NULL: the kind
     * has none. */
    json_t *(*page_samples)(void *self, tess_mem *mem, const char *folder);
    /* Frees the task. Called before the engine is freed. */
    void (*close)(void *self);
} tess_task_kind;

#endif
