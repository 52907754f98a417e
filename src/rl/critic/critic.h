/* The critic of PPO: a model of its own with one output, the value of what a row has seen. It trains with the policy,
 * in an engine of its own on the same ranks, mesh and sharding strategy: so its bits do not depend on how many ranks
 * there are.
 *
 * Its weights and moments are in checkpoints alone: they end with the process, so that a job which goes on from memory
 * (hot recovery) must go on from a checkpoint where there is a critic. It has activations of its own. */
#ifndef TESS_RL_CRITIC_H
#define TESS_RL_CRITIC_H

#include "base/text/json.h"
#include "ckpt/store/tensor.h"
#include "rl/rl_first_weights.h"
#include "engine/engine.h"

typedef struct tess_critic tess_critic;

typedef struct tess_critic_options {
    /* A model for classification (of sequences, or as verl has it of tokens) with one output; or a language model,
     * whose head is left out, with trl's value head, which is 0 where it is missing, so that all values are. "": what
     * the policy begins with (checkpoint.initial_load_path, else model.path, else random weights). */
    const char *path;
    double lr;     /* learning rate, with the run's lr_scheduler; all else of the optimizer is the policy's */
    int64_t steps; /* steps of its schedule; 0: training.steps */
} tess_critic_options;

/* `policy` is borrowed until destroy; the path is read here alone. `reporter` gets warnings about weights; it may be
 * NULL. Collective. TESS_E_UNSUPPORTED  a pipeline or tensor parallelism; or as rl_first_weights_find TESS_E_INVALID a
 * head of several outputs; another vocabulary than the policy's; lr below 0 and the errors of tess_engine_create */
tess_status tess_critic_create(tess_engine *policy, const tess_critic_options *options, const tess_reporter *reporter,
                               tess_critic **critic);
/* Finds its model and the source of its weights, to predict its memory. Errors are those of create. */
tess_status tess_critic_find(const tess_config *config, const tess_model_config *policy, const char *path,
                             rl_first_weights *first);
/* Collective, as tess_engine_destroy. NULL is fine. */
void tess_critic_destroy(tess_critic **critic);

/* value (n_tokens) of the host: of every row of the batch, which may be empty; the bits of training. Its loss is not
 * asked, its targets may be NULL. Between steps of the critic. Collective: units may be gathered. */
tess_status tess_critic_values(tess_critic *critic, const tess_batch *batch, float *value);

/* tess_engine_step on the critic: each batch has a loss with grade_values; report->loss means nothing but what
 * the source's judge says. At least one row has a target, whose number is the divisor unless the source has one. */
tess_status tess_critic_step(tess_critic *critic, const tess_batch_source *source, tess_engine_report *report);

/* Gives the executor's activations back, and takes them again. */
void tess_critic_sleep(tess_critic *critic);
tess_status tess_critic_wake(tess_critic *critic);

/* Its engine, to be read: steps done, peaks of memory, configuration. */
const tess_engine *tess_critic_engine(const tess_critic *critic);

/* The critic's part of a checkpoint: weights and moments of "critic.NAME", as tensors (n_tensors) that borrow its
 * memory. A load writes there, and then all ranks call tess_critic_loaded with describe's object; it is collective.
 * describe: an object, a new reference; NULL: no memory. TESS_E_FORMAT: `described` is not one. */
int tess_critic_n_tensors(const tess_critic *critic);
tess_status tess_critic_tensors(tess_critic *critic, tess_ckpt_tensor *tensors);
json_t *tess_critic_describe(const tess_critic *critic);
tess_status tess_critic_loaded(tess_critic *critic, const json_t *described);

#endif
