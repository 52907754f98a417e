/* Runs other programs: tools of the machine whose output is their interface, and a user's alert hook. Both functions
 * run argv[0] as PATH finds it, without a shell, and wait. TESS_E_NOT_FOUND: no such program; TESS_E_TIMEOUT: it took
 * longer than timeout_s and was killed; TESS_E_IO: its exit code was not 0. */
#ifndef TESS_BASE_OS_PROGRAM_H
#define TESS_BASE_OS_PROGRAM_H

#include "tessera/status.h"

#include <stddef.h>

/* Captures the first `size` - 1 bytes of its standard output, NUL-terminated, also on failure. Its standard input is
 * empty and its standard error is dropped. The time counts anew whenever it prints. A late one gets SIGTERM, with its
 * process group, and SIGKILL five seconds later. */
tess_status tess_os_capture(char *const *argv, double timeout_s, char *out, size_t size);

typedef struct tess_os_variable {
    const char *name, *value;
} tess_os_variable;

/* Passes it `input` (4095 bytes at most) on standard input and adds `variables` (n) to its environment; its output goes
 * to our standard error. A timeout kills it and all processes that it started. */
tess_status tess_os_hook(char *const *argv, const char *input, const tess_os_variable *variables, int n,
                         double timeout_s);

#endif
