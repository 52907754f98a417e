/* The watchdog reports which rank keeps others waiting, and why. It runs outside all ranks, in the launcher or in
 * the warden of a host's first rank, and needs no help of the rank that it checks. The board shows which ranks wait
 * for which, and the system what a process is doing. While no rank waits for long, the watchdog reads only a few
 * words of the board. */
#ifndef TESS_CONTROL_LAUNCH_WATCHDOG_WATCHDOG_H
#define TESS_CONTROL_LAUNCH_WATCHDOG_WATCHDOG_H

#include <sys/types.h>

#include "base/core/reporter.h"
#include "job/job_memory.h"

typedef struct tess_watchdog tess_watchdog;

typedef struct tess_watchdog_options {
    /* seconds after which a rank that keeps others waiting is reported; 0: none is, but ends are still checked */
    double soft_s;
    double timeout_s;  /* deadline of a collective in training, in seconds; 0: not known */
    bool waits_on;     /* ranks continue to wait after the deadline; a notice reports it */
    const pid_t *pids; /* (world) processes of this host's ranks, for those that have not joined; NULL: not known */
    tess_reporter reporter;
} tess_watchdog_options;

/* Creates a watchdog for the ranks of this host; `job` is borrowed. Destroy sets the handle to NULL. If creation
 * fails, the job continues without a watchdog: the functions below do nothing with NULL. */
tess_status tess_watchdog_create(tess_mem *mem, const tess_job *job, const tess_watchdog_options *options,
                                 tess_watchdog **watchdog);
void tess_watchdog_destroy(tess_watchdog **watchdog);

/* Looks at the job; call it some 20 times a second. Never blocks. */
void tess_watchdog_look(tess_watchdog *watchdog);

/* Notes that the process `pid` of `rank` has ended with `wait_status` (waitpid). `asked`: it was asked to. Writes
 * how it ended to the board. It may take some more looks to find that it was an OOM kill. */
void tess_watchdog_ended(tess_watchdog *watchdog, int rank, int pid, int wait_status, bool asked);

/* Settles ends that are still open, at the end of the job. Takes some 50 ms at most. */
void tess_watchdog_settle(tess_watchdog *watchdog);

#endif
