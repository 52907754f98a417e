/* Finds the first weights of a model other than the policy (reference, critic): in its own folder, or the policy's
 * first weights. */
#ifndef TESS_RL_FIRST_WEIGHTS_H
#define TESS_RL_FIRST_WEIGHTS_H

#include "engine/engine.h"

typedef struct rl_first_weights {
    char path[TESS_TEXT_SIZE]; /* path of weights of any format; "": random weights from debug.seed */
    tess_model_config config;  /* config.json of the path with the run's length limit and sum leaves; if there is none,
                                  the policy's model */
    bool has_config;           /* the path has a config.json */
} rl_first_weights;

/* path "": the weights that the policy begins with: checkpoint.initial_load_path, otherwise model.path, otherwise
 * random weights. If the policy has an adapter, they are those of model.path, without the adapter. `model`
 * ("reference") is the configuration's section with the path, for messages.
 *   TESS_E_INVALID      another vocabulary than the policy's
 *   TESS_E_UNSUPPORTED  path "" where checkpoint.exclude_from_loading keeps tensors of initial_load_path out: what the
 *                       run began with is in no file
 *   and the errors of reading config.json. Not collective. */
tess_status rl_first_weights_find(const tess_config *config, const tess_model_config *policy, const char *path,
                                  const char *model, rl_first_weights *first);

#endif
