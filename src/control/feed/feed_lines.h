/* Reads the lines of a file that a rank appends to. A run that goes back to an earlier step replaces the file by its
 * beginning (train/metrics.c), and other lines follow. */
#ifndef TESS_CONTROL_FEED_FEED_LINES_H
#define TESS_CONTROL_FEED_FEED_LINES_H

#include "base/text/text.h"

typedef struct feed_lines {
    char path[1024];
    int fd;           /* -1: there is no file yet */
    uint64_t at;      /* offset of the next byte to read */
    tess_buffer read; /* bytes that were read, from offset at - read.size */
    size_t begin;     /* offset in `read` of the next line */
} feed_lines;

/* Begins at the first line, or if `at_end` after the last line that there is now. */
tess_status feed_lines_open(tess_mem *mem, const char *folder, const char *name, bool at_end, feed_lines *lines);
void feed_lines_close(feed_lines *lines);

/* Returns the next line without its line end, or NULL if there is no complete one. *n: its bytes. The line is valid
 * until the next call. It stays the next line until feed_lines_take. */
const char *feed_lines_next(feed_lines *lines, size_t *n);
void feed_lines_take(feed_lines *lines);
/* Opens the file if it is new. If it was replaced, goes on after the lines that both files begin with. */
void feed_lines_follow(feed_lines *lines);

/* Returns the step of a line {"step": N, ...}; -1: it has none. */
int64_t feed_line_step(const char *line, size_t n);

#endif
