/* Chooses the activations that a run keeps from forward to backward: section activation_checkpoint. */
#ifndef TESS_ENGINE_ACTIVATIONS_H
#define TESS_ENGINE_ACTIVATIONS_H

#include "nn/model.h"
#include "config/config.h"

/* Returns the executor's options for these settings. `config` has passed tess_config_check_step. */
tess_executor_options tess_engine_activations(const tess_config *config);

/* Sets the options that depend on a rank's part of the model: `model` is the part `part` of the whole. Call it after
 * the slots have been set. Needs some KiB of `mem` while it runs. The result is the same on all ranks that share
 * layers.
 * TESS_E_INVALID: activation_checkpoint.budget is too small */
tess_status tess_activations_fit(tess_mem *mem, const tess_config *config, const tess_model *model,
                                 const tess_model_part *part, tess_executor_options *options);

enum { TESS_ACTIVATIONS_TEXT = 192 };
/* Describes what backward computes again: "feed_forward of 12 layers, residual of 3", or "nothing". Returns text. */
const char *tess_activations_describe(const tess_model *model, const tess_executor_options *options,
                                      char text[TESS_ACTIVATIONS_TEXT]);

#endif
