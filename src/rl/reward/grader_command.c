/* What is run: the user's argv, or that in bubblewrap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "rl/reward/grader_process.h"

/* Nothing can be written but an empty /tmp; no network; processes, users and IPC are the sandbox's own; it ends with
 * us. In a user namespace of its own, a limit on processes counts the sandbox's alone: prlimit sets it inside. */
static const char *const bwrap[] = {"/usr/bin/bwrap",
                                    "--unshare-all",
                                    "--die-with-parent",
                                    "--ro-bind",
                                    "/",
                                    "/",
                                    "--tmpfs",
                                    "/tmp",
                                    "--proc",
                                    "/proc",
                                    "--dev",
                                    "/dev",
                                    "--"};
enum { N_BWRAP = sizeof(bwrap) / sizeof(bwrap[0]) };
static const char prlimit_path[] = "/usr/bin/prlimit";

/* The file that execvp(3) would run. */
static tess_status find_program(const char *name, char *path, size_t size)
{
    const char *folders = getenv("PATH");
    if (strchr(name, '/') != NULL) {
        snprintf(path, size, "%s", name);
        TESS_CHECK(tess_os_is_file(path) && access(path, X_OK) == 0, TESS_E_NOT_FOUND,
                   "reward.command: '%s' is no program that can be run", name);
        return TESS_OK;
    }
    for (const char *at = folders != NULL ? folders : "/bin:/usr/bin"; *at != '\0';) {
        size_t n = strcspn(at, ":");
        int length = snprintf(path, size, "%.*s/%s", (int)n, n > 0 ? at : ".", name);
        if (length > 0 && (size_t)length < size && tess_os_is_file(path) && access(path, X_OK) == 0)
            return TESS_OK;
        at += n + (at[n] == ':');
    }
    return TESS_FAIL(TESS_E_NOT_FOUND, "reward.command: there is no program '%s' in PATH", name);
}

static tess_status check_sandbox(const char *sandbox)
{
    TESS_CHECK(strcmp(sandbox, "bwrap") == 0, TESS_E_UNSUPPORTED,
               "reward.sandbox: '%s' is unknown: it is bwrap, or empty", sandbox);
    TESS_CHECK(access(bwrap[0], X_OK) == 0, TESS_E_UNSUPPORTED,
               "reward.sandbox: there is no %s: install the package bubblewrap", bwrap[0]);
    TESS_CHECK(access(prlimit_path, X_OK) == 0, TESS_E_UNSUPPORTED,
               "reward.sandbox: there is no %s: install the package util-linux", prlimit_path);
    return TESS_OK;
}

static void add(grader_command *command, int *n, char **text, const char *word)
{
    command->argv[(*n)++] = *text;
    *text = stpcpy(*text, word) + 1;
}

tess_status grader_command_create(tess_mem *mem, const tess_text_list *argv, const tess_reward_options *o,
                                  grader_command *command)
{
    const grader_limits limits = {.memory_bytes = (uint64_t)o->max_memory_bytes,
                                  .file_bytes = (uint64_t)o->max_file_bytes,
                                  .cpu_s = (uint64_t)o->max_cpu_s,
                                  .processes = (uint64_t)o->max_processes};
    *command = (grader_command){.mem = mem, .limits = limits, .sandboxed = o->sandbox[0] != '\0'};
    TESS_TRY(find_program(argv->item[0], command->program, sizeof(command->program)));
    if (command->sandboxed)
        TESS_TRY(check_sandbox(o->sandbox));
    enum { MOST_WORDS = TESS_LIST_SIZE + N_BWRAP + 3 };
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, MOST_WORDS * (sizeof(char *) + TESS_TEXT_SIZE), "a grader's command",
                            (void **)&command->argv));
    char *text = (char *)(command->argv + MOST_WORDS), limit[48];
    int n = 0;
    for (int i = 0; command->sandboxed && i < N_BWRAP; i++)
        add(command, &n, &text, bwrap[i]);
    if (command->sandboxed) {
        snprintf(limit, sizeof(limit), "--nproc=%llu", (unsigned long long)limits.processes);
        add(command, &n, &text, prlimit_path);
        add(command, &n, &text, limit);
        add(command, &n, &text, command->program);
        snprintf(command->program, sizeof(command->program), "%s", bwrap[0]);
    }
    for (int i = command->sandboxed ? 1 : 0; i < argv->n; i++)
        add(command, &n, &text, argv->item[i]);
    return TESS_OK;
}

void grader_command_free(grader_command *command)
{
    tess_mem_free(command->mem, command->argv);
    command->argv = NULL;
}
