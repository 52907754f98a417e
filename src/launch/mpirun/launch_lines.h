/* Lines that another process writes into a pipe, one by one. */
#ifndef TESS_LAUNCH_MPIRUN_LAUNCH_LINES_H
#define TESS_LAUNCH_MPIRUN_LAUNCH_LINES_H

#include <stddef.h>

enum { LINES_BYTES = 8192 };

typedef struct tess_lines {
    int fd; /* of the pipe, does not block; -1: there is none, or it is at its end */
    size_t n;
    char text[LINES_BYTES]; /* the beginning of a line that has not ended */
} tess_lines;

/* Hands what can be read now to `hear`, without newlines; a longer line comes in parts. Closes the pipe at its end,
 * where a line may end without a newline. */
void tess_lines_take(tess_lines *lines, void (*hear)(void *self, const char *line), void *self);

#endif
