/* Other programs: tools of the machine whose output is their interface, and what a user wants told of an alert. Both
 * run argv[0] as PATH finds it, without a shell, and wait. TESS_E_NOT_FOUND: there is no such program; TESS_E_TIMEOUT:
 * it took longer than timeout_s and was killed; TESS_E_IO: it ended with another code than 0. */
#ifndef TESS_BASE_OS_PROGRAM_H
#define TESS_BASE_OS_PROGRAM_H

#include "tessera/status.h"

#include <stddef.h>

/* Keeps the first `size` - 1 bytes of its standard output, with a NUL behind them; its input is empty, its errors go
 * nowhere. */
tess_status tess_os_capture(char *const *argv, double timeout_s, char *out, size_t size);

typedef struct tess_os_variable {
    const char *name, *value;
} tess_os_variable;

/* Gives it `input` (4095 bytes at most) on its standard input and adds `variables` (n) to its environment; what it
 * prints goes to our standard error. What takes too long is killed with all that it started. */
tess_status tess_os_hook(char *const *argv, const char *input, const tess_os_variable *variables, int n,
                         double timeout_s);

#endif
