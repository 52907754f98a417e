#include "base/os/hook.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"

enum { NO_SUCH_PROGRAM = 127 };

_Noreturn static void become(char *const *argv, int in, const tess_os_variable *variables, int n)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    dup2(in, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    for (int i = 0; i < n; i++)
        setenv(variables[i].name, variables[i].value, 1);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* it may leave a process behind, which must not keep a lock of ours */
    execvp(argv[0], argv);
    _exit(NO_SUCH_PROGRAM);
}

static bool ends_within(pid_t pid, double timeout_s, int *state)
{
    for (double until = tess_os_now_s() + timeout_s; waitpid(pid, state, WNOHANG) != pid;) {
        if (tess_os_now_s() > until)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return true;
}

/* A pipe that holds `input` and then ends: short enough for the pipe to take all of it. */
static tess_status fill_pipe(const char *input, int *out)
{
    int ends[2];
    size_t size = strlen(input);
    TESS_CHECK(size < PIPE_BUF, TESS_E_INVALID, "%zu bytes are more than a pipe surely takes", size);
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
        become(argv, in, variables, n);
    close(in);
    if (pid < 0)
        return tess_os_error("fork for", argv[0]);
    if (!ends_within(pid, timeout_s, &state)) {
        kill(-pid, SIGKILL);
        waitpid(pid, &state, 0);
        return TESS_FAIL(TESS_E_TIMEOUT, "%s took longer than %.3g s and was killed", argv[0], timeout_s);
    }
    TESS_CHECK(!WIFEXITED(state) || WEXITSTATUS(state) != NO_SUCH_PROGRAM, TESS_E_NOT_FOUND, "%s: no such program",
               argv[0]);
    TESS_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0, TESS_E_IO, "%s ended with %s %d", argv[0],
               WIFEXITED(state) ? "code" : "signal", WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
    return TESS_OK;
}
