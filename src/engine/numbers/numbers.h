/* Checks a step's numbers, and decides what to do if they are not finite.
 *
 * The loss and gradient norm of a step are known on all ranks before its update, so the check costs nothing. To find
 * the rank that made a NaN, the step is computed again. It is a pure function of its weights and its micro-batches,
 * whose tokens are recorded. So the same value is bad at the same place, and now every value is checked. If the
 * second run is finite, a hardware fault or a race corrupted the first.
 *
 * The module also warns of spikes of the loss and of the gradient norm (health/spikes.h). */
#ifndef TESS_ENGINE_NUMBERS_NUMBERS_H
#define TESS_ENGINE_NUMBERS_NUMBERS_H

#include "engine/engine.h"
#include "engine/loss.h"
#include "health/spikes.h"

/* Creates the checks. Borrows `engine`, whose other parts must exist. */
tess_status tess_numbers_create(tess_engine *engine, tess_numbers **numbers);
void tess_numbers_destroy(tess_numbers **numbers);

/* Returns a source that copies the step's micro-batches as it passes them on. The copies are valid throughout the
 * step. It does not copy losses, and has no judge. */
tess_batch_source tess_numbers_record(tess_numbers *numbers, const tess_batch_source *source);

/* Called by the engine's hooks after a unit's parameters were gathered, and before its gradients are reduced. */
tess_status tess_numbers_see_params(tess_numbers *numbers, int unit);
tess_status tess_numbers_see_gradients(tess_numbers *numbers, int unit);
/* These mark the start of a run over the step's micro-batches, of this rank's micro-batch `local`, and of a pass.
 * `part`: number of the part if several ranks compute the micro-batch one after the other. */
void tess_numbers_run_begin(tess_numbers *numbers);
tess_status tess_numbers_micro_begin(tess_numbers *numbers, int64_t local, int part);
void tess_numbers_pass_begin(tess_numbers *numbers, int pass);

/* Checks a step between its gradients and its update. Sets the report's z-scores, `skipped` and `note`. `own` is
 * this rank's part of the loss. With numbers.on_nonfinite=skip, if the second run is finite, the step continues with
 * its result. Collective. Errors end the run and leave the weights as before the step.
 * TESS_E_NOT_FINITE: the second run is not finite either
 * TESS_E_MISMATCH: the second run is finite, so a rank computed wrongly */
tess_status tess_numbers_check_step(tess_numbers *numbers, const tess_loss_sum *own, tess_engine_report *report);

/* Compares all copies of weights and optimizer state bit for bit: tess_numbers_compare does it now,
 * tess_numbers_compare_at_times in every numbers.replica_check_interval-th step. Call it between the gradients and
 * the update, when gathered copies have been in use for a whole step. Collective. TESS_E_MISMATCH: the message names
 * the rank that differs, and the tensor */
tess_status tess_numbers_compare(tess_numbers *numbers);
tess_status tess_numbers_compare_at_times(tess_numbers *numbers);
/* Compares the copies between steps, before a checkpoint, so that replicas that have diverged are not saved. Does
 * nothing if numbers.replica_check_interval is 0. Collective. */
tess_status tess_numbers_compare_for_save(tess_numbers *numbers);

/* The windows of the latest losses and gradient norms. A checkpoint saves them, and a resumed run sets them. */
tess_spikes *tess_numbers_losses(tess_numbers *numbers);
tess_spikes *tess_numbers_norms(tess_numbers *numbers);

/* Sets a drill: a callback that sees, and may change, every tensor that can be checked. These are the tensors of
 * tess_watch, "weight NAME" (this rank's master rows, at the start of micro-batch 0), "parameter NAME" (gathered)
 * and "gradient NAME". NULL: no drill. Faults of fault.spec do not need one. */
void tess_numbers_set_drill(tess_numbers *numbers, const tess_watch *drill);
/* This rank's current micro-batch, for drills. */
int64_t tess_numbers_local(const tess_numbers *numbers);

#endif
