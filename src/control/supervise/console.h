/* Writes a job's lines to a file once its standard output or standard error has no reader any more: `train | head`,
 * or a closed terminal. */
#ifndef TESS_CONTROL_SUPERVISE_CONSOLE_H
#define TESS_CONTROL_SUPERVISE_CONSOLE_H

#include <stdio.h>

#include "base/core/reporter.h"

/* If `stream` (stdout or stderr) has lost its reader, or was closed from the start, redirects it to
 * `folder`/console.log. For stdout, this is reported. If that file cannot be opened, the lines are dropped. */
void tess_console_keep(FILE *stream, const char *folder, const tess_reporter *reporter);

#endif
