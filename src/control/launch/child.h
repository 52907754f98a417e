/* Starts a rank as a child process, and sets up the signals that its parent waits for. Used by the launcher, which
 * has all ranks of a job, and by the warden, which has one. */
#ifndef TESS_CONTROL_LAUNCH_CHILD_H
#define TESS_CONTROL_LAUNCH_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tessera/status.h"

/* The signal handling of this process before it became a parent of ranks. */
typedef struct tess_child_signals {
    /* signals that are blocked while the parent waits for them: SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2 and,
     * unless it is ignored (nohup), SIGHUP */
    sigset_t watched;
    sigset_t old_mask;
    struct sigaction old_child, old_pipe;
} tess_child_signals;

/* Returns the signal that a request to stop counts as: SIGINT for SIGINT and SIGUSR2, SIGTERM for all others. */
int tess_stop_signal_of(int signal);
struct tess_job_row; /* job/job_memory.h */
/* Returns the signal that asks a joined rank to stop if the job was asked by `stop_signal`. Returns 0 if the rank
 * needs none: it looks for requests (heeds_stop: all ranks do), or it handles SIGINT itself and got it from the
 * terminal. */
int tess_stop_signal_for(const struct tess_job_row *row, int stop_signal, bool heeds_stop, bool from_terminal);
/* Whether a rank that ended with `code` did so at a request that counts as `stop_signal` (0: there was none). The
 * end of a terminal also sends SIGHUP to ranks; it kills those that have not joined yet. */
bool tess_stop_ended(int code, int stop_signal);

/* Blocks the signals in `watched` and stores the previous handling. Also ignores SIGPIPE: a parent whose standard
 * error is closed must still look after its ranks. */
void tess_child_block_signals(tess_child_signals *signals);
void tess_child_restore_signals(const tess_child_signals *signals);

/* Called in the child, after fork. Restores the parent's original signal handling, and makes the child die with its
 * parent. */
void tess_child_begin(const tess_child_signals *signals, pid_t parent);
/* Executes `program` with argv (NULL: argv[0], searched in PATH). After a failure, writes errno to report_fd, which
 * is closed on exec, and exits with code 127. */
_Noreturn void tess_child_exec(const char *program, char *const *argv, int report_fd);
/* Called in the parent, which has closed its own copies of the pipe's other end. Waits until the programs of all
 * children have started. TESS_E_NOT_FOUND, TESS_E_IO: a program could not be started. */
tess_status tess_child_started(const char *program, int report_fd);

#endif
