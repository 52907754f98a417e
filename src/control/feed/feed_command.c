#include "control/feed/feed_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"

enum { NO_SUCH_PROGRAM = 127, LOWER = 10, MOST_LOGGED = 1 << 20, MOST_READS = 32 };

_Noreturn static void become(char *const *argv, int in, int out, const tess_os_variable *variables, int n)
{
    sigset_t none;
    setpgid(0, 0); /* a terminal's ctrl-C is for the ranks: the program then gets the lines of the last step, too */
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    for (int i = 0; i < n; i++)
        setenv(variables[i].name, variables[i].value, 1);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (nice(LOWER) == -1) /* the ranks need the cores more; it is the default priority if that fails */
        errno = 0;
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(NO_SUCH_PROGRAM);
}

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static bool make_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) == 0;
}

tess_status feed_command_start(char *const *argv, const tess_os_variable *variables, int n, const char *log,
                               feed_command *command)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    tess_status status = TESS_OK;
    *command = (feed_command){.in = -1, .out = -1, .log = -1};
    if (!make_pipe(in) || !make_pipe(out))
        status = tess_os_error("make a pipe for", argv[0]);
    pid_t pid = status == TESS_OK ? fork() : -1;
    if (pid == 0)
        become(argv, in[0], out[1], variables, n);
    if (status == TESS_OK && pid < 0)
        status = tess_os_error("fork for", argv[0]);
    tess_os_close(&in[0]);
    tess_os_close(&out[1]);
    if (status != TESS_OK) {
        tess_os_close(&in[1]);
        tess_os_close(&out[0]);
        return status;
    }
    setpgid(pid, pid); /* both processes call it, so that the group exists before it can be killed */
    set_nonblocking(in[1]);
    set_nonblocking(out[0]);
    *command = (feed_command){.pid = pid,
                              .in = in[1],
                              .out = out[0],
                              .log = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666)};
    return TESS_OK;
}

size_t feed_command_write(feed_command *command, const char *data, size_t size)
{
    ssize_t n = command->in >= 0 && size > 0 ? write(command->in, data, size) : 0;
    if (n < 0 && errno == EPIPE)
        tess_os_close(&command->in);
    return n > 0 ? (size_t)n : 0;
}

/* Keeps the end of what was printed. */
static void remember(feed_command *command, const char *data, size_t n)
{
    const size_t room = sizeof(command->last);
    const size_t taken = n < room ? n : room, kept = command->n_last < room - taken ? command->n_last : room - taken;
    memmove(command->last, command->last + command->n_last - kept, kept);
    memcpy(command->last + kept, data + n - taken, taken);
    command->n_last = kept + taken;
}

void feed_command_listen(feed_command *command)
{
    char data[4096];
    ssize_t n;
    /* a program that never stops printing must not keep the caller here; the reads empty a full pipe of 64 KiB */
    for (int i = 0; i < MOST_READS && command->out >= 0 && (n = read(command->out, data, sizeof(data))) >= 0; i++) {
        if (n == 0)
            tess_os_close(&command->out); /* else poll would not wait */
        remember(command, data, (size_t)n);
        if (command->log >= 0 && command->n_logged + (size_t)n <= MOST_LOGGED &&
            write(command->log, data, (size_t)n) == n)
            command->n_logged += (size_t)n;
    }
}

void feed_command_close(feed_command *command)
{
    tess_os_close(&command->in);
}

/* Returns the last line that is not empty, without control characters. It is written to `line`. */
static const char *last_line(const feed_command *command, char line[FEED_WORDS + 1])
{
    size_t end = command->n_last, n = 0;
    while (end > 0 && (unsigned char)command->last[end - 1] <= ' ')
        end--;
    size_t begin = end;
    while (begin > 0 && command->last[begin - 1] != '\n')
        begin--;
    for (size_t i = begin; i < end; i++)
        line[n++] = (unsigned char)command->last[i] < ' ' || command->last[i] == 0x7f ? '?' : command->last[i];
    line[n] = '\0';
    return line;
}

bool feed_command_ended(feed_command *command, char *how, size_t size, bool *failed)
{
    int state;
    char line[FEED_WORDS + 1];
    if (command->pid == 0 || waitpid(command->pid, &state, WNOHANG) != command->pid)
        return false;
    feed_command_listen(command);
    const char *said = last_line(command, line);
    snprintf(how, size, "ended with %s %d%s%s%s", WIFEXITED(state) ? "exit code" : "signal",
             WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state), said[0] != '\0' ? "; its last words: '" : "",
             said, said[0] != '\0' ? "'" : "");
    *failed = !WIFEXITED(state) || WEXITSTATUS(state) != 0;
    command->pid = 0;
    tess_os_close(&command->in);
    tess_os_close(&command->out);
    tess_os_close(&command->log);
    return true;
}

void feed_command_kill(const feed_command *command, int signal)
{
    if (command->pid > 0)
        kill(-command->pid, signal);
}

tess_status feed_command_find(const char *name)
{
    char path[4096];
    const char *folders = strchr(name, '/') != NULL ? "" : tess_variable_value(TESS_VAR_PATH);
    for (const char *at = folders; at != NULL;) {
        const char *end = strchrnul(at, ':');
        snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "", name);
        if (tess_os_is_file(path) && access(path, X_OK) == 0)
            return TESS_OK;
        at = *end == ':' ? end + 1 : NULL;
    }
    return TESS_FAIL(TESS_E_NOT_FOUND, "there is no program '%s' that can be run", name);
}
