/* The reference model: weights that the policy is compared with. Its log-probabilities have the bits that a policy
 * with these weights would have.
 *
 * Each host has one copy of the weights in the compute dtype, which all its ranks use. A reference that never
 * changes maps tensors of that dtype from their file, so the system may drop pages and read them again. Other
 * tensors are in memory that the ranks share. Every rank computes log-probabilities by itself, with whole layers,
 * whatever the layout of the policy is.
 *
 * A reference that follows the policy (update_interval) also has float32 weights, from which the copy is rounded.
 * Each rank holds those rows that it writes to the policy's checkpoint. */
#ifndef TESS_RL_REFERENCE_H
#define TESS_RL_REFERENCE_H

#include "ckpt/store/tensor.h"
#include "engine/engine.h"

typedef struct tess_reference tess_reference;

typedef struct tess_reference_options {
    const char *path; /* path of weights of any format, with a config.json next to them or for the policy's model;
                       * "": the weights that the run begins with (checkpoint.initial_load_path, otherwise
                       * model.path, otherwise random) */
    int64_t update_interval; /* interval in steps after which it takes the policy's weights; 0: never */
    double ema; /* weight of its old values, in [0, 1): the new ones are ema * reference + (1 - ema) * policy */
} tess_reference_options;

/* `engine` is borrowed until destroy; the path is read only here. `reporter` gets warnings about weights; it may be
 * NULL. It can be called at any time of a run, because the weights that "" names do not change as the policy learns.
 * Collective.
 *   TESS_E_INVALID      ema or update_interval out of range; another vocabulary than the policy's; update_interval, but
 *                       other parameters than the policy's
 *   TESS_E_UNSUPPORTED  path "" where checkpoint.exclude_from_loading keeps tensors of initial_load_path out: what the
 *                       run began with is in no file
 *   and the errors of reading a model */
tess_status tess_reference_create(tess_engine *engine, const tess_reference_options *options,
                                  const tess_reporter *reporter, tess_reference **reference);
/* Collective, also after an error, because all ranks share the copy. NULL is fine. */
void tess_reference_destroy(tess_reference **reference);

/* Computes log p of each target of the batch with p = softmax(logits * inv_temperature), and the entropy of p (NULL:
 * not wanted): (n_tokens) each, in host memory, 0 for rows without a target. The batch's loss is not called. The
 * batch has at most training.local_batch_size * training.seq_len tokens. Not collective; meanwhile no rank may be
 * inside tess_reference_after_step. */
tess_status tess_reference_logprobs(tess_reference *reference, const tess_batch *batch, float inv_temperature,
                                    float *logprob, float *entropy);

/* Called after step `step` of the policy: takes or averages its weights if update_interval divides the step.
 * Collective. */
tess_status tess_reference_after_step(tess_reference *reference, int64_t step);

/* Sets *drift to the mean of |policy - reference| over all parameters, both rounded to the compute dtype. The mean
 * is rounded once and is the same on all ranks. NaN: the reference has other parameters. Collective. */
tess_status tess_reference_drift(tess_reference *reference, double *drift);

/* The reference's part of a checkpoint: the float32 weights as "reference.NAME". A reference that never changes has
 * no tensors, because its path has its weights. tensors (n_tensors) borrow its memory. A load writes into that
 * memory; then all ranks call tess_reference_loaded (collective). */
int tess_reference_n_tensors(const tess_reference *reference);
tess_status tess_reference_tensors(tess_reference *reference, tess_ckpt_tensor *tensors);
tess_status tess_reference_loaded(tess_reference *reference);

#endif
