/* Takes the stack of another process, with names and lines.
 *
 * A short-lived child process takes the stack. So the caller neither waits nor becomes a tracer, and nothing in the
 * target can harm it. The target is stopped for some milliseconds, at most TESS_STACK_HOLD_MS. A system call that it
 * sleeps in restarts, except that epoll_wait and a few others return EINTR. The child needs the right to trace: the
 * same user and, if kernel.yama.ptrace_scope is 1, an ancestor of the target or its tess_os_allow_reading. */
#ifndef TESS_BASE_OS_STACK_H
#define TESS_BASE_OS_STACK_H

#include "tessera/types.h"

enum {
    TESS_STACK_FRAMES = 40,
    TESS_STACK_LINE_BYTES = 96,
    TESS_STACK_HOLD_MS = 300,  /* longest time that the thread is held */
    TESS_STACK_LIMIT_MS = 2000 /* longest time until the result: reading the names of a large program takes time */
};

typedef struct tess_stack {
    int n_lines;
    char lines[TESS_STACK_FRAMES][TESS_STACK_LINE_BYTES]; /* innermost first: "spin (user.c:12)", "read (libc.so.6)" */
    int first_own;    /* index of the first line outside of the C library; n_lines: there is none */
    char reason[128]; /* why there are no lines, "" */
    double seconds;   /* time that the probe took */
} tess_stack;

typedef struct tess_stack_probe {
    int pid;   /* the probing process; 0: it is not running */
    int error; /* errno of the call that could not start it */
    int fd;
    uint64_t begin_ns;
    size_t n_bytes;
    char bytes[TESS_STACK_FRAMES * TESS_STACK_LINE_BYTES + 256];
} tess_stack_probe;

/* Starts to take the stack of thread `tid` of process `pid`. The main thread has the number of the process. */
void tess_stack_begin(tess_stack_probe *probe, int pid, int tid);
/* True: the probe has ended, and *stack holds the stack or the reason why it has no lines. Does not wait. */
bool tess_stack_poll(tess_stack_probe *probe, tess_stack *stack);
/* Stops a running probe. */
void tess_stack_cancel(tess_stack_probe *probe);

/* Takes the stack and waits for it. */
void tess_stack_take(int pid, int tid, tess_stack *stack);

#endif
