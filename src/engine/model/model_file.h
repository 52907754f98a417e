/* The files of a model's folder, and the configuration of a run's model. */
#ifndef TESS_ENGINE_MODEL_MODEL_FILE_H
#define TESS_ENGINE_MODEL_MODEL_FILE_H

#include "base/core/reporter.h"
#include "config/config.h"
#include "nn/model.h"

/* Whether a path looks like "org/name", as the models of the Hugging Face hub are called. */
bool tess_is_hub_name(const char *path);
/* Path of a file in a model's folder. TESS_E_NOT_FOUND says what belongs there. */
tess_status tess_model_folder_file(const char *folder, const char *name, char *path, size_t size);
/* Path of the config.json of a run's model: model.config, or the one in model.path. */
tess_status tess_config_model_file(const tess_config *config, char *path, size_t size);
/* Reads that file, with the run's position limit and sums. TESS_E_INVALID: training.seq_len is above the limit. */
tess_status tess_config_read_model(const tess_config *config, tess_model_config *model);
/* Reads it, and unties the head if tess_config_untie_head says so. `reporter` may be NULL. */
tess_status tess_config_load_model(const tess_config *config, const tess_reporter *reporter, tess_model_config *model);

#endif
