/* Reads the stacks of Python processes that `py-spy dump` prints, of one process or of all ranks. */
#ifndef TESS_DOCTOR_LOG_PYTHON_STACKS_H
#define TESS_DOCTOR_LOG_PYTHON_STACKS_H

#include <stdbool.h>

#include "tessera/memory.h"

/* The main thread of a process. */
typedef struct log_stack {
    int pid, rank;   /* rank -1: not known */
    bool waits;      /* it is in a call that ends only when other ranks come */
    char call[64];   /* name of that call, or of the innermost function: "all_reduce" */
    char where[160]; /* place of the program itself: "train_step (train.py:9)"; "": nowhere */
} log_stack;

typedef struct log_stacks {
    tess_mem *mem;
    log_stack *list;
    int n;
    bool in_process, in_main; /* the last line belongs to a process; to its main thread */
} log_stacks;

/* Takes a line of a log that `rank` printed (-1: not known). A line that belongs to no stack ends one. */
tess_status log_stacks_take(log_stacks *stacks, const char *line, size_t size, int rank);
void log_stacks_free(log_stacks *stacks);

/* Writes one sentence: who waits, and who is elsewhere. *odd: the process that all others wait for; NULL: the stacks do
 * not say. `stacks` has one or more. */
void log_stacks_judge(const log_stacks *stacks, char *text, size_t size, const log_stack **odd);

#endif
