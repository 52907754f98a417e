/* Leaks: a pool of this rank that grows and grows.
 *
 * Memory in use goes up and down with buffers, saves and windows of text, so what counts is the least that a pool had
 * in a window of steps. If that grows from window to window, all callers that allocate in the pool are watched for one
 * more window (base/mem/mem_watch.h), and named. */
#ifndef TESS_TRAIN_MEMORY_WATCH_H
#define TESS_TRAIN_MEMORY_WATCH_H

#include "tessera/memory.h"

enum {
    TESS_LEAK_WINDOW = 8,  /* steps of a window */
    TESS_LEAK_WINDOWS = 4, /* windows in a row that have grown */
};

typedef struct tess_memory_watch {
    int64_t n_steps;
    size_t least[TESS_POOL_COUNT]; /* least bytes in this window */
    size_t last[TESS_POOL_COUNT];  /* least bytes in the window before it */
    size_t begin[TESS_POOL_COUNT]; /* bytes before the pool began to grow */
    int n_grown[TESS_POOL_COUNT];  /* windows in a row in which it has grown */
    int watched;                   /* the pool + 1; 0: none */
    bool told[TESS_POOL_COUNT];
} tess_memory_watch;

/* After a step of this process. True, once a pool: it leaks; text says which pool, how many bytes a step, and what they
 * were allocated as. Costs a look at the counters. */
bool tess_memory_watch_step(tess_memory_watch *watch, tess_mem *mem, char *text, size_t size);

#endif
