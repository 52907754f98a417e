/* A pool of threads for data-parallel loops. The split never changes a result: kernels own whole outputs. */
#ifndef TESS_BASE_OS_THREADS_H
#define TESS_BASE_OS_THREADS_H

#include "tessera/memory.h"

typedef struct tess_threads tess_threads;

/* [begin, end) of the loop, and the number of this range (0 .. n_threads-1), which owns what the callee keeps for each.
 */
typedef void (*tess_loop_fn)(void *context, int64_t begin, int64_t end, int worker);

/* n_threads >= 1, the caller counts as one: 1 starts no thread. */
tess_status tess_threads_create(tess_mem *mem, int n_threads, tess_threads **threads);
/* Counts as n_threads and runs no loop: for those who ask what a loop would take. */
tess_status tess_threads_create_idle(tess_mem *mem, int n_threads, tess_threads **threads);
void tess_threads_destroy(tess_threads **threads);
int tess_threads_count(const tess_threads *threads);

/* Cuts [0, n) into at most n_threads contiguous ranges whose bounds are multiples of `grain` and runs them in parallel;
 * returns when all are done. A thread that is done takes over ranges that nobody has begun, so none waits for one that
 * the system does not run: ranges may not wait for each other. Not reentrant. */
void tess_threads_run(tess_threads *threads, tess_loop_fn fn, void *context, int64_t n, int64_t grain);

#endif
