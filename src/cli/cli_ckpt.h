/* The commands below `tessera ckpt`, a file each. */
#ifndef TESS_CLI_CLI_CKPT_H
#define TESS_CLI_CLI_CKPT_H

#include "cli/cli.h"

extern const cli_command cli_ckpt_ls, cli_ckpt_inspect, cli_ckpt_verify, cli_ckpt_diff, cli_ckpt_merge, cli_ckpt_split,
    cli_ckpt_extract, cli_ckpt_edit, cli_ckpt_prune;

#endif
