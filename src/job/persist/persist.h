/* Memory of a rank that outlives its process. The launcher creates one block per rank. A rank that dies leaves its
 * weights, moments and gradients there, and its replacement finds them by name. A job without a launcher has none
 * (tess_persist_of, comm/rejoin.h, gives NULL).
 *
 *     header | directory of regions | regions, each from a huge page on
 *
 * Blocks are memory files. With a folder (usually in /dev/shm) they have names there and outlive the launcher too. A
 * rank may have a second block in a nameless file on a disk, for pools that are not to be in memory. One
 * process at a time creates regions in a block; others may read it meanwhile. A region is entered last, so that a
 * process that dies at any moment leaves a valid directory. */
#ifndef TESS_JOB_PERSIST_PERSIST_H
#define TESS_JOB_PERSIST_PERSIST_H

#include "base/mem/named.h"

typedef struct tess_persist tess_persist; /* a mapped block */

enum { TESS_PERSIST_REGIONS = 4096, TESS_PERSIST_NAME = 112 };

/* ---- The launcher's side ---- */
typedef struct tess_persist_set { /* the blocks of all ranks of a host */
    int n;
    int *fds;      /* (n) descriptors, which own the arrays below; each rank inherits its own as TESSERA_PERSIST_FD */
    int *disk_fds; /* (n) descriptors of second blocks, as TESSERA_PERSIST_DISK_FD; NULL: there are none */
    char *folder;  /* folder of named blocks; NULL: the blocks have no names */
    int lock;      /* descriptor of the folder's lock; -1: the blocks have no names */
    tess_mem *mem;
} tess_persist_set;

/* Creates the blocks. If `folder` is NULL, they have no names and are freed with the last process that holds them.
 * Otherwise their files are `<folder>/rank-%05d.keep`. Existing blocks with the same `identity` (of job and world)
 * are taken over, others are emptied. Errors: TESS_E_INVALID: another launch uses the folder; TESS_E_NO_SPACE and
 * TESS_E_IO name the path. */
tess_status tess_persist_set_create(tess_mem *mem, int n, const char *folder, uint64_t identity, tess_persist_set *set);
/* Adds second blocks on the disk of `folder`, unless there are some. They have no names, so sets with a folder have
 * none. TESS_E_NO_SPACE and TESS_E_IO name the folder. */
tess_status tess_persist_set_add_disk(tess_persist_set *set, const char *folder, uint64_t identity);
/* Prepares the blocks for the next launch, when the ranks of the last one have ended. Empties damaged blocks. */
tess_status tess_persist_set_next(const tess_persist_set *set, uint64_t identity);
/* Frees the set. `remove`: also removes the named files. A zeroed set is allowed. */
void tess_persist_set_destroy(tess_persist_set *set, bool remove);

/* ---- A rank's side ---- */
/* Opens a block by its descriptor, which stays the caller's (for the checkpoint writer). Returns TESS_E_INVALID if
 * it is not a block. */
tess_status tess_persist_open(tess_mem *mem, int fd, tess_persist **persist);
void tess_persist_close(tess_persist **persist);

/* Returns the identity passed to tess_persist_set_create. */
uint64_t tess_persist_identity(const tess_persist *persist);
/* Returns the number of launches that have used this block, counting this one. Data stored with another number is
 * from an earlier launch. */
uint64_t tess_persist_launch(const tess_persist *persist);

/* Opens the region with this name. *found: it existed with the same size and still holds its data; otherwise it is
 * new and zero. Not thread-safe. TESS_E_NOMEM and TESS_E_NO_SPACE name region and size. */
tess_status tess_persist_region(tess_persist *persist, const char *name, size_t bytes, void **address, bool *found);
/* Finds a region and its size; NULL: there is no such region. */
void *tess_persist_find(const tess_persist *persist, const char *name, size_t *bytes);
/* Removes all regions and frees their memory, for example before another layout is created. */
void tess_persist_clear(tess_persist *persist);

/* Makes `persist`, which is on disk, the store of disk->pools; its mapping is entered in disk->pager. */
tess_status tess_persist_attach_disk(tess_persist *persist, tess_mem_disk *disk);

/* Makes `mem` place its named allocations (base/mem/named.h) in `persist` from now on. `persist` is borrowed. NULL:
 * they are private memory again. */
void tess_persist_attach(tess_persist *persist, tess_mem *mem);

#endif
