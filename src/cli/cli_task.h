/* Runs the commands that train with a task: `tessera train` and `tessera rl`. */
#ifndef TESS_CLI_CLI_TASK_H
#define TESS_CLI_CLI_TASK_H

#include "cli/cli.h"
#include "train/task.h"

/* Parses [CONFIG.yaml] [-n RANKS] [section.key=value ...] and runs the task. `missing`: the message if no argument
 * is given. */
int cli_run_task(const tess_task_kind *kind, const cli_command *command, const char *missing, int argc, char **argv);

#endif
