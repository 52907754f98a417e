/* Runs other programs: tools of the machine whose output is their interface, and a user's alert hook. Both functions
 * run argv[0], found through PATH, without a shell, and wait for its end.
 *   TESS_E_NOT_FOUND  no such program
 *   TESS_E_TIMEOUT    it took longer than timeout_s and was killed
 *   TESS_E_IO         its exit code was not 0 */
#ifndef TESS_BASE_OS_PROGRAM_H
#define TESS_BASE_OS_PROGRAM_H

#include "tessera/status.h"

#include <stddef.h>

/* Captures the first `size` - 1 bytes of the program's standard output, NUL-terminated, also on failure. Its standard
 * input is empty and its standard error is dropped. The timeout starts again whenever it prints something. On a timeout
 * the program and its process group get SIGTERM, and five seconds later SIGKILL. */
tess_status tess_os_capture(char *const *argv, double timeout_s, char *out, size_t size);

typedef struct tess_os_variable {
    const char *name, *value;
} tess_os_variable;

/* Passes `input` (at most 4095 bytes) to the program's standard input and adds `variables` (n) to its environment. Its
 * output goes to our standard error. A timeout kills the program and its process group. */
tess_status tess_os_hook(char *const *argv, const char *input, const tess_os_variable *variables, int n,
                         double timeout_s);

#endif
