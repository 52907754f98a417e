/* Keeps a job's lines in a file once nobody reads its standard output or standard error any more: `train | head`, a
 * terminal that was closed. */
#ifndef TESS_CONTROL_SUPERVISE_CONSOLE_H
#define TESS_CONTROL_SUPERVISE_CONSOLE_H

#include <stdio.h>

#include "base/core/reporter.h"

/* If the reader of `stream` (stdout or stderr) is gone, or it was closed from the start, sends what is written from now
 * on to `folder`/console.log. For stdout it reports that. If that file cannot be opened the lines are dropped. */
void tess_console_keep(FILE *stream, const char *folder, const tess_reporter *reporter);

#endif
