/* The watchdog reports which rank keeps others waiting, and why. It runs outside all ranks, in the launcher or in the
 * warden of a host's first rank, and needs no help of the rank that it checks: the board says who waits for whom, the
 * system what a process does. While nobody waits for long it reads only a few words of the board. */
#ifndef TESS_CONTROL_LAUNCH_WATCHDOG_WATCHDOG_H
#define TESS_CONTROL_LAUNCH_WATCHDOG_WATCHDOG_H

#include <sys/types.h>

#include "base/core/reporter.h"
#include "job/job_memory.h"

typedef struct tess_watchdog tess_watchdog;

typedef struct tess_watchdog_options {
    double soft_s;     /* ranks that keep others waiting for longer are reported; 0: none, but ends are still checked */
    double timeout_s;  /* deadline of a collective in training, 0: not known */
    bool waits_on;     /* ranks do not give up at the deadline: a notice reports that */
    const pid_t *pids; /* (world) of this host's ranks, for those that have not joined; NULL: not known */
    tess_reporter reporter;
} tess_watchdog_options;

/* `job` is borrowed; the ranks of this host are watched. Destroy nulls the handle. When creation fails the job
 * continues without a watchdog: the calls below do nothing with NULL. */
tess_status tess_watchdog_create(tess_mem *mem, const tess_job *job, const tess_watchdog_options *options,
                                 tess_watchdog **watchdog);
void tess_watchdog_destroy(tess_watchdog **watchdog);

/* Call some 20 times a second. Never blocks. */
void tess_watchdog_look(tess_watchdog *watchdog);

/* The process `pid` of `rank` has ended with `wait_status` (waitpid). `asked`: it was asked to. Writes how it ended to
 * the board; that it was an OOM kill may need some more looks. */
void tess_watchdog_ended(tess_watchdog *watchdog, int rank, int pid, int wait_status, bool asked);

/* Settles open ends at the end of the job, within some 50 ms. */
void tess_watchdog_settle(tess_watchdog *watchdog);

#endif
