/* Finds the files of a model's folder, and reads the configuration of a run's model. */
#ifndef TESS_ENGINE_MODEL_MODEL_FILE_H
#define TESS_ENGINE_MODEL_MODEL_FILE_H

#include "base/core/reporter.h"
#include "config/config.h"
#include "nn/model.h"

/* Whether a path looks like "org/name", the form of model names on the Hugging Face hub. */
bool tess_is_hub_name(const char *path);
/* Writes the path of a file in a model's folder. TESS_E_NOT_FOUND: the message says which files belong there. */
tess_status tess_model_folder_file(const char *folder, const char *name, char *path, size_t size);
/* Writes the path of the config.json of a run's model: model.config, or the file in model.path. */
tess_status tess_config_model_file(const tess_config *config, char *path, size_t size);
/* Reads that file, and applies the run's position limit and number of sum leaves. TESS_E_INVALID: training.seq_len
 * is above the limit. */
tess_status tess_config_read_model(const tess_config *config, tess_model_config *model);
/* Checks that sums over the model's tokens can have the leaves of training.context_leaves. TESS_E_UNSUPPORTED: they
 * cannot in this layout; the message says what would do */
tess_status tess_config_check_leaves(const tess_config *config, const tess_model_config *model);
/* tess_config_read_model, and then unties the head if tess_config_untie_head finds a separate one, and checks leaves.
 * `reporter` may be NULL. */
tess_status tess_config_load_model(const tess_config *config, const tess_reporter *reporter, tess_model_config *model);

#endif
