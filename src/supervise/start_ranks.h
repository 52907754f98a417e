/* How the ranks of a command come to be: by this program's launcher, or by an MPI (or torchrun) that started it. */
#ifndef TESS_SUPERVISE_START_RANKS_H
#define TESS_SUPERVISE_START_RANKS_H

#include "launch/launcher.h"

typedef struct tess_ranks {
    int n;          /* ranks of the job */
    bool is_warden; /* MPI started this process for one of them: it becomes its warden */
    bool joins;     /* it is one of them itself: started alone, or by torchrun */
} tess_ranks;

/* `n` is what -n was given, 0: nothing. TESS_E_INVALID: -n beside ranks that somebody else has started. */
tess_status tess_ranks_count(int n, tess_ranks *ranks);

/* Starts argv[0] with argv as the rank or ranks (not for `joins`) and returns when all have ended. */
tess_status tess_ranks_start(const tess_ranks *ranks, char *const *argv, const tess_launch_options *options,
                             tess_launch_result *result);

/* Prints why the ranks have ended when that was not well and nobody has told it; returns the exit code. */
int tess_ranks_report_end(const tess_ranks *ranks, const tess_launch_result *result);

/* Starts this program with the words `argv` as the rank or ranks (not for `joins`), waits until all have ended, prints
 * why when that was not well, and returns the exit code. */
int tess_ranks_start_self(const tess_ranks *ranks, int argc, char **argv, const tess_launch_options *options);

#endif
