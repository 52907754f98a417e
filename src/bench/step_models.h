/* Models by name, for steps that need no files. */
#ifndef TESS_BENCH_STEP_MODELS_H
#define TESS_BENCH_STEP_MODELS_H

#include "nn/model_config.h"

/* `name`: one of ours, the path of a config.json, or a Hugging Face folder. *folder: it is a folder, whose weights are
 * meant as well. TESS_E_NOT_FOUND: none of them (the message lists ours). */
tess_status step_model_config(const char *name, tess_model_config *config, bool *folder);

#endif
