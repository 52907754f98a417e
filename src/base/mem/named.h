/* Memory by name. Where a tess_mem has a store, what is allocated under a name lies there and outlives the process, and
 * another process finds it under that name: who does not want what is there clears the store first. A name has one user
 * at a time (one tess_fsdp and its optimizer a store). Without a store it is private memory, and is never found. */
#ifndef TESS_BASE_MEM_NAMED_H
#define TESS_BASE_MEM_NAMED_H

#include "tessera/memory.h"

/* Counted in `pool` either way. *found: it was there with the same size, with what was last stored in it; else it is
 * zero. Give back with tess_mem_free_named, which leaves in a store what is there. Not for threads at the same time.
 * TESS_E_NOMEM, TESS_E_NO_SPACE name memory and size. */
tess_status tess_mem_alloc_named(tess_mem *mem, tess_pool pool, const char *name, size_t bytes, void **out,
                                 bool *found);
void tess_mem_free_named(tess_mem *mem, tess_pool pool, size_t bytes, void *memory); /* NULL is fine */

/* Gives the memory of a name in `store`, as tess_mem_alloc_named has it. */
typedef tess_status (*tess_mem_region_fn)(void *store, const char *name, size_t bytes, void **out, bool *found);

/* The store is borrowed for as long as `mem` allocates by name; region NULL: none. */
void tess_mem_set_store(tess_mem *mem, tess_mem_region_fn region, void *store);
bool tess_mem_has_store(const tess_mem *mem);

#endif
