/* How a command or a rank ends: its exit code, and a line on standard error that says why. */
#ifndef TESS_CONTROL_SUPERVISE_EXIT_H
#define TESS_CONTROL_SUPERVISE_EXIT_H

#include "base/core/reporter.h"
#include "tessera/runtime.h"

enum { TESS_EXIT_OK = 0, TESS_EXIT_FAILED = 1, TESS_EXIT_BAD_INPUT = 2, TESS_EXIT_INTERRUPTED = 130 };

/* Reports the message of the newest failure and returns the exit code for `status`. */
int tess_exit_report(const tess_reporter *reporter, tess_status status);

/* The same on standard error. */
int tess_exit_fail(tess_status status);

/* The same before there is a job. Ranks that MPI has started mostly fail alike, and MPI ends all at the first failure:
 * rank 0 prints at once, the others if they still run two seconds later. */
int tess_exit_fail_once(tess_status status);

/* Reports why this rank fails with `status`, here or through its launcher; returns the exit code. */
int tess_exit_rank(tess_status status, tess_runtime *runtime);

#endif
