/* Chooses the activations that a run keeps from forward to backward: section activation_checkpoint. */
#ifndef TESS_ENGINE_ACTIVATIONS_H
#define TESS_ENGINE_ACTIVATIONS_H

#include "nn/model.h"
#include "config/config.h"

/* The executor's options of these settings. `config` has passed tess_config_check_step. */
tess_executor_options tess_engine_activations(const tess_config *config);

/* Sets the choices that depend on a rank's part of the model: `model` is `part` of the whole. Call it once slots are
 * known. Takes some KiB of `mem` for as long as it runs. The same on all ranks that share layers. TESS_E_INVALID:
 * activation_checkpoint.budget is too small. */
tess_status tess_activations_fit(tess_mem *mem, const tess_config *config, const tess_model *model,
                                 const tess_model_part *part, tess_executor_options *options);

enum { TESS_ACTIVATIONS_TEXT = 192 };
/* "feed_forward of 12 layers, residual of 3"; "nothing" where none is computed again. Returns text. */
const char *tess_activations_describe(const tess_model *model, const tess_executor_options *options,
                                      char text[TESS_ACTIVATIONS_TEXT]);

#endif
