/* A rank as a child process: how it is started and what signals its parent takes for it. For the launcher, which has
 * all ranks of a job, and the guard, which has one. */
#ifndef TESS_LAUNCH_CHILD_H
#define TESS_LAUNCH_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "tessera/status.h"

/* How this process took signals before it became a parent. */
typedef struct tess_child_signals {
    sigset_t watched; /* SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2: blocked from now on, to be waited for */
    sigset_t old_mask;
    struct sigaction old_child;
} tess_child_signals;

void tess_child_block_signals(tess_child_signals *signals);
void tess_child_restore_signals(const tess_child_signals *signals);

/* In the child, after fork: takes signals as the parent once did, and never outlives it. */
void tess_child_begin(const tess_child_signals *signals, pid_t parent);
/* Becomes `program` as argv[0] (NULL: argv[0] itself; searched in PATH) or ends with code 127, its errno written to
 * report_fd, which is closed on exec. */
_Noreturn void tess_child_exec(const char *program, char *const *argv, int report_fd);
/* In the parent, which has closed its own copies of the pipe's other end: waits until the programs of all children have
 * started. TESS_E_NOT_FOUND, TESS_E_IO: one could not. */
tess_status tess_child_started(const char *program, int report_fd);

#endif
