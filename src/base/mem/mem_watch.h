/* A watch on one pool finds callers that allocate in it and do not free. It costs nothing while no watch is set;
 * otherwise an allocation in the pool costs a search in a short list. */
#ifndef TESS_BASE_MEM_MEM_WATCH_H
#define TESS_BASE_MEM_MEM_WATCH_H

#include "tessera/memory.h"

enum { TESS_MEM_NAME = 48 };

/* Counts blocks of `pool` from now on by the words that callers allocate with; an earlier watch ends. TESS_POOL_COUNT:
 * no watch begins. Thread-safe, like the functions below. */
void tess_mem_watch(tess_mem *mem, tess_pool pool);

/* The words that have most bytes allocated since the watch began and not freed. False: there are none: what has grown
 * is no block of the pool (shared memory, mapped files). */
bool tess_mem_watched(const tess_mem *mem, char what[TESS_MEM_NAME], int64_t *bytes);

#endif
