/* Chooses the sampling parameters of `tessera generate` and `tessera chat`: from flags, the model's
 * generation_config.json, or defaults, in this order. */
#ifndef TESS_CLI_SAMPLING_FLAGS_H
#define TESS_CLI_SAMPLING_FLAGS_H

#include "cli/cli.h"
#include "infer/sampler.h"
#include "nn/model_config.h"

typedef struct cli_sampling {
    tess_sampling sampling; /* negative values: not chosen yet */
    int64_t max_new_tokens; /* negative: not chosen yet */
    int64_t seed;
} cli_sampling;

enum { CLI_SAMPLING_FLAGS = 6 };

/* Marks all parameters as not chosen, and fills `flags` with the flags that set them, except --max-new-tokens. */
void cli_sampling_flags(cli_sampling *how, cli_flag flags[CLI_SAMPLING_FLAGS]);
/* Sets the parameters that no flag has set, from the file in the model's folder or to defaults. max_new_tokens: its
 * default. If the file names tokens that end a text, they replace those of `config`. Prints to standard error which
 * values the file provided. */
tess_status cli_sampling_settle(cli_sampling *how, const char *folder, int64_t max_new_tokens,
                                tess_model_config *config);

#endif
