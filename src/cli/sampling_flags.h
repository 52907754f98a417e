/* How `tessera generate` and `tessera chat` draw: flags, then the model's generation_config.json, then defaults. */
#ifndef TESS_CLI_SAMPLING_FLAGS_H
#define TESS_CLI_SAMPLING_FLAGS_H

#include "cli/cli.h"
#include "infer/sampler.h"
#include "nn/model_config.h"

typedef struct cli_sampling {
    tess_sampling sampling; /* negative values: open */
    int64_t max_new_tokens; /* likewise */
    int64_t seed;
} cli_sampling;

enum { CLI_SAMPLING_FLAGS = 6 };

/* Leaves all open; the flags, all but --max-new-tokens, fill it. */
void cli_sampling_flags(cli_sampling *how, cli_flag flags[CLI_SAMPLING_FLAGS]);
/* Settles what is open, by the file of the model's folder or by default; max_new_tokens: the default. The tokens that
 * end a text become those of the file, where it names any. Says on standard error what of the file holds. */
tess_status cli_sampling_settle(cli_sampling *how, const char *folder, int64_t max_new_tokens,
                                tess_model_config *config);

#endif
