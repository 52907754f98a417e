/* Finds the first weights of a model besides the policy: a folder of its own, or those of the policy. */
#ifndef TESS_RL_FIRST_WEIGHTS_H
#define TESS_RL_FIRST_WEIGHTS_H

#include "engine/engine.h"

typedef struct rl_first_weights {
    char path[TESS_TEXT_SIZE]; /* weights of any format; "": random ones, as debug.seed makes them */
    tess_model_config config;  /* path's config.json under the run's limit and sums; the policy's, if there is none */
    bool has_config;           /* the path has a config.json */
} rl_first_weights;

/* path "": what the policy begins with: checkpoint.initial_load_path, else model.path, else random weights; of a policy
 * with an adapter model.path, without the adapter. `model`
 * ("reference") is the section of the configuration that has the path, for messages.
 *   TESS_E_INVALID      another vocabulary than the policy's
 *   TESS_E_UNSUPPORTED  path "" where checkpoint.exclude_from_loading keeps tensors of initial_load_path out: what the
 *                       run began with is in no file
 *   and the errors of reading config.json. Not collective. */
tess_status rl_first_weights_find(const tess_config *config, const tess_model_config *policy, const char *path,
                                  const char *model, rl_first_weights *first);

#endif
