#include "control/launch/mpirun/launch_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/sockets.h"
#include "control/launch/mpirun/launch_line.h"

enum { AGENT_WORDS = 16, AGENT_TEXT = 4096 };

/* ---- The child ---- */
/* Moves the child to its own session. So nothing can prompt on the terminal, and all its processes can be ended
 * together. ssh without a terminal would open a window for a password; this is disabled, too. */
static void stand_apart(void)
{
    sigset_t none;
    int nothing = open("/dev/null", O_RDWR);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("SSH_ASKPASS_REQUIRE", "never", 1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && nothing >= 0; fd++)
        dup2(nothing, fd);
}

/* Executes the question. `agent` may have arguments: "ssh -p 2222". */
_Noreturn static void ask(const char *agent, const char *host, char *command)
{
    char text[AGENT_TEXT], *words[AGENT_WORDS + 3], *save;
    int n = 0;
    stand_apart();
    if (tess_os_is_own_name(host))
        _exit(0);
    snprintf(text, sizeof(text), "%s", agent);
    for (char *word = strtok_r(text, " ", &save); word != NULL && n < AGENT_WORDS; word = strtok_r(NULL, " ", &save))
        words[n++] = word;
    words[n++] = (char *)host;
    words[n++] = command;
    words[n] = NULL;
    execvp(words[0], words);
    _exit(127);
}

/* ---- The parent ---- */
/* Starts the child. A shell on the host parses the command. */
static tess_status start(const char *agent, const char *host, const char *program, tess_buffer *command, pid_t *pid)
{
    TESS_TRY(tess_launch_words_quote((char *[]){(char *)program, (char *)"--version"}, 2, command));
    fflush(NULL); /* otherwise the child would write our buffers again */
    *pid = fork();
    if (*pid == 0)
        ask(agent != NULL && agent[0] != '\0' ? agent : "ssh", host, command->data);
    TESS_CHECK(*pid > 0, TESS_E_NOMEM, "ask host %s whether it is there: fork: %s", host, strerror(errno));
    return TESS_OK;
}

tess_status tess_launch_probe_begin(tess_launch_probe *probe, const char *agent, const char *host, const char *program,
                                    double now_s)
{
    tess_mem *mem = NULL;
    pid_t pid = 0;
    TESS_TRY(tess_mem_create(&mem));
    tess_buffer command = {.mem = mem};
    tess_status status = start(agent, host, program, &command, &pid);
    tess_buffer_free(&command);
    tess_mem_destroy(&mem);
    TESS_TRY(status);
    *probe = (tess_launch_probe){.pid = pid, .until_s = now_s + LAUNCH_PROBE_S};
    return TESS_OK;
}

tess_probe_state tess_launch_probe_look(tess_launch_probe *probe, double now_s)
{
    int state;
    pid_t pid = waitpid(probe->pid, &state, WNOHANG);
    if (pid == 0 && now_s < probe->until_s)
        return TESS_PROBE_RUNS;
    bool answered = pid == probe->pid && WIFEXITED(state) && WEXITSTATUS(state) == 0;
    if (pid == 0)
        tess_launch_probe_end(probe);
    probe->pid = 0;
    return answered ? TESS_PROBE_ANSWERED : TESS_PROBE_SILENT;
}

void tess_launch_probe_end(tess_launch_probe *probe)
{
    if (probe->pid == 0)
        return;
    kill(-probe->pid, SIGKILL); /* kills its session, once it has one */
    kill(probe->pid, SIGKILL);
    while (waitpid(probe->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    probe->pid = 0;
}
