/* Reads a file of JSON lines that grows, such as metrics.jsonl: each call reads the lines that were added since the
 * last one. Memory is bounded by one line of PAGE_LINE bytes. */
#ifndef TESS_PAGE_PAGE_LINES_H
#define TESS_PAGE_PAGE_LINES_H

#include <jansson.h>

#include "base/mem/scoped.h"

enum { PAGE_LINE = 1 << 20 };

typedef struct page_lines {
    uint64_t device, inode, offset; /* the file, and how much of it has been read; 0: nothing */
    int64_t n_bad;                  /* lines that are no JSON objects, or longer than PAGE_LINE */
    bool skips;                     /* the line at `offset` is too long, and its beginning has been skipped */
    uint64_t seen; /* hash of bytes that were read: a file that was cut and has grown again has others there */
} page_lines;

typedef struct page_lines_reader {
    tess_mem *mem;
    double deadline_s; /* monotonic; 0: none */
    /* Takes a line, an object that is borrowed */
    tess_status (*line)(void *self, const json_t *line);
    /* The file was replaced, or cut: what was read before does not count. NULL: ignored */
    void (*restart)(void *self);
    void *self;
} page_lines_reader;

/* Reads the lines that were added. A last line without its end waits for the next call. A file that does not exist has
 * no lines. TESS_E_TIMEOUT: the deadline has passed. Each call reads something, so
 * calls in a row come to the end. */
tess_status page_lines_read(page_lines *lines, const char *path, const page_lines_reader *reader);

#endif
