/* Lines of a file or a pipe of any size, in bounded memory. A carriage return ends a line as a progress bar means it,
 * without counting. A line longer than LOG_LINE_MOST comes in pieces of one number that overlap, so that no message is
 * cut. */
#ifndef TESS_DOCTOR_LOG_LINES_H
#define TESS_DOCTOR_LOG_LINES_H

#include "tessera/memory.h"

enum { LOG_LINE_MOST = 32 << 10, LOG_LINE_OVERLAP = 1 << 10, LOG_BUFFER = 256 << 10 };

typedef struct log_lines {
    tess_mem *mem;
    int fd;
    char path[512]; /* for messages and reports; "-": standard input */
    char *buffer;
    size_t begin, end; /* what is not yet given */
    int64_t line;      /* of what was given last, from 1 */
    bool at_end, ends_line;
} log_lines;

/* `path` "-" is standard input. TESS_E_NOT_FOUND, TESS_E_INVALID (a folder, compressed), TESS_E_IO name the path. */
tess_status log_lines_open(tess_mem *mem, const char *path, log_lines *lines);
/* *text is NULL at the end; otherwise valid until the next call, without its line end, not NUL-terminated. */
tess_status log_lines_next(log_lines *lines, const char **text, size_t *size);
void log_lines_close(log_lines *lines);

#endif
