/* Shows lines on the terminal from a thread of its own. Nobody waits for long for a terminal that takes nothing, such
 * as one that ctrl-S stopped, or a pager: then lines are left out, and a line tells how many. */
#ifndef TESS_CONTROL_LAUNCH_OUTPUT_TERMINAL_LINES_H
#define TESS_CONTROL_LAUNCH_OUTPUT_TERMINAL_LINES_H

#include <stddef.h>

#include "base/core/reporter.h"
#include "tessera/status.h"

typedef struct terminal_lines terminal_lines;

/* Starts the thread. fd: 1 or 2. `folder` has the files with all lines. Call it while the
 * signals that the caller waits for are blocked. */
tess_status terminal_lines_open(int fd, const char *folder, const tess_reporter *reporter, terminal_lines **out);
/* Adds whole lines of at most OUTPUT_LINE_BYTES. Called by one thread. */
void terminal_lines_put(terminal_lines *t, const char *text, size_t n);
/* Waits until all lines are shown, but not for a terminal that takes nothing. NULL does nothing. */
void terminal_lines_close(terminal_lines **out);

#endif
