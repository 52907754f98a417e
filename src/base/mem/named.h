/* Memory by name. When a tess_mem has a store, memory allocated under a name lies in the store and outlives the
 * process: another process finds it under that name. A caller that does not want the old content clears the store
 * first. A name has one user at a time (one tess_fsdp and its optimizer per store). Without a store the memory is
 * private and is never found again.
 *
 * Named memory, and private memory that stands in its place, may lie on disk, pool by pool. Bytes on disk are no
 * memory: they are counted apart, and what the pager has of them in memory is in TESS_POOL_COMM. */
#ifndef TESS_BASE_MEM_NAMED_H
#define TESS_BASE_MEM_NAMED_H

#include "tessera/memory.h"

struct tess_pager; /* base/mem/pager.h */

/* Counted in `pool` either way, or among its bytes on disk. *found: the store had this name with this size, and the
 * memory holds what was last stored there; else it is zero. Free it with tess_mem_free_named, which leaves the store's
 * content. Not thread-safe. TESS_E_NOMEM, TESS_E_NO_SPACE name memory and size. */
tess_status tess_mem_alloc_named(tess_mem *mem, tess_pool pool, const char *name, size_t bytes, void **out,
                                 bool *found);
void tess_mem_free_named(tess_mem *mem, tess_pool pool, size_t bytes, void *memory); /* NULL is fine */

/* The same without a name, whatever stores there are: zero, and ends with the process. */
tess_status tess_mem_alloc_private(tess_mem *mem, tess_pool pool, const char *what, size_t bytes, void **out);
void tess_mem_free_private(tess_mem *mem, tess_pool pool, size_t bytes, void *memory); /* NULL is fine */

/* Returns the memory of a name in `store`, with the contract of tess_mem_alloc_named. */
typedef tess_status (*tess_mem_region_fn)(void *store, const char *name, size_t bytes, void **out, bool *found);

/* The store is borrowed for as long as `mem` allocates by name; region NULL: none. */
void tess_mem_set_store(tess_mem *mem, tess_mem_region_fn region, void *store);
bool tess_mem_has_store(const tess_mem *mem);

/* Pools on disk. */
typedef struct tess_mem_disk {
    unsigned pools; /* bit 1 << pool */
    /* Functions for private memory, and for all memory if there is no store (tess_disk_attach, base/mem/disk.h). */
    tess_status (*alloc)(void *disk, size_t bytes, const char *what, void **out);
    void (*free)(void *disk, void *memory);
    void *disk;
    tess_mem_region_fn region; /* function of the store on disk; NULL: none */
    void *store;
    struct tess_pager *pager; /* pager of both */
} tess_mem_disk;

/* All of it is borrowed for as long as `mem` allocates in these pools, and until that is freed. NULL: none any more. */
void tess_mem_set_disk(tess_mem *mem, const tess_mem_disk *disk);
bool tess_mem_on_disk(const tess_mem *mem, tess_pool pool);
/* NULL, which the pager's functions take: no pool is on disk. */
struct tess_pager *tess_mem_pager(const tess_mem *mem);
size_t tess_mem_disk_bytes(const tess_mem *mem, tess_pool pool); /* bytes in use now */

#endif
