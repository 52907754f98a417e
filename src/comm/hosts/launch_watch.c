#include "comm/hosts/launch_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/child.h"

enum {
    MPIRUN_DEPTH = 2,      /* hydra has a process between itself and the ranks */
    MOST_LOOKS_ALONE = 10, /* seconds that mpirun may stay when its ranks here have ended */
};

typedef struct launched {
    pid_t mpirun;
    bool had_guards;
    int n_alone; /* looks in a row at which there was none any more */
} launched;

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

/* Processes of this program below `pid`: the guards of ranks on this host. */
static int count_guards(pid_t pid, int depth)
{
    char path[64];
    int n = 0, child;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1) {
        snprintf(path, sizeof(path), "/proc/%d/exe", child);
        if (tess_os_same_file(path, "/proc/self/exe"))
            n++;
        else if (depth > 0)
            n += count_guards(child, depth - 1);
    }
    if (file != NULL)
        fclose(file);
    return n;
}

/* Ranks whose link was cut end at their deadline, but mpirun stays, as long as it takes the system to give up what was
 * to be said to the other host. */
static void end_if_alone(launched *l)
{
    bool guards = count_guards(l->mpirun, MPIRUN_DEPTH) > 0;
    l->n_alone = l->had_guards && !guards ? l->n_alone + 1 : 0;
    l->had_guards = l->had_guards || guards;
    if (l->n_alone == MOST_LOOKS_ALONE || l->n_alone == 2 * MOST_LOOKS_ALONE)
        kill(-l->mpirun, l->n_alone == MOST_LOOKS_ALONE ? SIGTERM : SIGKILL);
}

static int watch(pid_t mpirun, tess_mpi mpi, const tess_child_signals *signals)
{
    launched l = {.mpirun = mpirun};
    int state, n_stops = 0;
    while (waitpid(mpirun, &state, WNOHANG) != mpirun) {
        int signal = sigtimedwait(&signals->watched, NULL, &(struct timespec){.tv_sec = 1});
        if (signal < 0)
            end_if_alone(&l);
        if (signal == SIGUSR1)
            kill(mpirun, SIGUSR1);
        else if (signal == SIGINT || signal == SIGTERM || signal == SIGUSR2)
            kill(mpirun, n_stops++ == 0 ? polite_signal(mpi) : SIGTERM);
    }
    if (l.n_alone >= MOST_LOOKS_ALONE)
        return 1; /* how it ended is our doing */
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
