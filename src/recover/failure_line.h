/* A failure as one line of text: from the warden that diagnosed it, which may be on another host, to the process that
 * restarts the job. */
#ifndef TESS_RECOVER_FAILURE_LINE_H
#define TESS_RECOVER_FAILURE_LINE_H

#include "recover/failure.h"

enum { TESS_FAILURE_LINE_BYTES = 2560 /* short enough for an atomic write to a pipe */ };

/* The line contains no newline, even if the failure's text does. Returns line. */
const char *tess_failure_line_write(const tess_failure *failure, char line[TESS_FAILURE_LINE_BYTES]);
/* Skips text in front of the line. False: `line` holds no such line, and *failure is unchanged. */
bool tess_failure_line_read(const char *line, tess_failure *failure);

#endif
