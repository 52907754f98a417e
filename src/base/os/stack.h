/* The stack of a process from outside, with names and lines.
 *
 * A short-lived process of ours does it, so that the caller neither waits nor becomes a tracer, and nothing in the
 * process looked at can harm it. That one is stopped for some milliseconds, at most TESS_STACK_HOLD_MS; a system call
 * that it sleeps in starts again (epoll_wait and few others return EINTR). It needs the right to trace: the same user,
 * and where kernel.yama.ptrace_scope is 1 an ancestor, or tess_os_allow_reading. */
#ifndef TESS_BASE_OS_STACK_H
#define TESS_BASE_OS_STACK_H

#include "tessera/types.h"

enum {
    TESS_STACK_FRAMES = 40,
    TESS_STACK_LINE_BYTES = 96,
    TESS_STACK_HOLD_MS = 300,  /* longest time that the thread is held */
    TESS_STACK_LIMIT_MS = 2000 /* longest time until there is an answer: names of a large program take time to read */
};

typedef struct tess_stack {
    int n_lines;
    char lines[TESS_STACK_FRAMES][TESS_STACK_LINE_BYTES]; /* innermost first: "spin (user.c:12)", "read (libc.so.6)" */
    int first_own;    /* the first that does not lie in the C library; n_lines: all do */
    char reason[128]; /* why there are none, "" */
    double seconds;   /* until they were here */
} tess_stack;

typedef struct tess_stack_probe {
    int pid; /* of the process that looks, 0: none is under way */
    int fd;
    uint64_t begin_ns;
    size_t n_bytes;
    char bytes[TESS_STACK_FRAMES * TESS_STACK_LINE_BYTES + 256];
} tess_stack_probe;

/* Begins to look at thread `tid` of process `pid` (its main thread has the number of the process). */
void tess_stack_begin(tess_stack_probe *probe, int pid, int tid);
/* True when it is done: then the stack, or the reason why there is none, is in *stack. Does not wait. */
bool tess_stack_poll(tess_stack_probe *probe, tess_stack *stack);
/* Gives up one that is under way. */
void tess_stack_cancel(tess_stack_probe *probe);

/* All at once: waits for it. */
void tess_stack_take(int pid, int tid, tess_stack *stack);

#endif
