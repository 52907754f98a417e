/* Runs an mpirun command line and watches it. Passes a request to stop on in a way that leaves the ranks time to
 * save. */
#ifndef TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_WATCH_H
#define TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_WATCH_H

#include <stdio.h>

#include "control/launch/mpirun/launch_line.h"

typedef struct tess_launch_watch {
    tess_mpi mpi;    /* must not be ANY */
    bool usr1_stops; /* SIGUSR1 asks to stop; otherwise it is passed to the ranks */
    /* Called for each line that mpirun and the ranks write to standard error, without its newline. A line of more
     * than 8 KiB is passed in parts. If it returns true, the line is not passed on. NULL: all lines are passed on. */
    bool (*on_error_line)(void *self, const char *line);
    /* Called before data is passed on to `stream` (stdout or stderr). It may redirect the stream if its reader is
     * gone. NULL: data that has no reader is dropped. */
    void (*before_output)(void *self, FILE *stream);
    /* Called about once a second. Returns text for the standard input of MPI's first process, or NULL if there is
     * none now. If this callback is NULL, that process has no input. */
    const char *(*next_input)(void *self);
    void *self;
} tess_launch_watch;

typedef struct tess_launch_line_end {
    /* exit code of mpirun, or 128 + signal. If the job was asked to stop and did not save: 128 + that signal */
    int exit_code;
    int stop_signal; /* SIGINT or SIGTERM: signal that asked to stop */
    bool twice;      /* it was asked a second time, and the ranks were killed */
    bool lost_host;  /* Open MPI has lost a host, so later reports of its ranks are consequences */
    bool in_touch; /* mpirun ended by itself, connected to all hosts until the end: no rank of the job runs any more */
} tess_launch_line_end;

/* Runs the line, passes on the output of mpirun and the ranks, and returns when mpirun has ended. The job continues
 * if its output has no reader: the caller ignores SIGPIPE. The first SIGINT, SIGTERM, SIGUSR1 (if usr1_stops) or
 * SIGUSR2 during the call asks all ranks to stop. The second kills them, and the third also kills mpirun. A SIGTERM
 * sent to Open MPI's mpirun alone, which would leave ranks one second, counts as sent to this process. Once the
 * ranks of this host have ended, mpirun has ten seconds to end. Not thread-safe, because signals belong to the
 * process. */
tess_status tess_launch_line_run(const tess_launch_line *line, const tess_launch_watch *watch,
                                 tess_launch_line_end *end);

#endif
