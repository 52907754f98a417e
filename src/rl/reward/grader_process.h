/* The user's process that grades, and all processes that it starts.
 *
 * It leads its own session, so it has no terminal, and its group can be killed with one signal, which stops even a
 * fork bomb. A descendant that has left the group is found by its parents, or by a mark in its environment. A
 * descendant that has lost its parents and cleared its environment escapes, unless the grader runs in a sandbox, in
 * which all processes end with the first one. */
#ifndef TESS_RL_REWARD_GRADER_PROCESS_H
#define TESS_RL_REWARD_GRADER_PROCESS_H

#include <sys/types.h>

#include "base/mem/scoped.h"
#include "rl/reward/reward.h"

enum { GRADER_MARK = 64 };

typedef struct grader_limits {
    uint64_t memory_bytes, file_bytes, cpu_s, processes; /* cpu_s 0: none */
} grader_limits;

/* The command that starts a grader process. */
typedef struct grader_command {
    tess_scope *scope;
    char program[TESS_TEXT_SIZE]; /* path */
    char **argv;                  /* arguments and their texts, in one block of `scope` */
    char **environment;           /* the same for variables, with room for one more variable and NULL */
    int n_variables, n_plain;     /* n_plain: number of the first variables, which hold no secrets */
    grader_limits limits;
    bool sandboxed, changes_user;
    uid_t user; /* user of the processes */
    gid_t group;
} grader_command;

typedef struct grader_process {
    pid_t pid;        /* 0: none */
    int in, out, err; /* our non-blocking ends of its standard streams; -1: closed */
    char mark[GRADER_MARK];
} grader_process;

/* Limits, user, variables and sandbox are those of `options`, which are complete. TESS_E_NOT_FOUND: argv's program, the
 * user, or a path of reward.readable. TESS_E_UNSUPPORTED: no bwrap, another sandbox. TESS_E_INVALID: a variable is not
 * set, the user cannot be taken, or root would run in the sandbox. */
tess_status grader_command_create(tess_scope *scope, const tess_text_list *argv, const tess_reward_options *options,
                                  grader_command *command);
/* Removes the values of the variables of reward.env from a text that the grader has written. */
void grader_command_redact(const grader_command *command, char *text);
/* Does the same for the newest error message, which quotes an answer. Returns `status`. */
tess_status grader_command_hide(const grader_command *command, tess_status status);

/* Starts a process. TESS_E_IO: the system cannot create a process, or the program cannot be run. */
tess_status grader_process_start(const grader_command *command, grader_process *process);

/* Whether the process has ended. Other processes may still hold its streams. */
bool grader_process_has_ended(const grader_process *process);

/* Kills the process and all processes that it has started, reaps it, and closes the streams. *state is its exit
 * status as wait(2) returns it. Takes a few seconds at most, unless a process is stuck in the kernel. */
void grader_process_end(grader_process *process, int *state);

#endif
