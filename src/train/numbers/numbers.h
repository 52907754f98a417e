/* Whether the numbers of a step are numbers, and what becomes of it when they are not.
 *
 * A step's loss and gradient norm are known before its update, on all ranks alike, so to see that something is no
 * number costs nothing. Who made it is found by computing the step again: a step is a pure function of its weights and
 * its micro-batches (a copy of the tokens is kept), so the same number goes wrong at the same place, now with every
 * value checked on its way. When nothing goes wrong the second time, something outside of the program's text did it.
 *
 * The same place judges spikes: how far loss and gradient norm are from what was usual. */
#ifndef TESS_TRAIN_NUMBERS_NUMBERS_H
#define TESS_TRAIN_NUMBERS_NUMBERS_H

#include "train/engine.h"
#include "train/loss.h"
#include "train/numbers/spikes.h"

/* `engine` is borrowed and needs all of its parts but this one. */
tess_status tess_numbers_create(tess_engine *engine, tess_numbers **numbers);
void tess_numbers_destroy(tess_numbers **numbers);

/* A source for the step's micro-batches that keeps them on their way. */
tess_batch_source tess_numbers_record(tess_numbers *numbers, const tess_batch_source *from);

/* For the engine's hooks: unit's parameters were gathered; its gradients are complete and about to leave. */
void tess_numbers_see_params(tess_numbers *numbers, int unit);
void tess_numbers_see_gradients(tess_numbers *numbers, int unit);
/* The micro-batches of a pass begin; local micro-batch `local` does. */
void tess_numbers_pass_begin(tess_numbers *numbers);
void tess_numbers_micro_begin(tess_numbers *numbers, int64_t local);

/* After a step's gradients and before its update: fills in what `report` says of spikes, `skipped` and `note`. `own` is
 * this rank's part of the loss. With numbers.on_nonfinite=skip a step that is well when computed again goes on with the
 * second result. Collective. The run has to end, with the weights as before the step: TESS_E_NOT_FINITE for its own
 * numbers, TESS_E_MISMATCH where a rank computes otherwise than the others. */
tess_status tess_numbers_judge(tess_numbers *numbers, const tess_loss_sum *own, tess_engine_report *report);

/* Whether all copies of weights and optimizer state hold the same bits: now, or in the steps that
 * numbers.replica_check_interval says. After the gradients and before the update, when gathered copies have been in use
 * for a whole step. Collective. TESS_E_MISMATCH names who differs and in what. */
tess_status tess_numbers_compare(tess_numbers *numbers);
tess_status tess_numbers_compare_at_times(tess_numbers *numbers);
/* The same between steps, of what a checkpoint is made of: one that ranks differ on is never written. Nothing is
 * compared where numbers.replica_check_interval is 0. Collective. */
tess_status tess_numbers_compare_for_save(tess_numbers *numbers);

/* The windows of newest losses and gradient norms: to be saved with a run and set when it goes on. */
tess_spikes *tess_numbers_losses(tess_numbers *numbers);
tess_spikes *tess_numbers_norms(tess_numbers *numbers);

/* For drills: `drill` sees, and may change, every tensor that could be checked, as tess_watch says and besides
 * "weight NAME" (master rows of this rank, at the beginning of micro-batch 0), "parameter NAME" (gathered) and
 * "gradient NAME". NULL: no drill. fault.spec spoils numbers without it. */
void tess_numbers_set_drill(tess_numbers *numbers, const tess_watch *drill);
/* For the same: the local micro-batch under way. */
int64_t tess_numbers_local(const tess_numbers *numbers);

#endif
