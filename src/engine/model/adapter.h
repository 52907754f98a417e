/* Decides which parameters of a run's model train: an adapter's (LoRA), or all but those that training.freeze names. */
#ifndef TESS_ENGINE_MODEL_ADAPTER_H
#define TESS_ENGINE_MODEL_ADAPTER_H

#include "nn/model.h"
#include "config/config.h"

/* An adapter, as its folder or the configuration's section "lora" describes it; rank 0: there is none. TESS_E_INVALID:
 * settings that do not fit together. */
tess_status tess_config_load_lora(const tess_config *config, tess_lora *lora);

/* Freezes what training.freeze names in the model, or a part of it. */
void tess_config_freeze(const tess_config *config, tess_model *model);
/* TESS_E_INVALID: a target of lora that is no map of the model; a pattern of training.freeze that no parameter fits,
 * which is a typing error; or nothing is left that trains. */
tess_status tess_config_check_trainable(tess_mem *mem, const tess_config *config, const tess_model_config *model);

/* Parameters that train: their elements. */
int64_t tess_model_count_trainable(const tess_model *model);

#endif
