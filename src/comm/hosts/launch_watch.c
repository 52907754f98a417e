#include "comm/hosts/launch_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/child.h"

/* A ctrl-C of the terminal must not reach mpirun itself: Open MPI answers it with SIGTERM to the ranks, SIGKILL one
 * second later, and by then forwards no output, so that a rank that says something stands still. So it runs in a group
 * of its own, without the terminal's input. */
_Noreturn static void become(const tess_launch_line *line, const tess_child_signals *signals, pid_t parent,
                             int report_fd)
{
    tess_child_begin(signals, parent);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    tess_child_exec(line->words, report_fd);
}

/* What makes mpirun tell all guards to stop: Open MPI passes SIGUSR2 on and does nothing else; hydra passes SIGINT on
 * and waits. */
static int polite_signal(tess_mpi mpi)
{
    return mpi == TESS_MPI_OPEN_MPI ? SIGUSR2 : SIGINT;
}

static int watch(pid_t mpirun, tess_mpi mpi, const tess_child_signals *signals)
{
    int state, n_stops = 0;
    while (waitpid(mpirun, &state, WNOHANG) != mpirun) {
        int signal = sigwaitinfo(&signals->watched, NULL);
        if (signal == SIGUSR1)
            kill(mpirun, SIGUSR1);
        else if (signal == SIGINT || signal == SIGTERM || signal == SIGUSR2)
            kill(mpirun, n_stops++ == 0 ? polite_signal(mpi) : SIGTERM);
    }
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

tess_status tess_launch_line_run(const tess_launch_line *line, tess_mpi mpi, int *exit_code)
{
    tess_child_signals signals;
    int report[2];
    pid_t parent = getpid();
    TESS_CHECK(pipe2(report, O_CLOEXEC) == 0, TESS_E_IO, "pipe: %s", strerror(errno));
    tess_child_block_signals(&signals);
    pid_t pid = fork();
    if (pid == 0)
        become(line, &signals, parent, report[1]);
    int reason = errno;
    close(report[1]);
    tess_status status =
        pid > 0 ? tess_child_started(line->words[0], report[0]) : TESS_FAIL(TESS_E_NOMEM, "fork: %s", strerror(reason));
    close(report[0]);
    if (pid > 0)
        *exit_code = watch(pid, mpi, &signals);
    tess_child_restore_signals(&signals);
    return status;
}
