/* Runs an mpirun line and watches it. A request to stop is passed on so that the ranks have time to save. */
#ifndef TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_WATCH_H
#define TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_WATCH_H

#include <stdio.h>

#include "control/launch/mpirun/launch_line.h"

typedef struct tess_launch_watch {
    tess_mpi mpi;    /* not ANY */
    bool usr1_stops; /* SIGUSR1 asks to stop; else the ranks get it */
    /* Gets each line that mpirun and the ranks write to standard error (no newline; a line of more than 8 KiB comes in
     * parts). Returns true if it has taken the line: the line is not passed on. NULL: takes none. */
    bool (*hear)(void *self, const char *line);
    /* Comes before something is passed on to `stream`, stdout or stderr: may give it another descriptor if nobody reads
     * it. NULL: what nobody reads is dropped. */
    void (*keep)(void *self, FILE *stream);
    /* Called about once a second for text to write to the standard input of MPI's first process; NULL returned: nothing
     * now. Without this callback that process has no input. */
    const char *(*say)(void *self);
    void *self;
} tess_launch_watch;

typedef struct tess_launch_line_end {
    int exit_code; /* code of mpirun, or 128 + signal; a job that was asked to stop and did not save: 128 + that signal
                    */
    int stop_signal; /* SIGINT or SIGTERM: it was asked to stop */
    bool twice;      /* asked a second time: the ranks were killed */
    bool lost_host;  /* Open MPI has lost a host, and later reports of its ranks with it */
    bool in_touch;   /* mpirun ended by itself, in touch with all hosts to the end: no rank of the job runs any more */
} tess_launch_line_end;

/* Runs the line, passes on what mpirun and the ranks write, and returns when mpirun has ended. Nothing ends when nobody
 * reads that output: the caller ignores SIGPIPE. The first SIGINT, SIGTERM, SIGUSR1 (if usr1_stops) or SIGUSR2 that
 * comes meanwhile asks all ranks to stop, the second kills them, the third kills mpirun, too. A SIGTERM to Open MPI's
 * mpirun alone, which would leave ranks one second, counts as one to this process. Once the ranks of this host have
 * ended, mpirun has ten seconds to end. Not thread-safe: signals are the process's. */
tess_status tess_launch_line_run(const tess_launch_line *line, const tess_launch_watch *watch,
                                 tess_launch_line_end *end);

#endif
