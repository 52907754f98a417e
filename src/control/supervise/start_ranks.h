/* Starts the ranks of a command with this program's launcher, unless MPI or torchrun has already started them. */
#ifndef TESS_CONTROL_SUPERVISE_START_RANKS_H
#define TESS_CONTROL_SUPERVISE_START_RANKS_H

#include "ckpt/async/async.h"
#include "control/launch/launcher.h"

/* The words that start this program again. */
enum { TESS_OWN_COMMAND_WORDS = 256, TESS_OWN_COMMAND_WORDS_SPARE = 56 };
typedef struct tess_own_command {
    char program[4096];
    int n; /* number of words; there is room for TESS_OWN_COMMAND_WORDS_SPARE more and a NULL */
    char *word[TESS_OWN_COMMAND_WORDS]; /* word[0] is the path of this program */
} tess_own_command;
tess_status tess_own_command_of(int argc, char *const *argv, tess_own_command *words);
/* Appends a word. It is borrowed and not changed. It uses one of the spare places. */
void tess_own_command_add(tess_own_command *words, const char *word);

typedef struct tess_ranks {
    int n;          /* number of ranks of the job */
    bool is_warden; /* a launcher of several hosts started this process for one rank: it becomes that rank's warden */
    bool joins;     /* this process is itself a rank: started alone, or by torchrun */
} tess_ranks;

/* Finds the number of ranks and how they are started. `n`: the value of -n; 0: not given. TESS_E_INVALID: -n is
 * given although MPI or torchrun has started the ranks. */
tess_status tess_ranks_count(int n, tess_ranks *ranks);

/* Whether this process is the first of the job on its host. It starts the host's helpers. */
bool tess_ranks_is_first_here(const tess_ranks *ranks);

/* Starts the process that writes checkpoints in parallel to the ranks, one per host. *saves NULL: another process
 * does so for this host. Call it before ranks and threads are started; stop it after the ranks have ended. */
tess_status tess_ranks_start_saves(tess_async_service **saves);

/* Runs argv as the rank or ranks (not if `joins`). Returns when all have ended. */
tess_status tess_ranks_start(const tess_ranks *ranks, char *const *argv, const tess_launch_options *options,
                             tess_launch_result *result);

/* Reports why the ranks failed, unless it was reported before. Returns the exit code. */
int tess_ranks_report_end(const tess_ranks *ranks, const tess_launch_result *result, const tess_reporter *reporter);

/* Runs this program as the rank or ranks (not if `joins`), and reports their end, on standard error if there is no
 * other reporter. Returns the exit code. */
int tess_ranks_start_self(const tess_ranks *ranks, const tess_own_command *command, const tess_launch_options *options);

#endif
