/* Jobs as children of the driver: a launcher whose stderr is a pipe, in a process group of its own. */
#include "drills/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void become(const char *folder, const char *fault, char *const *words, int output)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0);
    dup2(null, 1);
    dup2(output, 2);
    if (fault != NULL)
        setenv("TESSERA_FAULT", fault, 1);
    if (chdir(folder) == 0)
        execv(words[0], words);
    _exit(127);
}

bool drill_spawn(const char *folder, const char *fault, char *const *words, drill_child *child)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    child->launcher = fork();
    if (child->launcher == 0)
        become(folder, fault, words, ends[1]);
    close(ends[1]);
    child->output = ends[0];
    if (child->launcher > 0)
        return true;
    close(ends[0]);
    return false;
}

bool drill_spawn_ranks(const char *tessera, int world, const char *folder, const char *fault, const char *mode,
                       const char *argument, drill_child *child)
{
    char self[4096], number[16];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(number, sizeof(number), "%d", world);
    const char *words[] = {tessera, "run", "-n", number,   "--grace",         "0.3", "--trace", "trace",
                           "--",    self,  mode, argument, (const char *)NULL};
    return drill_spawn(folder, fault, (char *const *)(uintptr_t)words, child);
}

int drill_reap(drill_child *child)
{
    int state = 0;
    if (child->launcher > 1)
        kill(-child->launcher, SIGKILL);
    waitpid(child->launcher, &state, 0);
    close(child->output);
    return state;
}
