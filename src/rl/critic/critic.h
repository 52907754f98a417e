/* The critic of PPO: a separate model with one output, the value of the text up to a row. It trains with the policy
 * in its own engine, on the same ranks, mesh and sharding strategy, so its bits do not depend on the number of
 * ranks.
 *
 * Its weights and moments end with the process and are kept only in checkpoints. So a job with a critic cannot
 * resume from memory (hot recovery), only from a checkpoint. It has its own activations. */
#ifndef TESS_RL_CRITIC_H
#define TESS_RL_CRITIC_H

#include "base/text/json.h"
#include "ckpt/store/tensor.h"
#include "rl/rl_first_weights.h"
#include "engine/engine.h"

typedef struct tess_critic tess_critic;

typedef struct tess_critic_options {
    /* Path of a model for classification with one output (of sequences, or of tokens as in verl), or of a language
     * model. A language model's head is ignored, and trl's value head is used; if that is missing, it is 0, and so
     * are all values. "": the weights that the policy begins with (checkpoint.initial_load_path, otherwise
     * model.path, otherwise random weights). */
    const char *path;
    double lr;     /* learning rate, with the run's lr_scheduler; other settings of the optimizer are the policy's */
    int64_t steps; /* steps of its schedule; 0: training.steps */
} tess_critic_options;

/* `policy` is borrowed until destroy; the path is read only here. `reporter` gets warnings about weights; it may be
 * NULL. Collective.
 * TESS_E_UNSUPPORTED: tensor parallelism, or as rl_first_weights_find
 * TESS_E_INVALID: a head of several outputs; another vocabulary than the policy's; lr below 0
 * Other errors are those of tess_engine_create. */
tess_status tess_critic_create(tess_engine *policy, const tess_critic_options *options, const tess_reporter *reporter,
                               tess_critic **critic);
/* Collective, as tess_engine_destroy. NULL is fine. */
void tess_critic_destroy(tess_critic **critic);

/* Computes the values of the batch's rows, with the bits of training: value (tess_context_tokens of n_tokens) in host
 * memory, on ranks that have the head. If ranks divide tokens, or sums over tokens have leaves, value[i] belongs to row
 * tess_context_token(i) of the batch. The batch may be empty; its loss is not called, and its targets may be NULL. Call
 * it between steps of the critic. Collective, because units may be gathered. */
tess_status tess_critic_values(tess_critic *critic, const tess_batch *batch, float *value);

/* Calls tess_engine_step on the critic. Each batch has a loss with grade_values; report->loss is the value that the
 * source's judge returns. At least one row has a target. The number of targets is the divisor, unless the source has
 * one. */
tess_status tess_critic_step(tess_critic *critic, const tess_batch_source *source, tess_engine_report *report);

/* Frees the executor's activations, and allocates them again. */
void tess_critic_sleep(tess_critic *critic);
tess_status tess_critic_wake(tess_critic *critic);

/* Returns the critic's engine. A run reads it: steps done, peaks of memory, configuration. A dry rank makes its steps.
 */
tess_engine *tess_critic_engine(const tess_critic *critic);

/* The critic's part of a checkpoint: weights and moments as tensors "critic.NAME" (n_tensors), which borrow its
 * memory. A load writes into that memory; then all ranks call tess_critic_loaded (collective) with the object that
 * tess_critic_describe returned. describe returns a new reference; NULL: no memory. TESS_E_FORMAT: `described` is
 * not such an object. */
int tess_critic_n_tensors(const tess_critic *critic);
tess_status tess_critic_tensors(tess_critic *critic, tess_ckpt_tensor *tensors);
json_t *tess_critic_describe(const tess_critic *critic);
tess_status tess_critic_loaded(tess_critic *critic, const json_t *described);

#endif
