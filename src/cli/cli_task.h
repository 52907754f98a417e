/* Commands that run a task of the trainer: `tessera train`, `tessera rl`. */
#ifndef TESS_CLI_CLI_TASK_H
#define TESS_CLI_CLI_TASK_H

#include "cli/cli.h"
#include "train/task.h"

/* [CONFIG.yaml] [-n RANKS] [section.key=value ...]. `missing`: the message if none of them is given. */
int cli_run_task(const tess_task_kind *kind, const cli_command *command, const char *missing, int argc, char **argv);

#endif
