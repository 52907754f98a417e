/* A pool of threads for data-parallel loops. The number of threads never changes a result, because each output is
 * computed by one range. */
#ifndef TESS_BASE_OS_THREADS_H
#define TESS_BASE_OS_THREADS_H

#include "tessera/memory.h"

typedef struct tess_threads tess_threads;

/* Computes [begin, end) of the loop. `worker` is the number of the range (0 .. n_threads-1); buffers that are kept per
 * worker belong to the range. */
typedef void (*tess_loop_fn)(void *context, int64_t begin, int64_t end, int worker);

/* Creates a pool of n_threads >= 1 threads, including the caller: with 1 no thread is started. */
tess_status tess_threads_create(tess_mem *mem, int n_threads, tess_threads **threads);
/* Creates a pool that counts as n_threads but runs no loop, for callers that only compute how much memory loops
 * need. */
tess_status tess_threads_create_idle(tess_mem *mem, int n_threads, tess_threads **threads);
void tess_threads_destroy(tess_threads **threads);
int tess_threads_count(const tess_threads *threads);

/* Cuts [0, n) into at most n_threads contiguous ranges whose bounds are multiples of `grain`, runs them in parallel and
 * returns when all are done. A thread that has finished takes ranges that nobody has begun, so a thread that the system
 * does not run delays nobody. Therefore ranges must not wait for each other. Not reentrant. */
void tess_threads_run(tess_threads *threads, tess_loop_fn fn, void *context, int64_t n, int64_t grain);

#endif
