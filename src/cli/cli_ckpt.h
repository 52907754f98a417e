/* The commands below `tessera ckpt`, a file each. */
#ifndef TESS_CLI_CLI_CKPT_H
#define TESS_CLI_CLI_CKPT_H

#include <jansson.h>

#include "cli/cli.h"

extern const cli_command cli_ckpt_ls, cli_ckpt_inspect, cli_ckpt_verify, cli_ckpt_diff, cli_ckpt_merge, cli_ckpt_split,
    cli_ckpt_extract, cli_ckpt_edit, cli_ckpt_prune;

/* Prints an object, indented, to standard output, and takes it; NULL: TESS_E_NOMEM. */
tess_status cli_print_json(json_t *object);

/* "[4096, 11008]"; returns text. */
const char *cli_format_dims(int n_dims, const int64_t *dim, char *text, size_t size);

/* Whether a name has `pattern` in it, or, where that has one of "*?[", is matched by it. NULL fits all. */
bool cli_name_fits(const char *name, const char *pattern);

#endif
