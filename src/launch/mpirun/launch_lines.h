/* Reads lines that another process writes into a pipe. */
#ifndef TESS_LAUNCH_MPIRUN_LAUNCH_LINES_H
#define TESS_LAUNCH_MPIRUN_LAUNCH_LINES_H

#include <stddef.h>

enum { LINES_BYTES = 8192 };

typedef struct tess_lines {
    int fd; /* of the pipe, non-blocking; -1: none, or at its end */
    size_t n;
    char text[LINES_BYTES]; /* an incomplete line */
} tess_lines;

/* Reads what is available and passes each line to `hear`, without its newline. A longer line comes in parts. Closes the
 * pipe at its end, where the last line may lack a newline. */
void tess_lines_take(tess_lines *lines, void (*hear)(void *self, const char *line), void *self);

#endif
