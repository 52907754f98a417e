/* Ends a command or a rank: chooses its exit code, and prints a line on standard error that says why. */
#ifndef TESS_CONTROL_SUPERVISE_EXIT_H
#define TESS_CONTROL_SUPERVISE_EXIT_H

#include "base/core/reporter.h"
#include "tessera/runtime.h"

enum { TESS_EXIT_OK = 0, TESS_EXIT_FAILED = 1, TESS_EXIT_BAD_INPUT = 2, TESS_EXIT_INTERRUPTED = 130 };

/* Returns the exit code for `status`. */
int tess_exit_code(tess_status status);

/* Reports the message of the last failure. Returns the exit code for `status`. */
int tess_exit_report(const tess_reporter *reporter, tess_status status);

/* Does the same on standard error. */
int tess_exit_fail(tess_status status);

/* Does the same before there is a job. Ranks that MPI has started mostly fail in the same way, and MPI ends all of
 * them at the first failure. So rank 0 prints at once, and the others only if they still run two seconds later. */
int tess_exit_fail_once(tess_status status);

/* Reports why this rank fails with `status`, either here or through its launcher. Returns the exit code. */
int tess_exit_rank(tess_status status, tess_runtime *runtime);

#endif
