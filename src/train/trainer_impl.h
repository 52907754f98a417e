/* The trainer's parts, private to src/train. */
#ifndef TESS_TRAIN_TRAINER_IMPL_H
#define TESS_TRAIN_TRAINER_IMPL_H

#include "base/text/text.h"
#include "ckpt/async/async.h"
#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/store.h"
#include "engine/engine.h"
#include "train/logbook.h"
#include "train/memory_watch.h"
#include "train/metrics.h"
#include "train/task.h"
#include "train/train.h"
#include "train/trainer.h"

struct tess_trainer {
    tess_config config; /* checked */
    const tess_train_observer *observer;
    tess_runtime *runtime;
    tess_team *team; /* the ranks that do what this one does: all of the job's, or those that train, or the others */
    tess_mem *mem;
    int rank, world; /* rank in the team; the engine has the other coordinates */
    bool is_aside;   /* this rank does not train: it serves those that do (tess_task_kind.serve) */
    tess_ckpt_hosts *hosts;

    tess_model_config model_config;
    tess_engine *engine;
    const tess_task_kind *kind;
    tess_task task;           /* self NULL: not created */
    tess_batch_source source; /* the task's, of this step */

    tess_text_list without; /* tensors of a checkpoint that were not loaded: see exclude.h; a view of the option */
    tess_metrics *metrics;
    tess_metrics *memory; /* memory.jsonl */
    tess_memory_watch leaks;
    bool metrics_fail;           /* the newest line could not be written */
    int64_t n_waiting;           /* lines that wait since */
    int64_t metrics_lost;        /* lines that had been lost before */
    tess_saver *saver;           /* NULL: training stands still during a save */
    tess_ckpt_findings findings; /* findings of checkpoints that were read back */

    /* State that persists in memory beyond the process. */
    tess_logbook *book;     /* NULL: none */
    uint64_t identity;      /* identity of the run, see go_on.c */
    bool goes_on;           /* the run continues from that state */
    bool fell_back;         /* training.mixed_precision_param=auto became float32 */
    char not_taken[128];    /* the other state that exists, in memory or on disk, for messages */
    logbook_marks marks;    /* marks of all ranks when this process began */
    logbook_step last_step; /* the newest that an earlier process committed; step -1: none */

    int64_t first_step; /* steps done when this process started */
    bool stopping;
    bool evaluation_due;              /* a stop left out or cut off the newest step's evaluation */
    bool ends_here;                   /* the run ends without steps, see tess_trainer_end_here */
    bool leaving;                     /* the run ends after the next checkpoint */
    double phase_s[TESS_PHASE_COUNT]; /* times of all steps of this process */
};

/* begin: an empty trainer, with a copy of the configuration. end: frees it, also after a failure of begin, and returns
 * `status`. A failure is reported first, because freeing is collective and the other ranks must learn that this one
 * fails. */
tess_status tess_trainer_begin(tess_trainer *t, tess_runtime *runtime, const tess_task_kind *kind,
                               const tess_config *config, const tess_train_observer *observer);
tess_status tess_trainer_end(tess_trainer *t, tess_status status);

/* trainer_describe.c: notes on what the run is, before its first step; where memory and time went, after its last one.
 * describe_memory: that of the host and on disk alone, of all ranks of the job. All are collective. */
tess_status tess_trainer_describe(const tess_trainer *t);
tess_status tess_trainer_describe_end(tess_trainer *t);
tess_status tess_trainer_describe_memory(const tess_trainer *t);

/* Checks that the memory of each host suffices. Collective. */
tess_status tess_trainer_check_memory(const tess_trainer *t);
/* Finds which ranks are on which host, then fits and checks the configuration. Collective. */
tess_status tess_trainer_join_hosts(tess_trainer *t);
/* Checks that hosts read the same model, and share the folder unless folders are host-local. Collective. */
tess_status tess_trainer_check_hosts(tess_trainer *t);
/* Reads the model's configuration. Rank 0 unties the head if tess_config_untie_head does, and all ranks follow it. That
 * reads the head and the embedding. `reporter` may be NULL. Collective. */
tess_status tess_trainer_load_model(tess_trainer *t, const tess_reporter *reporter);

/* The micro-batches of the step that follows; persistent memory keeps this rank's place after each of them. */
tess_status tess_trainer_next_step(tess_trainer *t, tess_batch_source *source);

/* Shows the timeline of the newest step, if there is one, and writes it to pipeline/. A failure is a warning. */
void tess_trainer_draw_timeline(const tess_trainer *t);

/* Lists this rank's part of a checkpoint: every weight, and after each trainable one both of its moments; or the
 * adapter alone, if there is one. Free with tess_mem_free. */
tess_status tess_trainer_list_tensors(tess_trainer *t, tess_ckpt_tensor **tensors, int *n);
/* Whether this rank manages a folder of checkpoints: rank 0, or with host-local folders each host's first. */
bool tess_trainer_manages_folder(const tess_trainer *t);

/* Saves the run. Collective. If a save fails, that is an error if it was the `last` or checkpoint.on_error=stop, else a
 * warning. */
tess_status tess_trainer_save(tess_trainer *t, bool last);
/* Saves during training, all collective. Where they are impossible, a note says why, and training stands still during a
 * save.
 * open: after the engine is made and before checkpoints are looked for; waits for what an earlier job of this launch
 * left to write. report: after a step, reports how saves went. finish: waits for the last save and reports it. */
tess_status tess_trainer_open_saver(tess_trainer *t);
tess_status tess_trainer_report_saves(tess_trainer *t);
tess_status tess_trainer_finish_saves(tess_trainer *t);

/* Resumes from the run's newest checkpoint, or from checkpoint.load_step; else starts from
 * checkpoint.initial_load_path; else starts anew. Collective. */
tess_status tess_trainer_resume(tess_trainer *t);
tess_status tess_trainer_warm_start(tess_trainer *t);
/* Sets step, n_tokens, the task and the windows of the newest numbers from a checkpoint's description, except what
 * t->without lists. TESS_E_INVALID: the task cannot go on from there; text: the checkpoint was made with other data. */
tess_status tess_trainer_restore_state(tess_trainer *t, const json_t *meta);
/* Warns where the kernels that computed until here have other bits. NULL: older checkpoints do not say. */
void tess_trainer_compare_kernels(const tess_trainer *t, const char *saved);
/* Notes that the schedule of the learning rate is another than until here, if it is. */
void tess_trainer_compare_lr(const tess_trainer *t, const tess_lr_settings *before);
/* The step of the newest checkpoint, -1: none. Collective. */
tess_status tess_trainer_newest_checkpoint(tess_trainer *t, int64_t *step);
/* Ranks wait this many seconds while one of them reads whole checkpoints. A rank that dies is reported at once. */
enum { TESS_READING_S = 86400 };

/* Verifies every byte of a checkpoint. Collective, with the same status on all ranks. */
tess_status tess_trainer_read_back(tess_trainer *t, int64_t step);

/* Decides whether the run goes on from persistent memory, and clears that memory if not. Before the engine is made.
 * Collective. */
tess_status tess_trainer_find_persistent(tess_trainer *t);
/* Takes the engine and the task to the newest step in persistent memory. Collective. */
tess_status tess_trainer_go_on(tess_trainer *t);
/* Makes persistent memory valid: weights, moments and the task are where the run begins. */
tess_status tess_trainer_begin_book(tess_trainer *t);

#endif
