/* Starts a rank as a child process, and sets up the signals that its parent waits for. For the launcher, which has all
 * ranks of a job, and the warden, which has one. */
#ifndef TESS_LAUNCH_CHILD_H
#define TESS_LAUNCH_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "tessera/status.h"

/* The signal handling of this process before it became a parent. */
typedef struct tess_child_signals {
    sigset_t watched; /* SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2: blocked while it waits for them */
    sigset_t old_mask;
    struct sigaction old_child;
} tess_child_signals;

void tess_child_block_signals(tess_child_signals *signals);
void tess_child_restore_signals(const tess_child_signals *signals);

/* In the child, after fork: restores the parent's original signal handling, and lets the child die with its parent. */
void tess_child_begin(const tess_child_signals *signals, pid_t parent);
/* Executes `program` as argv[0] (NULL: argv[0] itself; searched in PATH). On failure writes errno to report_fd, which
 * is closed on exec, and exits with code 127. */
_Noreturn void tess_child_exec(const char *program, char *const *argv, int report_fd);
/* In the parent, which has closed its own copies of the pipe's other end: waits until the programs of all children have
 * started. TESS_E_NOT_FOUND, TESS_E_IO: one could not be started. */
tess_status tess_child_started(const char *program, int report_fd);

#endif
