/* Ranks on several hosts, by mpirun. */
#ifndef TESS_CLI_LAUNCH_H
#define TESS_CLI_LAUNCH_H

#include "cli/start.h"
#include "launch/mpirun/launch_watch.h"
#include "train/train_config.h"

typedef struct cli_hosts {
    tess_launch_hosts hosts;
    tess_mpi mpi; /* ANY until a line was made */
} cli_hosts;

#define CLI_LAUNCH_AGENT "TESSERA_LAUNCH_AGENT" /* names what stands in for ssh */

/* This program, at the same path on every host. */
tess_status cli_own_path(char *path, size_t size);
/* The line that runs this program with `arguments` (up to NULL) on the hosts. */
tess_status cli_hosts_line(const tess_launch_hosts *hosts, tess_mpi *mpi, char **arguments, tess_launch_line *line);
/* Shows the line and runs it; watch->mpi has said which. */
tess_status cli_hosts_run(const tess_launch_line *line, const tess_launch_watch *watch, tess_launch_line_end *end);

/* ---- launch_train.c ---- */
/* True when `arguments` are a training run whose configuration can be read here. */
bool cli_launch_trains(int argc, char **argv, tess_config *config);
/* Runs it on the hosts, and again as its recovery section has it; returns the exit code. */
int cli_launch_train(cli_hosts *hosts, const tess_config *config, int argc, char **argv);

/* ---- launch_warden.c ---- */
#define CLI_LAUNCH_REPORTS "TESSERA_LAUNCH_REPORTS" /* carried to the guards by mpirun */
#define CLI_LAUNCH_LEAVE "L" /* to the input of MPI's first process: leave after the next save; its guard tells all */

/* True in a guard whose job was started by a launcher that looks after it. */
bool cli_warden_is_heard(void);
/* In a rank's guard: what it says of a failure goes to who started MPI, when that looks after the job. */
void cli_warden_reports(tess_launch_options *options);
/* The same of a job that ended because it was asked to stop. */
void cli_warden_reports_end(tess_launch_result *result);

#endif
