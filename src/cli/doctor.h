/* Subcommands of `tessera doctor`, one file each; argv[0] is the subcommand's name. */
#ifndef TESS_CLI_DOCTOR_H
#define TESS_CLI_DOCTOR_H

#include "cli/cli.h"

/* Exit code of a doctor that has done its work and has nothing to say (log) or something to correct (env). */
enum { CLI_DOCTOR_FINDS = 3 };

int cli_doctor_log(int argc, char **argv);
int cli_doctor_env(int argc, char **argv);
int cli_doctor_timers(int argc, char **argv);
int cli_doctor_preflight(int argc, char **argv);

#endif
