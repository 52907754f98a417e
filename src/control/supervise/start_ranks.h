/* Starts the ranks of a command: this program's launcher does, or MPI or torchrun has done so. */
#ifndef TESS_CONTROL_SUPERVISE_START_RANKS_H
#define TESS_CONTROL_SUPERVISE_START_RANKS_H

#include "ckpt/async/async.h"
#include "control/launch/launcher.h"

/* The words that start this program again. */
enum { TESS_OWN_COMMAND_WORDS = 256, TESS_OWN_COMMAND_WORDS_SPARE = 56 };
typedef struct tess_own_command {
    char program[4096];
    int n;                              /* TESS_OWN_COMMAND_WORDS_SPARE more words and a NULL fit */
    char *word[TESS_OWN_COMMAND_WORDS]; /* word[0] is the path of this program */
} tess_own_command;
tess_status tess_own_command_of(int argc, char *const *argv, tess_own_command *words);
/* Appends one of the spare words; it is borrowed, and not changed. */
void tess_own_command_add(tess_own_command *words, const char *word);

typedef struct tess_ranks {
    int n;          /* ranks of the job */
    bool is_warden; /* MPI started this process for one rank: it becomes that rank's warden */
    bool joins;     /* this process is a rank: started alone, or by torchrun */
} tess_ranks;

/* `n`: the value of -n, 0: not given. TESS_E_INVALID: -n in addition to ranks that MPI or torchrun has started. */
tess_status tess_ranks_count(int n, tess_ranks *ranks);

/* Starts the process that writes checkpoints next to the ranks, one a host; *saves NULL: another process does so for
 * this host. Before the ranks, and before any thread. Stop it after them. */
tess_status tess_ranks_start_saves(tess_async_service **saves);

/* Runs argv as the rank or ranks (not for `joins`); returns when all have ended. */
tess_status tess_ranks_start(const tess_ranks *ranks, char *const *argv, const tess_launch_options *options,
                             tess_launch_result *result);

/* Reports why the ranks failed unless that was reported before; returns the exit code. */
int tess_ranks_report_end(const tess_ranks *ranks, const tess_launch_result *result, const tess_reporter *reporter);

/* Both: runs this program as the rank or ranks (not for `joins`) and reports their end, on standard error if nobody
 * else listens. Returns the exit code. */
int tess_ranks_start_self(const tess_ranks *ranks, const tess_own_command *command, const tess_launch_options *options);

#endif
