#include "base/os/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"

enum { NO_SUCH_PROGRAM = 127, GRACE_S = 5 };

_Noreturn static void become(char *const *argv)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL); /* the default, because a job ignores SIGPIPE */
    execvp(argv[0], argv);
    _exit(NO_SUCH_PROGRAM);
}

static bool ends_before(pid_t pid, double until_s, int *state)
{
    while (waitpid(pid, state, WNOHANG) != pid) {
        if (tess_os_now_s() > until_s)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return true;
}

static tess_status check_exit(const char *name, int state)
{
    TESS_CHECK(!WIFEXITED(state) || WEXITSTATUS(state) != NO_SUCH_PROGRAM, TESS_E_NOT_FOUND, "%s: no such program",
               name);
    TESS_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0, TESS_E_IO, "%s ended with %s %d", name,
               WIFEXITED(state) ? "code" : "signal", WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
    return TESS_OK;
}

/* Kills a program that took too long, and its process group. If grace_s > 0, sends SIGTERM first and waits that long,
 * so that the program can end processes in other groups. */
static tess_status kill_late(pid_t pid, const char *name, double timeout_s, double grace_s)
{
    int state;
    if (grace_s > 0)
        kill(-pid, SIGTERM);
    bool ended = ends_before(pid, tess_os_now_s() + grace_s, &state);
    kill(-pid, SIGKILL);
    if (!ended)
        waitpid(pid, NULL, 0);
    return TESS_FAIL(TESS_E_TIMEOUT, "%s took longer than %.3g s and was killed", name, timeout_s);
}

/* ---- Its output ---- */
_Noreturn static void become_captured(char *const *argv, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* ends it with its parent: a terminal's ctrl-C does not reach its group */
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* a process that the program leaves behind must not hold our locks */
    become(argv);
}

/* Reads until the program closes its end of the pipe. False: it printed nothing for timeout_s. */
static bool read_all(int fd, double timeout_s, char *out, size_t size)
{
    char beyond[4096];
    size_t at = 0;
    for (double until_s = tess_os_now_s() + timeout_s, left; (left = until_s - tess_os_now_s()) > 0;) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        if (poll(&wanted, 1, 1 + (int)(left * 1e3)) <= 0)
            continue;
        bool room = at + 1 < size;
        ssize_t n = read(fd, room ? out + at : beyond, room ? size - 1 - at : sizeof(beyond));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return true;
        at += room ? (size_t)n : 0;
        out[at] = '\0';
        until_s = tess_os_now_s() + timeout_s;
    }
    return false;
}

tess_status tess_os_capture(char *const *argv, double timeout_s, char *out, size_t size)
{
    int ends[2], state = 0;
    out[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tess_os_error("pipe for", argv[0]);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_captured(argv, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        tess_status status = tess_os_error("fork for", argv[0]);
        close(ends[0]);
        return status;
    }
    setpgid(pid, pid); /* both processes call it, so that the group exists before anybody can kill it */
    bool ended = read_all(ends[0], timeout_s, out, size) && ends_before(pid, tess_os_now_s() + timeout_s, &state);
    close(ends[0]);
    return ended ? check_exit(argv[0], state) : kill_late(pid, argv[0], timeout_s, GRACE_S);
}

/* ---- A hook ---- */
_Noreturn static void become_hook(char *const *argv, int in, const tess_os_variable *variables, int n)
{
    setpgid(0, 0);
    dup2(in, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    for (int i = 0; i < n; i++)
        setenv(variables[i].name, variables[i].value, 1);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* a process that the hook leaves behind must not hold our locks */
    become(argv);
}

/* Makes a pipe that holds `input` and then ends; the input must fit into the pipe. */
static tess_status fill_pipe(const char *input, int *out)
{
    int ends[2];
    size_t size = strlen(input);
    TESS_CHECK(size < PIPE_BUF, TESS_E_INVALID, "%zu bytes do not fit into a pipe", size);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tess_os_error("make", "a pipe");
    tess_status status = tess_os_write_all(ends[1], input, size, "a pipe");
    close(ends[1]);
    if (status == TESS_OK)
        *out = ends[0];
    else
        close(ends[0]);
    return status;
}

tess_status tess_os_hook(char *const *argv, const char *input, const tess_os_variable *variables, int n,
                         double timeout_s)
{
    int in = -1, state = 0;
    TESS_TRY_CTX(fill_pipe(input, &in), "%s", argv[0]);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_hook(argv, in, variables, n);
    int failed = errno;
    close(in);
    errno = failed;
    if (pid < 0)
        return tess_os_error("fork for", argv[0]);
    setpgid(pid, pid);
    bool ended = ends_before(pid, tess_os_now_s() + timeout_s, &state);
    return ended ? check_exit(argv[0], state) : kill_late(pid, argv[0], timeout_s, 0);
}
