#include "support/single_step.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

enum { EXIT_UNTRACED = 77 };

static _Noreturn void be_traced(const single_step *run)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(EXIT_UNTRACED);
    raise(SIGSTOP);
    run->body(run->context);
    _exit(0);
}

static void copy_areas(const single_step *run, uint8_t *copy, bool back)
{
    for (int a = 0; a < SINGLE_STEP_AREAS; copy += run->areas[a++].bytes)
        if (run->areas[a].bytes > 0)
            memcpy(back ? run->areas[a].address : copy, back ? copy : run->areas[a].address, run->areas[a].bytes);
}

static bool changed(const single_step *run, const uint8_t *copy)
{
    for (int a = 0; a < SINGLE_STEP_AREAS; copy += run->areas[a++].bytes)
        if (run->areas[a].bytes > 0 && memcmp(run->areas[a].address, copy, run->areas[a].bytes) != 0)
            return true;
    return false;
}

static long follow(const single_step *run, int pid, uint8_t *copy)
{
    int state;
    long n = 0;
    copy_areas(run, copy, false);
    for (; run->most == 0 || n < run->most; n++) {
        EXPECT_INT(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        EXPECT_INT(waitpid(pid, &state, 0), pid);
        if (!WIFSTOPPED(state)) {
            EXPECT_INT(state, 0);
            return n;
        }
        EXPECT_INT(WSTOPSIG(state), SIGTRAP);
        if (run->look == NULL || !changed(run, copy))
            continue;
        copy_areas(run, copy, false);
        run->look(run->context);
        copy_areas(run, copy, true);
    }
    kill(pid, SIGKILL);
    EXPECT_INT(waitpid(pid, &state, 0), pid);
    return n;
}

long single_step_run(const single_step *run)
{
    size_t bytes = 1;
    int state, pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0)
        be_traced(run);
    EXPECT_INT(waitpid(pid, &state, 0), pid);
    if (WIFEXITED(state) && WEXITSTATUS(state) == EXIT_UNTRACED)
        return -1;
    EXPECT(WIFSTOPPED(state));
    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_EXITKILL);
    for (int a = 0; a < SINGLE_STEP_AREAS; a++)
        bytes += run->areas[a].bytes;
    uint8_t *copy = malloc(bytes);
    EXPECT(copy != NULL);
    long n = follow(run, pid, copy);
    free(copy);
    return n;
}
