/* Models by name, for benches that need no files. */
#ifndef TESS_BENCH_STEP_STEP_MODELS_H
#define TESS_BENCH_STEP_STEP_MODELS_H

#include "nn/model_config.h"

/* `name`: a preset, the path of a config.json, or a Hugging Face folder. *folder: it is a folder, and its weights are
 * to be used. TESS_E_NOT_FOUND: none of these (the message lists the presets). */
tess_status step_model_config(const char *name, tess_model_config *config, bool *folder);

#endif
