/* Processes that help a job from its side: they watch its health, or copy its checkpoints. They end with their parent,
 * and ignore the signals that end a job, since every process of a job gets those. */
#ifndef TESS_CONTROL_HELPER_H
#define TESS_CONTROL_HELPER_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* The helper's side. */
typedef struct tess_helper {
    pid_t parent;
    sigset_t heard; /* the parent's request to end, and the signals that tess_helper_hear adds */
} tess_helper;

/* Forks. Returns 0 in the helper, whose process is called `name` (at most 15 characters); -1: no process. */
pid_t tess_helper_fork(const char *name, tess_helper *helper);
/* Makes tess_helper_wait return at this signal, too. */
void tess_helper_hear(tess_helper *helper, int signal);
/* Waits for `seconds` at most. Returns the signal that has come, or 0. *ends: the parent asks the helper to end. */
int tess_helper_wait(const tess_helper *helper, double seconds, bool *ends);

/* Called by the parent: asks helpers (n) to end, and waits for them. After patience_s they are killed. A pid of 0
 * stands for no process. The request is a real-time signal: a SIGTERM of a service manager that comes at the same time
 * cannot take its place. */
void tess_helpers_end(const int *pids, int n, double patience_s);

#endif
