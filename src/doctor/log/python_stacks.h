/* Reads stacks of Python processes as `py-spy dump` prints them, for one process or for all ranks. */
#ifndef TESS_DOCTOR_LOG_PYTHON_STACKS_H
#define TESS_DOCTOR_LOG_PYTHON_STACKS_H

#include <stdbool.h>

#include "tessera/memory.h"

/* The main thread of a process, and where it is. */
typedef struct log_stack {
    int pid, rank;   /* rank -1: not known */
    bool waits;      /* the process is in a call that returns only when other ranks have called it, too */
    char call[64];   /* name of that call, or of the innermost function: "all_reduce" */
    char where[160]; /* innermost frame of the program itself: "train_step (train.py:9)"; "": none */
} log_stack;

typedef struct log_stacks {
    tess_mem *mem;
    log_stack *list;
    int n;
    bool in_process, in_main; /* whether the last line belongs to a process, and to its main thread */
} log_stacks;

/* Reads a line of a log that `rank` printed (-1: not known). A line that is not part of a stack ends the stack. */
tess_status log_stacks_take(log_stacks *stacks, const char *line, size_t size, int rank);
void log_stacks_free(log_stacks *stacks);

/* Writes one sentence that says which processes wait and which are elsewhere. *odd: the process that all others wait
 * for; NULL: the stacks do not show it. `stacks` must not be empty. */
void log_stacks_judge(const log_stacks *stacks, char *text, size_t size, const log_stack **odd);

#endif
