/* Passes on what mpirun and the ranks write. mpirun writes into a pipe that is always read, so no rank is lost when
 * nobody reads the output of this process any more. */
#ifndef TESS_CONTROL_LAUNCH_MPIRUN_RELAY_H
#define TESS_CONTROL_LAUNCH_MPIRUN_RELAY_H

#include <poll.h>
#include <stdio.h>

#include "control/launch/mpirun/launch_watch.h"

typedef struct launch_relay {
    FILE *to; /* stdout or stderr; bytes are written to its descriptor */
    int from; /* the pipe, non-blocking; -1: none, or at its end */
    /* Takes whole lines that are not to be passed on; NULL: bytes pass as they come. */
    bool (*hear)(void *self, const char *line);
    size_t n, n_ready, n_sent; /* bytes of `text`: held, of which may be passed on, of which were */
    char text[8192];
} launch_relay;

/* Opens the pipe. *write_end belongs to the caller. */
tess_status launch_relay_open(launch_relay *r, int *write_end);

/* Returns what the relay waits for. */
struct pollfd launch_relay_waits(const launch_relay *r);
/* Reads once and writes once, as far as neither blocks. */
void launch_relay_run(launch_relay *r, const tess_launch_watch *watch);
/* Passes on what the pipe still holds, however long its reader takes, and closes it. */
void launch_relay_end(launch_relay *r, const tess_launch_watch *watch);

#endif
