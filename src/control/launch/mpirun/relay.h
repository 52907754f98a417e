/* Passes on the output of mpirun and the ranks. mpirun writes into a pipe that is always read, so no rank is lost if
 * the output of this process has no reader any more. */
#ifndef TESS_CONTROL_LAUNCH_MPIRUN_RELAY_H
#define TESS_CONTROL_LAUNCH_MPIRUN_RELAY_H

#include <poll.h>
#include <stdio.h>

#include "control/launch/mpirun/launch_watch.h"

typedef struct launch_relay {
    FILE *to; /* stdout or stderr; bytes are written directly to its descriptor */
    int from; /* read end of the pipe, non-blocking; -1: there is none, or it has ended */
    /* Takes complete lines that are not to be passed on. NULL: bytes are passed on unchanged. */
    bool (*on_line)(void *self, const char *line);
    size_t n, n_ready, n_sent; /* bytes in `text`: all; those that may be passed on; those that were */
    char text[8192];
} launch_relay;

/* Opens the pipe. The caller owns *write_end. */
tess_status launch_relay_open(launch_relay *r, int *write_end);

/* Returns what the relay waits for, for poll. */
struct pollfd launch_relay_waits(const launch_relay *r);
/* Reads once and writes once, without blocking. */
void launch_relay_run(launch_relay *r, const tess_launch_watch *watch);
/* Passes on the remaining data, however long its reader takes, and closes the pipe. */
void launch_relay_end(launch_relay *r, const tess_launch_watch *watch);

#endif
