#include "base/os/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"

enum { NO_SUCH_PROGRAM = 127 };

_Noreturn static void become(char *const *argv, int out)
{
    sigset_t none;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execvp(argv[0], argv);
    _exit(NO_SUCH_PROGRAM);
}

/* Until it closes its end. False: that was too late. */
static bool read_all(int fd, double until, char *out, size_t size)
{
    char beyond[4096];
    size_t at = 0;
    for (double left; (left = until - tess_os_now_s()) > 0;) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        if (poll(&wanted, 1, 1 + (int)(left * 1e3)) <= 0)
            continue;
        bool room = at + 1 < size;
        ssize_t n = read(fd, room ? out + at : beyond, room ? size - 1 - at : sizeof(beyond));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += room ? (size_t)n : 0;
        out[at] = '\0';
    }
    return tess_os_now_s() < until;
}

static bool ends_before(pid_t pid, double until, int *state)
{
    while (waitpid(pid, state, WNOHANG) != pid) {
        if (tess_os_now_s() > until)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

tess_status tess_os_capture(char *const *argv, double timeout_s, char *out, size_t size)
{
    int ends[2], state = 0;
    double until = tess_os_now_s() + timeout_s;
    out[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tess_os_error("pipe for", argv[0]);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(argv, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return tess_os_error("fork for", argv[0]);
    }
    bool ended = read_all(ends[0], until, out, size) && ends_before(pid, until, &state);
    close(ends[0]);
    if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, &state, 0);
        return TESS_FAIL(TESS_E_TIMEOUT, "%s printed nothing more for %.3g s and was killed", argv[0], timeout_s);
    }
    TESS_CHECK(!WIFEXITED(state) || WEXITSTATUS(state) != NO_SUCH_PROGRAM, TESS_E_NOT_FOUND, "%s: no such program",
               argv[0]);
    TESS_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0, TESS_E_IO, "%s ended with %s %d", argv[0],
               WIFEXITED(state) ? "code" : "signal", WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
    return TESS_OK;
}
