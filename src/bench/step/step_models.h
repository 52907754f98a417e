/* The model that a bench runs. */
#ifndef TESS_BENCH_STEP_STEP_MODELS_H
#define TESS_BENCH_STEP_STEP_MODELS_H

#include "nn/model_config.h"

/* Reads the configuration of a model. `name`: a named model, the path of a config.json, or a Hugging Face folder.
 * *folder: it is a folder, and its weights are to be used. TESS_E_NOT_FOUND: there is no such model (the message
 * lists the named ones). */
tess_status step_model_config(const char *name, tess_model_config *config, bool *folder);

#endif
