#include "control/helper.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "job/find.h"

enum { REQUEST = 5 }; /* the request is SIGRTMIN + 5 */

pid_t tess_helper_fork(const char *name, tess_helper *helper)
{
    sigset_t all, before;
    pid_t parent = getpid();
    fflush(NULL); /* otherwise the child would write our buffers again */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* a request that comes at once must not kill the child */
    pid_t pid = fork();
    if (pid != 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        return pid;
    }
    *helper = (tess_helper){.parent = parent};
    sigemptyset(&helper->heard);
    sigaddset(&helper->heard, SIGRTMIN + REQUEST);
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, name);
    tess_live_let_go();
    if (getppid() != parent)
        _exit(0);
    return 0;
}

void tess_helper_hear(tess_helper *helper, int signal)
{
    sigaddset(&helper->heard, signal);
}

int tess_helper_wait(const tess_helper *helper, double seconds, bool *ends)
{
    const time_t whole = (time_t)seconds;
    const struct timespec pause = {.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
    siginfo_t got;
    int signal = sigtimedwait(&helper->heard, &got, &pause);
    *ends = signal == SIGRTMIN + REQUEST && got.si_pid == helper->parent;
    return signal > 0 ? signal : 0;
}

void tess_helpers_end(const int *pids, int n, double patience_s)
{
    double until_s = tess_os_now_s() + patience_s;
    for (int i = 0; i < n; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGRTMIN + REQUEST);
    for (int i = 0; i < n; i++) {
        bool ended = pids[i] <= 0;
        while (!(ended = ended || waitpid(pids[i], NULL, WNOHANG) != 0) && tess_os_now_s() < until_s)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (!ended)
            kill(pids[i], SIGKILL); /* a process blocked on a dead disk ends when the disk comes back */
    }
}
