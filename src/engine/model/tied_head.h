/* Handles models whose config.json ties the head to the embedding, although their weights contain a separate head. */
#ifndef TESS_ENGINE_MODEL_TIED_HEAD_H
#define TESS_ENGINE_MODEL_TIED_HEAD_H

#include "config/config.h"
#include "engine/model/weights.h"

/* Unties `config` if the weights at `path` ("": none) have a head that differs from their embedding, as transformers
 * does, and reports that. If they are equal, they stay tied. If the weights cannot be read, nothing changes.
 * `reporter` may be NULL. */
void tess_untie_head(const char *path, const tess_reporter *reporter, tess_model_config *config);

/* tess_untie_head for a run's model. The weights are those of its newest checkpoint, else of
 * checkpoint.initial_load_path, else of model.path. */
void tess_config_untie_head(const tess_config *run, const tess_reporter *reporter, tess_model_config *config);

#endif
