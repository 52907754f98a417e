/* How the ranks of a command come to be: by this program's launcher, or by an MPI (or torchrun) that started it. */
#ifndef TESS_CLI_START_H
#define TESS_CLI_START_H

#include "launch/launcher.h"
#include "tessera/runtime.h"

typedef struct cli_ranks {
    int n;        /* ranks of the job */
    bool guarded; /* MPI started this process for one of them: it becomes its guard */
    bool joins;   /* it is one of them itself: started alone, or by torchrun */
} cli_ranks;

/* `text` is what -n was given, NULL: nothing. TESS_E_INVALID: -n beside ranks that somebody else has started. */
tess_status cli_count_ranks(const char *text, cli_ranks *ranks);

/* Starts argv[0] with argv as the rank or ranks (not for `joins`) and returns when all have ended. */
tess_status cli_start(const cli_ranks *ranks, char *const *argv, const tess_launch_options *options,
                      tess_launch_result *result);

/* The words that start this program again, behind its own path. */
enum { CLI_ARGUMENTS = 256, CLI_ARGUMENTS_SPARE = 16 };
typedef struct cli_arguments {
    char program[4096];
    int n; /* at least CLI_ARGUMENTS_SPARE more, and a NULL, fit behind them */
    char *word[CLI_ARGUMENTS];
} cli_arguments;
tess_status cli_arguments_of_self(int argc, char *const *argv, cli_arguments *words);

/* Prints why the ranks have ended when that was not well and nobody has told it; returns the exit code. */
int cli_report_end(const cli_ranks *ranks, const tess_launch_result *result);

/* Starts this program with the words `argv` as the rank or ranks (not for `joins`), waits until all have ended, prints
 * why when that was not well, and returns the exit code. */
int cli_start_self(const cli_ranks *ranks, int argc, char **argv, const tess_launch_options *options);

/* Prints a line of whoever watches the ranks: a tess_launch_options.notice. */
void cli_notice(void *self, const char *line);

/* As cli_fail, before there is a job. Ranks that an MPI has started mostly fail alike, and it ends all at the first
 * that does: the first rank speaks at once, the others when they are still there two seconds later. */
int cli_fail_once(tess_status status);

/* A rank is about to end with `status`, a failure: says why, here or through who started it; returns the exit code. */
int cli_end_rank(tess_status status, tess_runtime *runtime);

#endif
