/* Records a rank's position in its persistent memory (job/persist), next to weights and moments: the step that they
 * belong to, and what else the next step needs. A process that replaces the rank reads it.
 *
 * Steps use two entries in turn, so the previous entry stays whole while the next is written. A step's update is a
 * pure function of weights, moments, gradients and the entry, so any process can finish it (optim/journal.h):
 *
 *     read        this rank's place in its task after its micro-batches of the step
 *     (sums)      gradients are complete on every rank before any rank leaves the sums over all ranks
 *     committed   `committed` = the step's number: the step counts and is never undone
 *     (update)    weights and moments change
 *     done        `done` = the step's number
 *
 * If no rank has committed a step, all ranks repeat it. If one rank has committed it, all ranks finish it.
 *
 * If a device holds the weights, the update is lost with the process. The host then keeps weights and moments of the
 * newest step and of the step before (device/home/home.h). `committed` and `done` say which of them are
 * stored. A rank sets both before the ranks meet for the next step's loss, and overwrites the older copy only after
 * that. So every rank has the state of the minimum of `done`, and all ranks repeat the steps after it. */
#ifndef TESS_TRAIN_LOGBOOK_H
#define TESS_TRAIN_LOGBOOK_H

#include "job/persist/persist.h"
#include "engine/engine.h"
#include "engine/learning_rate.h"
#include "config/run_layout.h"
#include "train/task.h"
#include "engine/numbers/numbers.h"

/* The facts of a step that all ranks share. */
typedef struct logbook_step {
    int64_t step, n_tokens; /* n_tokens: target tokens of all steps up to this one */
    tess_restarts restarts; /* copied from the engine, like the scaler */
    tess_loss_scaler scaler;
    float lr, scale; /* learning rate and gradient scale of the update; not set if the step was skipped */
    tess_spikes losses, norms;
    tess_engine_report report; /* the engine's report, without times */
} logbook_step;

/* The newest step that was done, committed, validated and saved: of one rank, or the minimum over all ranks. */
typedef struct logbook_marks {
    int64_t done, committed, validated, saved;
    bool in_generations; /* two steps' weights are kept (see above); equal on all ranks */
} logbook_marks;

typedef struct tess_logbook tess_logbook;

/* Opens this rank's book. Sets *book to NULL if the job has no persistent memory. tess_logbook_is_of tells whether
 * an earlier process has written the book. */
tess_status tess_logbook_open(tess_runtime *runtime, tess_logbook **book);

/* Sets the identity of the run whose steps the book holds (go_on.c). Call it before the functions that follow. */
void tess_logbook_identify(tess_logbook *book, uint64_t identity);
/* Whether the book is valid for a job of this identity. Sets *is_hot if the present launch of the job wrote it.
 * `folder`: the job's folder as tess_os_folder_id identifies it. */
bool tess_logbook_is_of(const tess_logbook *book, uint64_t folder, bool *is_hot);
/* Returns the newest committed step of a job in `folder` that a rank's memory holds, and its layout; -1: none. */
int64_t tess_logbook_peek(const tess_persist *persist, uint64_t folder, tess_run_layout *layout);
/* Whether the book is valid for any job in `folder`, whatever its identity. */
bool tess_logbook_is_in(const tess_logbook *book, uint64_t folder);
logbook_marks tess_logbook_marks(const tess_logbook *book);
/* The kernels and the learning rate schedule of the process that last wrote the valid book. The text belongs to the
 * book. */
const char *tess_logbook_kernels(const tess_logbook *book);
tess_lr_settings tess_logbook_lr(const tess_logbook *book);

/* Clears the persistent memory and opens the book again, empty. */
tess_status tess_logbook_clear(tess_runtime *runtime, tess_logbook *book);
/* Makes the book valid. The engine must hold the weights and moments after `engine->step`, and a checked
 * configuration. */
tess_status tess_logbook_begin(tess_logbook *book, const tess_engine *engine, uint64_t folder,
                               const tess_task_place *place);

/* Returns the callbacks with which the engine records its steps. If `book` is NULL, they record nothing. */
tess_step_recorder tess_logbook_recorder(tess_logbook *book);

/* ---- Calls around a step; `book` may be NULL ---- */
void tess_logbook_read(tess_logbook *book, int64_t step, const tess_task_place *place);
void tess_logbook_validated(tess_logbook *book, int64_t step);
void tess_logbook_saved(tess_logbook *book, int64_t step);

/* ---- Going on ---- */
/* Called when the engine has found its weights and moments in memory. Finishes a step that some rank had committed,
 * then sets the engine's step, tokens and windows to the newest step. *place: this rank's place. Collective. */
tess_status tess_logbook_go_on(tess_logbook *book, tess_engine *engine, tess_task_place *place);
/* Returns the step with which the engine went on; its `step` is negative if no process has recorded it. */
const logbook_step *tess_logbook_last(const tess_logbook *book);

#endif
