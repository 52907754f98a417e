/* The logbook of a rank, in its persistent memory (job/persist) next to weights and moments: which step they are of,
 * and what else the next step needs. A process that replaces the rank reads it.
 *
 * Steps use two entries in turn, so the previous one stays whole while one is written. A step's update is a pure
 * function of weights, moments, gradients and the entry, so any process can finish it (optim/journal.h):
 *
 *     read        this rank's place in its task after its micro-batches of the step
 *     (sums)      gradients are complete on every rank before any rank leaves the sums over all
 *     committed   `committed` = the step's number: it is good, and never taken back
 *     (update)
 *     done        `done` = the step's number
 *
 * So either no rank has committed a step, and all do it again; or one has, and all finish it.
 *
 * Where a device has the weights, the update is lost with the process. The host keeps weights and moments of a step
 * next to those of the step before (parallel/fsdp/fsdp_mirror.c), and `done`, with `committed`, says which of them are
 * there: a rank says so before the ranks meet for the next step's loss, and overwrites the older ones after. So all
 * ranks have those of the least `done`, and all do again what came after it. */
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
    int64_t step, n_tokens;                  /* n_tokens: target tokens up to and with this step */
    int64_t schedule_begin, optimizer_begin; /* the engine's, as is the scaler */
    tess_loss_scaler scaler;
    float lr, scale; /* values of its update; a skipped step has none */
    tess_spikes losses, norms;
    tess_engine_report report; /* report without its times */
} logbook_step;

/* The newest step that was done, committed, ...; of one rank, or the least of all. */
typedef struct logbook_marks {
    int64_t done, committed, validated, saved;
    bool in_generations; /* true on each rank: see above */
} logbook_marks;

typedef struct tess_logbook tess_logbook;

/* Opens this rank's book; NULL: the job has no persistent memory. tess_logbook_is_of says whether an earlier process
 * has written it. */
tess_status tess_logbook_open(tess_runtime *runtime, tess_logbook **book);
void tess_logbook_close(tess_mem *mem, tess_logbook **book);

/* Whether the book is valid for a job of this `identity`. *is_hot: this launch of the job wrote it. `folder`: the
 * job's, by tess_os_folder_id. */
bool tess_logbook_is_of(const tess_logbook *book, uint64_t identity, uint64_t folder, bool *is_hot);
/* The newest step of a job in `folder` in a rank's memory, and its layout; -1: none. */
int64_t tess_logbook_peek(const tess_persist *persist, uint64_t folder, tess_run_layout *layout);
/* Whether the book is valid for a job in `folder` of any identity. */
bool tess_logbook_is_in(const tess_logbook *book, uint64_t folder);
logbook_marks tess_logbook_marks(const tess_logbook *book);
/* The kernels (the book's text) and the schedule of the process that wrote the valid book last. */
const char *tess_logbook_kernels(const tess_logbook *book);
tess_lr_settings tess_logbook_lr(const tess_logbook *book);

/* Clears the persistent memory; the book is as new. */
tess_status tess_logbook_clear(tess_runtime *runtime, tess_logbook *book);
/* Makes the book valid: the engine's weights and moments are those after `engine->step`. Its configuration is checked.
 */
tess_status tess_logbook_begin(tess_logbook *book, const tess_engine *engine, uint64_t identity, uint64_t folder,
                               const tess_task_place *place);

/* The book as the engine calls it; of NULL: one that records nothing. */
tess_step_recorder tess_logbook_recorder(tess_logbook *book);

/* ---- Calls around a step; `book` may be NULL ---- */
void tess_logbook_read(tess_logbook *book, int64_t step, const tess_task_place *place);
void tess_logbook_validated(tess_logbook *book, int64_t step);
void tess_logbook_saved(tess_logbook *book, int64_t step);

/* ---- Going on ---- */
/* The engine has found its weights and moments in memory. Finishes a step that some rank had committed, and sets the
 * engine's step, tokens and windows to the newest step. *place: this rank's; *last: that step; last->step < 0:
 * no process has recorded it. Collective. */
tess_status tess_logbook_go_on(tess_logbook *book, tess_engine *engine, tess_task_place *place, logbook_step *last);

#endif
