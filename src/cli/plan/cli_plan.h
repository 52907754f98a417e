/* The commands of `tessera plan`. */
#ifndef TESS_CLI_PLAN_CLI_PLAN_H
#define TESS_CLI_PLAN_CLI_PLAN_H

#include "cli/cli.h"

extern const cli_command cli_plan_advise, cli_plan_search, cli_plan_draw, cli_plan_matrix, cli_plan_launches;

#endif
