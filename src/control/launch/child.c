#include "control/launch/child.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "job/job_memory.h"

int tess_stop_signal_of(int signal)
{
    return signal == SIGINT || signal == SIGUSR2 ? SIGINT : SIGTERM;
}

int tess_stop_signal_for(const tess_job_row *row, int stop_signal, bool heeds_stop, bool from_terminal)
{
    uint32_t heeds = atomic_load(&row->heeds);
    if (heeds_stop || heeds == JOB_HEEDS_REQUESTS)
        return 0;
    if (stop_signal != SIGINT || heeds != JOB_HEEDS_INTERRUPTS)
        return SIGTERM;
    return from_terminal ? 0 : SIGINT;
}

bool tess_stop_ended(int code, int stop_signal)
{
    return stop_signal != 0 && (code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP);
}

void tess_child_block_signals(tess_child_signals *signals)
{
    struct sigaction plain = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN}, hangup;
    sigemptyset(&plain.sa_mask);
    sigemptyset(&ignored.sa_mask);
    sigemptyset(&signals->watched);
    sigaddset(&signals->watched, SIGCHLD);
    sigaddset(&signals->watched, SIGINT);
    sigaddset(&signals->watched, SIGTERM);
    sigaddset(&signals->watched, SIGUSR1);
    sigaddset(&signals->watched, SIGUSR2);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(&signals->watched, SIGHUP); /* a SIGHUP that is ignored would still arrive if it were blocked */
    sigaction(SIGCHLD, &plain, &signals->old_child); /* if SIGCHLD were ignored, there would be no child to wait for */
    sigaction(SIGPIPE, &ignored, &signals->old_pipe);
    pthread_sigmask(SIG_BLOCK, &signals->watched, &signals->old_mask);
}

void tess_child_restore_signals(const tess_child_signals *signals)
{
    pthread_sigmask(SIG_SETMASK, &signals->old_mask, NULL);
    sigaction(SIGCHLD, &signals->old_child, NULL);
    sigaction(SIGPIPE, &signals->old_pipe, NULL);
}

void tess_child_begin(const tess_child_signals *signals, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    tess_child_restore_signals(signals);
}

_Noreturn void tess_child_exec(const char *program, char *const *argv, int report_fd)
{
    execvp(program != NULL ? program : argv[0], argv);
    int reason = errno;
    (void)!write(report_fd, &reason, sizeof(reason));
    _exit(127);
}

tess_status tess_child_started(const char *program, int report_fd)
{
    int reason = 0;
    ssize_t got;
    do
        got = read(report_fd, &reason, sizeof(reason));
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(reason))
        return TESS_OK; /* the started program has closed the pipe */
    return TESS_FAIL(reason == ENOENT ? TESS_E_NOT_FOUND : TESS_E_IO, "start '%s': %s", program, strerror(reason));
}
