/* The watchdog: stands outside every rank, in the launcher or in the guard of a host's first rank, and says who keeps
 * others waiting, and why. It needs nothing of the rank that it looks at: the board says who waits for whom, the system
 * what a process does. While nobody waits for long it reads a few words of the board and nothing else. */
#ifndef TESS_LAUNCH_WATCHDOG_WATCHDOG_H
#define TESS_LAUNCH_WATCHDOG_WATCHDOG_H

#include <sys/types.h>

#include "job/job_memory.h"

typedef struct tess_watchdog tess_watchdog;

typedef struct tess_watchdog_options {
    double soft_s;     /* whoever keeps others waiting for longer is told of; 0: nobody is, but ends are looked into */
    double timeout_s;  /* deadline of a collective in training, 0: not known */
    bool waits_on;     /* ranks do not give up then: a notice says so */
    const pid_t *pids; /* (world) of this host's ranks, for those that have not joined; NULL: not known */
    void (*notice)(void *self, const char *line); /* hears a line without its end; NULL: nobody does */
    void *self;
} tess_watchdog_options;

/* `job` is borrowed; its rows of this host are what is watched. Destroy nulls the handle. A job goes on without a
 * watchdog that could not be made: the calls below do nothing with NULL. */
tess_status tess_watchdog_create(tess_mem *mem, const tess_job *job, const tess_watchdog_options *options,
                                 tess_watchdog **watchdog);
void tess_watchdog_destroy(tess_watchdog **watchdog);

/* To be called some 20 times a second. Never waits. */
void tess_watchdog_look(tess_watchdog *watchdog);

/* The process `pid` of `rank` has ended with what waitpid gave. `asked`: it was told to. The board then says how, an
 * OOM kill among it (for that the system may take some looks more). */
void tess_watchdog_ended(tess_watchdog *watchdog, int rank, int pid, int wait_status, bool asked);

/* Once all is over: what is still open is settled, within some 50 ms. */
void tess_watchdog_settle(tess_watchdog *watchdog);

#endif
