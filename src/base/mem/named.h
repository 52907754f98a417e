/* Memory by name. When a tess_mem has a store, memory allocated under a name lies in the store and outlives the
 * process: another process finds it under that name. A caller that does not want the old content clears the store
 * first. A name has one user at a time (one tess_fsdp and its optimizer per store). Without a store the memory is
 * private and is never found again. */
#ifndef TESS_BASE_MEM_NAMED_H
#define TESS_BASE_MEM_NAMED_H

#include "tessera/memory.h"

/* Counted in `pool` either way. *found: the store had this name with this size, and the memory holds what was last
 * stored there; else it is zero. Free it with tess_mem_free_named, which leaves the store's content. Not thread-safe.
 * TESS_E_NOMEM, TESS_E_NO_SPACE name memory and size. */
tess_status tess_mem_alloc_named(tess_mem *mem, tess_pool pool, const char *name, size_t bytes, void **out,
                                 bool *found);
void tess_mem_free_named(tess_mem *mem, tess_pool pool, size_t bytes, void *memory); /* NULL is fine */

/* Returns the memory of a name in `store`, with the contract of tess_mem_alloc_named. */
typedef tess_status (*tess_mem_region_fn)(void *store, const char *name, size_t bytes, void **out, bool *found);

/* The store is borrowed for as long as `mem` allocates by name; region NULL: none. */
void tess_mem_set_store(tess_mem *mem, tess_mem_region_fn region, void *store);
bool tess_mem_has_store(const tess_mem *mem);

#endif
