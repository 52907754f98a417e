/* Starts a rank as a child process, and sets up the signals that its parent waits for. For the launcher, which has all
 * ranks of a job, and the warden, which has one. */
#ifndef TESS_CONTROL_LAUNCH_CHILD_H
#define TESS_CONTROL_LAUNCH_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tessera/status.h"

/* The signal handling of this process before it became a parent. */
typedef struct tess_child_signals {
    /* SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2 and, unless it is ignored (nohup), SIGHUP: blocked while the parent
     * waits for them. */
    sigset_t watched;
    sigset_t old_mask;
    struct sigaction old_child, old_pipe;
} tess_child_signals;

/* The signal that a request to stop by `signal` counts as: SIGINT for SIGINT and SIGUSR2, SIGTERM for all others. */
int tess_stop_signal_of(int signal);
struct tess_job_row; /* job/job_memory.h */
/* The signal that asks a joined rank to stop when the job was asked by `stop_signal`; 0: none, because it looks for
 * requests (heeds_stop: they all do), or because it handles SIGINT itself and got it from the terminal. */
int tess_stop_signal_for(const struct tess_job_row *row, int stop_signal, bool heeds_stop, bool from_terminal);
/* True when a rank that ended with `code` did so at a request that counts as `stop_signal` (0: there was none). The end
 * of a terminal sends SIGHUP to ranks, too; it kills those that have not joined yet. */
bool tess_stop_ended(int code, int stop_signal);

/* Also ignores SIGPIPE: a parent whose standard error is closed must still look after its ranks. */
void tess_child_block_signals(tess_child_signals *signals);
void tess_child_restore_signals(const tess_child_signals *signals);

/* Called in the child, after fork. Restores the parent's original signal handling, and lets the child die with its
 * parent. */
void tess_child_begin(const tess_child_signals *signals, pid_t parent);
/* Executes `program` as argv[0] (NULL: argv[0] itself; searched in PATH). On failure writes errno to report_fd, which
 * is closed on exec, and exits with code 127. */
_Noreturn void tess_child_exec(const char *program, char *const *argv, int report_fd);
/* Called in the parent, which has closed its own copies of the pipe's other end. Waits until the programs of all
 * children have started. TESS_E_NOT_FOUND, TESS_E_IO: one could not be started. */
tess_status tess_child_started(const char *program, int report_fd);

#endif
