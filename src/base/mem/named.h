/* Memory by name. If a tess_mem has a store, memory that is allocated under a name is placed in the store and outlives
 * the process: another process finds it under that name. A caller that does not want the old content clears the store
 * first. Only one user at a time may use a name (one tess_fsdp and its optimizer per store). Without a store the memory
 * is private and is never found again.
 *
 * Named memory, and private memory that replaces it, may be on disk, pool by pool. Bytes on disk are counted
 * separately, since they are not memory. What the pager holds of them in memory is counted in TESS_POOL_COMM. */
#ifndef TESS_BASE_MEM_NAMED_H
#define TESS_BASE_MEM_NAMED_H

#include "tessera/memory.h"

struct tess_pager; /* base/mem/pager.h */

/* Allocates memory under a name, counted in `pool` or among the pool's bytes on disk. Free it with tess_mem_free_named,
 * which keeps the content of the store. Not thread-safe.
 * *found: the store had this name with this size, and the memory holds what was last stored there. Otherwise the memory
 * is zero.
 * TESS_E_NOMEM, TESS_E_NO_SPACE: the message names memory and size. */
tess_status tess_mem_alloc_named(tess_mem *mem, tess_pool pool, const char *name, size_t bytes, void **out,
                                 bool *found);
void tess_mem_free_named(tess_mem *mem, tess_pool pool, size_t bytes, void *memory); /* NULL is fine */

/* Allocates zeroed memory without a name, even if there is a store. It ends with the process. */
tess_status tess_mem_alloc_private(tess_mem *mem, tess_pool pool, const char *what, size_t bytes, void **out);
void tess_mem_free_private(tess_mem *mem, tess_pool pool, size_t bytes, void *memory); /* NULL is fine */

/* Returns the memory of a name in `store`, with the contract of tess_mem_alloc_named. */
typedef tess_status (*tess_mem_region_fn)(void *store, const char *name, size_t bytes, void **out, bool *found);

/* `store` is borrowed as long as `mem` allocates by name. region NULL: no store. */
void tess_mem_set_store(tess_mem *mem, tess_mem_region_fn region, void *store);
bool tess_mem_has_store(const tess_mem *mem);

/* Pools on disk. */
typedef struct tess_mem_disk {
    unsigned pools; /* bit 1 << pool */
    /* The allocator of private memory (tess_disk_attach, base/mem/disk.h). If there is no store it also allocates named
     * memory. */
    tess_status (*alloc)(void *disk, size_t bytes, const char *what, void **out);
    void (*free)(void *disk, void *memory);
    void *disk;
    tess_mem_region_fn region; /* the function that finds named memory in the store on disk; NULL: no such store */
    void *store;
    struct tess_pager *pager; /* the pager of private and named memory on disk */
} tess_mem_disk;

/* Places pools on disk. `disk` and what it points to are borrowed until all memory of these pools is freed. NULL: no
 * pool is on disk any more. */
void tess_mem_set_disk(tess_mem *mem, const tess_mem_disk *disk);
bool tess_mem_on_disk(const tess_mem *mem, tess_pool pool);
/* NULL: no pool is on disk; the pager's functions accept it. */
struct tess_pager *tess_mem_pager(const tess_mem *mem);
size_t tess_mem_disk_bytes(const tess_mem *mem, tess_pool pool); /* bytes in use now */

#endif
