/* A watch on one pool: who allocates in it what is not freed again. Costs nothing while there is none, and a search in
 * a short list for an allocation in the pool while there is one. */
#ifndef TESS_BASE_MEM_MEM_WATCH_H
#define TESS_BASE_MEM_MEM_WATCH_H

#include "tessera/memory.h"

enum { TESS_MEM_NAME = 48 };

/* From here on, blocks of `pool` are counted by the words that callers allocate with; an earlier watch ends.
 * TESS_POOL_COUNT: none begins. Thread-safe, as what follows. */
void tess_mem_watch(tess_mem *mem, tess_pool pool);

/* The words that have most bytes allocated since the watch began and not freed. False: there are none: what has grown
 * is no block of the pool (shared memory, mapped files). */
bool tess_mem_watched(const tess_mem *mem, char what[TESS_MEM_NAME], int64_t *bytes);

#endif
