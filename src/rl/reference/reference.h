/* The reference model: weights that the policy is compared with. Its log-probabilities have the bits that a policy with
 * these weights would have.
 *
 * One copy of the weights a host, in the compute dtype, for all of its ranks. A reference that never changes reads
 * tensors of that dtype where they lie in their file, which the system may drop and read again; the others are in
 * memory that the ranks share. Every rank computes log-probabilities for itself, with whole layers, however the policy
 * is cut.
 *
 * A reference that follows the policy (update_interval) has float32 weights as well, each rank those that it writes to
 * disk of the policy's, from which the copy is rounded. */
#ifndef TESS_RL_REFERENCE_H
#define TESS_RL_REFERENCE_H

#include "ckpt/store/tensor.h"
#include "engine/engine.h"

typedef struct tess_reference tess_reference;

typedef struct tess_reference_options {
    const char *path; /* weights of any format, next to a config.json or of the policy's; "": those that the run begins
                         with, which are those of checkpoint.initial_load_path, else model.path, else random */
    int64_t update_interval; /* steps after which it becomes the policy; 0: never */
    double ema;              /* it then is ema * itself + (1 - ema) * the policy; 0: the policy; below 1 */
} tess_reference_options;

/* `engine` is borrowed until destroy; the path is read here alone. `reporter` gets warnings about weights; it may be
 * NULL. Call it at any time of a run: what "" stands for does not change as the policy learns. Collective.
 *   TESS_E_INVALID      ema or update_interval out of range; another vocabulary than the policy's; update_interval, but
 *                       other parameters than the policy's
 *   TESS_E_UNSUPPORTED  path "" where checkpoint.exclude_from_loading keeps tensors of initial_load_path out: what the
 *                       run began with is in no file
 *   and the errors of reading a model */
tess_status tess_reference_create(tess_engine *engine, const tess_reference_options *options,
                                  const tess_reporter *reporter, tess_reference **reference);
/* Collective, also after an error: the copy is the team's. NULL is fine. */
void tess_reference_destroy(tess_reference **reference);

/* log p of each target of the batch with p = softmax(logits * inv_temperature), and the entropy of p, or NULL:
 * (n_tokens) each, of the host, 0 where there is no target. The batch's loss is not asked. At most
 * training.local_batch_size * training.seq_len tokens. Not collective, and no rank may be inside
 * tess_reference_after_step. */
tess_status tess_reference_logprobs(tess_reference *reference, const tess_batch *batch, float inv_temperature,
                                    float *logprob, float *entropy);

/* After step `step` of the policy: takes or averages its weights if update_interval divides the step. Collective. */
tess_status tess_reference_after_step(tess_reference *reference, int64_t step);

/* *drift: the mean over all parameters of |policy - reference|, both as rounded for computing; exact but for one final
 * rounding, and the same on all ranks. NaN: the reference has other parameters. Collective. */
tess_status tess_reference_drift(tess_reference *reference, double *drift);

/* The reference's part of a checkpoint: the float32 weights as "reference.NAME". None (0) if it never changes, because
 * its weights are those of its path. tensors (n_tensors) borrow its memory; a load writes there, and then all ranks
 * call tess_reference_loaded, which is collective. */
int tess_reference_n_tensors(const tess_reference *reference);
tess_status tess_reference_tensors(tess_reference *reference, tess_ckpt_tensor *tensors);
tess_status tess_reference_loaded(tess_reference *reference);

#endif
