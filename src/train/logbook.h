/* What a rank writes down beside the weights and moments that it keeps (job/keep): up to where they are what, and what
 * else the next step needs. A process that takes the rank's place reads it.
 *
 * Two entries take turns, one a step, so that while a step is written the one before it stands. A step's update is a
 * pure function of weights, moments, gradients and the entry, so it can be ended by anybody (optim/journal.h):
 *
 *     read        where the data stand behind the step's micro-batches of this rank
 *     (sums)      gradients are complete on every rank before any rank gets past the sums over all
 *     judged      the step is good: `judged` = its number. From here on it is never taken back
 *     (update)
 *     done        `done` = its number
 *
 * So either no rank has judged a step, and all do it again from its beginning; or one has, and all end it. */
#ifndef TESS_TRAIN_LOGBOOK_H
#define TESS_TRAIN_LOGBOOK_H

#include "job/persist/persist.h"
#include "data/loader/loader.h"
#include "train/engine.h"
#include "train/run_layout.h"
#include "train/numbers/numbers.h"

/* What all ranks have alike of a step. */
typedef struct logbook_step {
    int64_t step, n_tokens;                  /* n_tokens: target tokens so far, with those of the step */
    int64_t schedule_begin, optimizer_begin; /* as the engine's */
    float lr, scale;                         /* of its update; there is none when the step was skipped */
    tess_spikes losses, norms;
    tess_engine_report report; /* of this process's times nothing */
} logbook_step;

/* Where this rank's data stand. */
typedef struct logbook_data {
    int64_t position; /* global micro-batch that the cursor is at */
    tess_data_cursor cursor;
} logbook_data;

/* Steps up to which something was done; of one rank, or of all: the least. */
typedef struct logbook_marks {
    int64_t done, committed, validated, saved;
} logbook_marks;

typedef struct tess_logbook tess_logbook;

/* Opens this rank's book, in its kept memory; *book is NULL when the job keeps none. What an earlier process wrote is
 * there when tess_logbook_is_of says so. */
tess_status tess_logbook_open(tess_runtime *runtime, tess_logbook **book);
void tess_logbook_close(tess_mem *mem, tess_logbook **book);

/* Whether it is valid for a job of this `identity`; *is_hot: this launch of the job has written it. `folder`: of the
 * job, as tess_os_folder_id knows it. */
bool tess_logbook_is_of(const tess_logbook *book, uint64_t identity, uint64_t folder, bool *is_hot);
/* The newest step that a rank's block holds of a job in `folder`, and how it is laid out; -1: none. */
int64_t tess_logbook_peek(const tess_persist *persist, uint64_t folder, tess_run_layout *layout);
/* Whether it is valid for a job in `folder`, of whatever identity. */
bool tess_logbook_is_in(const tess_logbook *book, uint64_t folder);
logbook_marks tess_logbook_marks(const tess_logbook *book);

/* Forgets everything that is kept; the book is as new. */
tess_status tess_logbook_clear(tess_runtime *runtime, tess_logbook *book);
/* The engine's weights and moments are those after `engine->step`: from here on the book is valid. Its configuration is
 * checked. */
void tess_logbook_begin(tess_logbook *book, const tess_engine *engine, uint64_t identity, uint64_t folder,
                        const logbook_data *data);

/* ---- In a step; a NULL book hears nothing ---- */
void tess_logbook_read(tess_logbook *book, int64_t step, const logbook_data *data);
/* Before the update: `report`, and the engine's windows with this step in them. */
void tess_logbook_committed(tess_logbook *book, const tess_engine *engine, const tess_engine_report *report, float lr,
                            float scale);
void tess_logbook_done(tess_logbook *book, int64_t step);
void tess_logbook_validated(tess_logbook *book, int64_t step);
void tess_logbook_saved(tess_logbook *book, int64_t step);

/* ---- Going on ---- */
/* The engine has found kept weights and moments. Ends the step that some rank had judged, and sets the engine to the
 * newest step that is done: its number, tokens and windows. *data: where this rank's data stand; *last: that step, with
 * last->step < 0 when no process has written of it. Collective. */
tess_status tess_logbook_go_on(tess_logbook *book, tess_engine *engine, logbook_data *data, logbook_step *last);

#endif
