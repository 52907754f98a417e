/* What another program prints: for tools of the machine whose output is their interface. */
#ifndef TESS_BASE_OS_CAPTURE_H
#define TESS_BASE_OS_CAPTURE_H

#include "tessera/status.h"

#include <stddef.h>

/* Runs argv[0] (searched in PATH; no shell) and keeps the first `size` - 1 bytes of its standard output, with a NUL
 * behind them; its input is empty, its errors go nowhere. TESS_E_NOT_FOUND: there is no such program; TESS_E_TIMEOUT:
 * it took longer than timeout_s and was killed; TESS_E_IO: it ended with another code than 0. */
tess_status tess_os_capture(char *const *argv, double timeout_s, char *out, size_t size);

#endif
