/* Checks of a step's numbers, and what follows when they are not finite.
 *
 * A step's loss and gradient norm are known before its update, on all ranks alike, so the check costs nothing. To find
 * who made a NaN the step is computed again: it is a pure function of its weights and its micro-batches (their tokens
 * are recorded), so the same value is bad at the same place, now with every value checked. If the second run is finite,
 * hardware or a race spoilt the first.
 *
 * The same module finds spikes: how far loss and gradient norm are from their newest values. */
#ifndef TESS_ENGINE_NUMBERS_NUMBERS_H
#define TESS_ENGINE_NUMBERS_NUMBERS_H

#include "engine/engine.h"
#include "engine/loss.h"

/* ---- Spikes: the z-score of a value over a window, as llm.c prints it ---- */
enum { TESS_SPIKE_WINDOW = 128 };

typedef struct tess_spikes {
    double value[TESS_SPIKE_WINDOW]; /* a ring */
    int64_t n;                       /* values so far */
} tess_spikes;

/* Adds a value and returns its z-score, (value - mean) / deviation over the newest TESS_SPIKE_WINDOW values. The value
 * itself is one of them, so the result is at most sqrt(127) = 11.3. 0: all are equal; NaN: there are fewer. The sums
 * run from the oldest to the newest, so a window that was saved and restored gives the same bits. */
double tess_spikes_add(tess_spikes *spikes, double value);

/* ---- The checks ---- */
/* `engine` is borrowed; all of its other parts exist. */
tess_status tess_numbers_create(tess_engine *engine, tess_numbers **numbers);
void tess_numbers_destroy(tess_numbers **numbers);

/* A source that passes on the step's micro-batches as copies of its own, which are valid through the step. Losses are
 * not copied, and it has no judge. */
tess_batch_source tess_numbers_record(tess_numbers *numbers, const tess_batch_source *source);

/* Called by the engine's hooks after a unit's parameters were gathered, and before its gradients are reduced. */
tess_status tess_numbers_see_params(tess_numbers *numbers, int unit);
tess_status tess_numbers_see_gradients(tess_numbers *numbers, int unit);
/* Begin a run over the step's micro-batches; begin this rank's micro-batch `local`, or its part `part` where several
 * ranks compute it one after the other; begin one of its passes. */
void tess_numbers_run_begin(tess_numbers *numbers);
tess_status tess_numbers_micro_begin(tess_numbers *numbers, int64_t local, int part);
void tess_numbers_pass_begin(tess_numbers *numbers, int pass);

/* Called between a step's gradients and its update. Sets the report's z-scores, `skipped` and `note`. `own` is this
 * rank's part of the loss. With numbers.on_nonfinite=skip, if the second run is finite, the step goes on with its
 * result. Collective. Errors end the run, with the weights as before the step: TESS_E_NOT_FINITE: the second run is not
 * finite either; TESS_E_MISMATCH: it is, so a rank computed wrongly. */
tess_status tess_numbers_check_step(tess_numbers *numbers, const tess_loss_sum *own, tess_engine_report *report);

/* Compares all copies of weights and optimizer state bit for bit: now, or in every numbers.replica_check_interval-th
 * step. Called between the gradients and the update, when gathered copies have been in use for a whole step.
 * Collective. TESS_E_MISMATCH names the rank that differs, and the tensor. */
tess_status tess_numbers_compare(tess_numbers *numbers);
tess_status tess_numbers_compare_at_times(tess_numbers *numbers);
/* The same between steps, before a checkpoint, so that none is written of replicas that have diverged. Does nothing if
 * numbers.replica_check_interval is 0. Collective. */
tess_status tess_numbers_compare_for_save(tess_numbers *numbers);

/* The windows of newest losses and gradient norms. A checkpoint saves them, and a resumed run sets them. */
tess_spikes *tess_numbers_losses(tess_numbers *numbers);
tess_spikes *tess_numbers_norms(tess_numbers *numbers);

/* Serves drills: `drill` sees, and may change, every tensor that can be checked: what tess_watch lists, "weight NAME"
 * (master rows of this rank, at the beginning of micro-batch 0), "parameter NAME" (gathered) and "gradient NAME". NULL:
 * no drill. Faults of fault.spec do not need it. */
void tess_numbers_set_drill(tess_numbers *numbers, const tess_watch *drill);
/* This rank's current micro-batch, for drills. */
int64_t tess_numbers_local(const tess_numbers *numbers);

#endif
