/* `tessera train -n N` goes on by itself after a failure (recover/): what is done is decided here, outside every rank,
 * and told in one line. */
#ifndef TESS_CLI_SUPERVISE_H
#define TESS_CLI_SUPERVISE_H

#include "cli/start.h"
#include "train/config.h"

/* As cli_start_self, and again for as long as the recovery and elastic sections of `config` have it so. `config` would
 * pass tess_config_check for ranks->n ranks, and its global batch is set. */
int cli_supervise(const tess_config *config, const cli_ranks *ranks, int argc, char **argv,
                  const tess_launch_options *options);

#endif
