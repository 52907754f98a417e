/* Detects memory leaks: a pool of this rank that keeps growing.
 *
 * Memory in use rises and falls with buffers, saves and windows of text. The watch therefore takes the minimum of
 * each pool over a window of steps. If that minimum grows in several windows in a row, all allocations in the pool
 * are tracked for one more window (base/mem/mem_watch.h), and the growing ones are named. */
#ifndef TESS_TRAIN_MEMORY_WATCH_H
#define TESS_TRAIN_MEMORY_WATCH_H

#include "tessera/memory.h"

enum {
    TESS_LEAK_WINDOW = 8,  /* number of steps in a window */
    TESS_LEAK_WINDOWS = 4, /* a pool is suspicious after this many growing windows in a row */
};

typedef struct tess_memory_watch {
    int64_t n_steps;
    size_t least[TESS_POOL_COUNT]; /* minimum bytes in use in the current window */
    size_t last[TESS_POOL_COUNT];  /* minimum bytes in use in the previous window */
    size_t begin[TESS_POOL_COUNT]; /* bytes in use before the pool began to grow */
    int n_grown[TESS_POOL_COUNT];  /* number of consecutive windows in which the pool has grown */
    int watched;                   /* index + 1 of the pool whose allocations are tracked; 0: none */
    bool told[TESS_POOL_COUNT];
    struct tess_metrics *lines; /* memory.jsonl; NULL: this rank writes none */
} tess_memory_watch;

/* Called after each step of this process. Returns true if a pool leaks, once for each pool. `text` then names the
 * pool, the bytes lost per step, and the labels of the allocations. Reads only counters, so it is cheap. */
bool tess_memory_watch_step(tess_memory_watch *watch, tess_mem *mem, char *text, size_t size);

#endif
