/* Watches one pool, to find callers that allocate in it and do not free. Without a watch this costs nothing. During a
 * watch each allocation in the pool searches a short list. */
#ifndef TESS_BASE_MEM_MEM_WATCH_H
#define TESS_BASE_MEM_MEM_WATCH_H

#include "tessera/memory.h"

enum { TESS_MEM_NAME = 48 };

/* Starts to count the blocks of `pool` that are allocated from now on, by the names that callers pass to the allocator.
 * An earlier watch ends. TESS_POOL_COUNT: no watch begins. Thread-safe, like tess_mem_watched. */
void tess_mem_watch(tess_mem *mem, tess_pool pool);

/* Returns the name with the most bytes that were allocated since the watch began and are not freed. False: there is no
 * such name, so what has grown is not a block of the pool (shared memory, mapped files). */
bool tess_mem_watched(const tess_mem *mem, char what[TESS_MEM_NAME], int64_t *bytes);

#endif
