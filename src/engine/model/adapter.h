/* Decides which parameters of a run's model train: those of an adapter (LoRA), or all but those that training.freeze
 * names. */
#ifndef TESS_ENGINE_MODEL_ADAPTER_H
#define TESS_ENGINE_MODEL_ADAPTER_H

#include "nn/model.h"
#include "config/config.h"

/* Reads the adapter that its folder or the configuration's section "lora" describes; rank 0: no adapter.
 * TESS_E_INVALID: settings that do not fit together */
tess_status tess_config_load_lora(const tess_config *config, tess_lora *lora);

/* Freezes the parameters of a model, or of a part of it, that training.freeze names. */
void tess_config_freeze(const tess_config *config, tess_model *model);
/* Checks which parameters train.
 * TESS_E_INVALID: a target of lora that is no map of the model; a pattern of training.freeze that matches no
 * parameter, which is a typing error; or no parameter trains */
tess_status tess_config_check_trainable(tess_mem *mem, const tess_config *config, const tess_model_config *model);

/* The number of elements of all parameters that train. */
int64_t tess_model_count_trainable(const tess_model *model);

#endif
