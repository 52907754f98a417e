/* Models whose config.json ties the head to the embedding, and whose weights have a head of their own all the same. */
#ifndef TESS_ENGINE_MODEL_TIED_HEAD_H
#define TESS_ENGINE_MODEL_TIED_HEAD_H

#include "config/config.h"
#include "engine/model/weights.h"

/* Unties `config` if the weights at `path` ("": none) have a head that differs from their embedding, as transformers
 * does, and reports that. Equal heads stay tied. Weights that cannot be read change nothing. `reporter` may be NULL. */
void tess_untie_head(const char *path, const tess_reporter *reporter, tess_model_config *config);

/* The same for a run's model, by the weights of its newest checkpoint, else of checkpoint.initial_load_path, else of
 * model.path. */
void tess_config_untie_head(const tess_config *run, const tess_reporter *reporter, tess_model_config *config);

#endif
