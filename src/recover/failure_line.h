/* A failure as one line of text: from the guard that names it, which may be on another host, to whoever starts the job
 * again. */
#ifndef TESS_RECOVER_FAILURE_LINE_H
#define TESS_RECOVER_FAILURE_LINE_H

#include "recover/failure.h"

enum { TESS_FAILURE_LINE_BYTES = 2560 /* of which a pipe takes all or nothing */ };

/* Without a newline, whatever the failure's text has in it. Returns line. */
const char *tess_failure_line_write(const tess_failure *failure, char line[TESS_FAILURE_LINE_BYTES]);
/* False: `line` holds no such line, *failure is as it was. What stands before it is skipped. */
bool tess_failure_line_read(const char *line, tess_failure *failure);

#endif
