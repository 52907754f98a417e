/* Declares the trainer and its parts, private to src/train. */
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
    tess_config config; /* checked configuration */
    const tess_train_observer *observer;
    tess_runtime *runtime;
    tess_team *team; /* the ranks with the same role: all of the job's, those that train, or those that serve */
    tess_mem *mem;
    tess_team *ordered; /* the same ranks by their places in the mesh; NULL: `team` has that order */
    int rank;           /* rank in the team; the engine has the other coordinates */
    bool is_aside;      /* this rank does not train: it serves those that do (tess_task_kind.serve) */
    tess_ckpt_hosts *hosts;

    tess_model_config model_config;
    tess_engine *engine;
    const tess_task_kind *kind;
    tess_task task;           /* self NULL: the task is not created */
    tess_batch_source source; /* the task's micro-batches of the current step */

    tess_text_list without; /* parts of a checkpoint that are not loaded (exclude.h); a view of the option */
    tess_metrics *metrics;
    tess_metrics *samples; /* samples.jsonl; NULL: metrics.samples is 0, or this is not rank 0 */
    tess_memory_watch watch;
    tess_saver *saver;           /* NULL: training pauses during a save */
    tess_ckpt_findings findings; /* results of checkpoint verification */

    /* State that persists in memory beyond the process. */
    tess_logbook *book;  /* NULL: the job has no persistent memory */
    bool goes_on;        /* the run continues from that state */
    bool fell_back;      /* training.mixed_precision_param=auto became float32 */
    char not_taken[128]; /* message text about the other saved state, in memory or on disk, that is not used */
    logbook_marks marks; /* minimum marks of all ranks when this process began */

    int64_t first_step; /* number of steps done when this process started */
    bool stopping;
    bool evaluation_due;              /* a stop skipped or cut off the evaluation of the newest step */
    bool ends_here;                   /* the run ends without another step (tess_trainer_end_here) */
    bool leaving;                     /* the run ends after the next checkpoint */
    double phase_s[TESS_PHASE_COUNT]; /* seconds in each phase, over all steps of this process */
};

/* tess_trainer_begin sets up an empty trainer with a copy of the configuration. tess_trainer_end frees it, also
 * after a failed begin, and returns `status`. It reports a failure before freeing, because freeing is collective and
 * the other ranks must learn of the failure. */
tess_status tess_trainer_begin(tess_trainer *t, tess_runtime *runtime, const tess_task_kind *kind,
                               const tess_config *config, const tess_train_observer *observer);
tess_status tess_trainer_end(tess_trainer *t, tess_status status);

/* These print notes (trainer_describe.c); all are collective.
 * - describe: what the run is, before its first step.
 * - describe_end: where memory and time went, after the last step.
 * - describe_memory: memory of the host and on disk only, over all ranks of the job. */
tess_status tess_trainer_describe(const tess_trainer *t);
tess_status tess_trainer_describe_end(tess_trainer *t);
tess_status tess_trainer_describe_memory(const tess_trainer *t);

/* Checks that the memory of each host suffices. Collective. */
tess_status tess_trainer_check_memory(const tess_trainer *t);
/* Finds which ranks are on which host, then fits and checks the configuration. Collective. */
tess_status tess_trainer_join_hosts(tess_trainer *t);
/* Checks that hosts read the same model, and share the folder unless folders are host-local. Collective. */
tess_status tess_trainer_check_hosts(tess_trainer *t);
/* Reads the model's configuration. Rank 0 decides whether the head is untied (tess_config_untie_head), for which it
 * reads head and embedding; all ranks follow. `reporter` may be NULL. Collective. */
tess_status tess_trainer_load_model(tess_trainer *t, const tess_reporter *reporter);

/* Writes the run's configuration to TensorBoard, and its header for metrics.command. Only a lack of memory is an
 * error. */
