/* How a command or a rank ends: its exit code, and why, in a line on standard error. */
#ifndef TESS_SUPERVISE_EXIT_H
#define TESS_SUPERVISE_EXIT_H

#include "tessera/runtime.h"

enum { TESS_EXIT_OK = 0, TESS_EXIT_FAILED = 1, TESS_EXIT_BAD_INPUT = 2, TESS_EXIT_INTERRUPTED = 130 };

/* Prints a line of whoever watches the ranks: a tess_launch_options.notice. */
void tess_exit_notice(void *self, const char *line);

/* Prints the chain of the newest failure as "tessera: ..." and returns the exit code for `status`. */
int tess_exit_fail(tess_status status);

/* The same before there is a job. Ranks that an MPI has started mostly fail alike, and it ends all at the first that
 * does: the first rank speaks at once, the others when they are still there two seconds later. */
int tess_exit_fail_once(tess_status status);

/* A rank is about to end with `status`, a failure: says why, here or through who started it; returns the exit code. */
int tess_exit_rank(tess_status status, tess_runtime *runtime);

#endif
