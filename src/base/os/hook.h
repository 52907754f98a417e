/* A program of the user's that is told something: for alerts. */
#ifndef TESS_BASE_OS_HOOK_H
#define TESS_BASE_OS_HOOK_H

#include "tessera/status.h"

typedef struct tess_os_variable {
    const char *name, *value;
} tess_os_variable;

/* Runs argv[0] (searched in PATH; no shell) with `input` (4095 bytes at most) on its standard input and `variables` (n)
 * added to its environment; what it prints goes to our standard error. Returns when it has ended, or was killed with
 * all that it started after timeout_s. TESS_E_NOT_FOUND: there is no such program; TESS_E_TIMEOUT; TESS_E_IO: it ended
 * with another code than 0. */
tess_status tess_os_hook(char *const *argv, const char *input, const tess_os_variable *variables, int n,
                         double timeout_s);

#endif
