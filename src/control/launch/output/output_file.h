/* A file that a stream is kept in. It is created at the first byte, and rotated by size: stdout.log, stdout.log.1, ...
 * A disk that is full loses bytes, but ends nothing. Used by one thread. */
#ifndef TESS_CONTROL_LAUNCH_OUTPUT_OUTPUT_FILE_H
#define TESS_CONTROL_LAUNCH_OUTPUT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "tessera/types.h"

enum { OUTPUT_PATH_BYTES = 4096 };

typedef struct output_file {
    char path[OUTPUT_PATH_BYTES]; /* "": not named yet */
    int fd;                       /* -1: not open */
    int64_t size;
    double retry_s; /* time until which nothing is written after a failure; 0: there was none */
} output_file;

/* Appends the bytes. `max_bytes` and `n_kept` as in tess_output_plan. Returns false if the write failed just now:
 * errno has the reason. It is tried again later. */
bool output_file_write(output_file *file, const char *bytes, size_t n, int64_t max_bytes, int n_kept);
void output_file_close(output_file *file);

/* Marks where the text of an earlier command ends, if the file has such a text. Call it before a process writes. */
void output_file_separate(const char *path);
/* Reads the end of what was written since then, at most `size` bytes. *is_cut: there is more. Returns the number. */
size_t output_file_read_end(const char *path, char *text, size_t size, bool *is_cut);

#endif
