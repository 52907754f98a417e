/* Declares the commands of `tessera verify`. */
#ifndef TESS_CLI_CLI_VERIFY_H
#define TESS_CLI_CLI_VERIFY_H

#include "cli/cli.h"

extern const cli_command cli_verify_on_policy, cli_verify_invariance;

#endif