tess_status tess_trainer_begin_board(tess_trainer *t);
/* Tells TensorBoard that the run has ended. */
void tess_trainer_end_board(tess_trainer *t, bool succeeded);
/* Writes histograms of trained weights and gradients (metrics.histograms_every). Gradients are those before clipping.
 * Collective. */
tess_status tess_trainer_show_histograms(tess_trainer *t, const tess_engine_report *done);

/* Takes the micro-batches of the next step from the task. After each of them, this rank's place is recorded in
 * persistent memory. */
tess_status tess_trainer_next_step(tess_trainer *t, tess_batch_source *source);

/* Draws the timeline of the newest step, if there is one, and writes it to pipeline/. A failure is only a warning. */
void tess_trainer_draw_timeline(const tess_trainer *t);

/* Lists this rank's part of a checkpoint: every weight, and after each trainable weight its two moments. With an
 * adapter, lists only the adapter. The caller frees the list with tess_mem_free. */
tess_status tess_trainer_list_tensors(tess_trainer *t, tess_ckpt_tensor **tensors, int *n);
/* Whether this rank manages a folder of checkpoints: rank 0, or the first rank of each host if folders are
 * host-local. */
bool tess_trainer_manages_folder(const tess_trainer *t);

/* Saves the run. A failed save is an error if it was the `last` one or checkpoint.on_error=stop; otherwise it is a
 * warning. Collective. */
tess_status tess_trainer_save(tess_trainer *t, bool last);
/* Saves during training; all are collective. If they are impossible, a note says why, and training pauses during a
 * save.
 * - open_saver: called after the engine is made, before checkpoints are searched. Waits until saves that an earlier
 * job of this launch left have been written.
 * - report_saves: called after a step; reports the results of saves.
 * - finish_saves: waits for the last save and reports it. */
tess_status tess_trainer_open_saver(tess_trainer *t);
tess_status tess_trainer_report_saves(tess_trainer *t);
tess_status tess_trainer_finish_saves(tess_trainer *t);

/* Resumes from the run's newest checkpoint or from checkpoint.load_step. Otherwise starts from
 * checkpoint.initial_load_path, or from initial weights. Collective. */
tess_status tess_trainer_resume(tess_trainer *t);
tess_status tess_trainer_warm_start(tess_trainer *t);
/* Restores step, n_tokens, the task and the windows of newest numbers from a checkpoint's description, except what
 * t->without lists. Returns TESS_E_INVALID if the task cannot continue from there; for text, if the checkpoint was
 * made with other data. */
tess_status tess_trainer_restore_state(tess_trainer *t, const json_t *meta);
/* Warns if the kernels used so far give other bits than the present ones. NULL: an older checkpoint does not record
 * them. */
void tess_trainer_compare_kernels(const tess_trainer *t, const char *saved);
/* Notes a change of the learning rate schedule, if there is one. */
void tess_trainer_compare_lr(const tess_trainer *t, const tess_lr_settings *before);
/* Finds the step of the newest checkpoint; -1: none. Collective. */
tess_status tess_trainer_newest_checkpoint(tess_trainer *t, int64_t *step);
/* Timeout in seconds for ranks that wait while another reads whole checkpoints. A rank that dies is reported at
 * once. */
enum { TESS_READING_S = 86400 };

/* Verifies every byte of a checkpoint. Returns the same status on all ranks. Collective. */
tess_status tess_trainer_read_back(tess_trainer *t, int64_t step);

/* Decides whether the run continues from persistent memory, and clears that memory if not. Called before the engine
 * is made. Collective. */
tess_status tess_trainer_find_persistent(tess_trainer *t);
/* Restores the engine and the task to the newest step in persistent memory. Collective. */
tess_status tess_trainer_go_on(tess_trainer *t);
/* Makes persistent memory valid: it then holds weights, moments and the task at the beginning of the run. */
tess_status tess_trainer_begin_book(tess_trainer *t);

#endif
