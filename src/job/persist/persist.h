/* Memory of a rank that outlives it. The launcher makes one block a rank and keeps it: a rank that dies leaves its
 * weights, moments and gradients here, and the process that takes its place finds them by name. A job that nobody
 * launched has none (tess_persist_of, comm/rejoin.h, gives NULL).
 *
 *     header | directory of regions | regions, each from a huge page on
 *
 * Blocks are memory files; with a folder (of /dev/shm, as a rule) they have names there and outlive the launcher too.
 * One process at a time makes regions in a block; others may look at the same time. A process that dies at any moment
 * leaves a directory that is whole: a region is entered last. */
#ifndef TESS_JOB_PERSIST_PERSIST_H
#define TESS_JOB_PERSIST_PERSIST_H

#include "tessera/memory.h"

typedef struct tess_persist tess_persist; /* a mapped block */

enum { TESS_PERSIST_REGIONS = 4096, TESS_PERSIST_NAME = 112, TESS_PERSIST_MOST_BLOCKS = 512 };

/* ---- The launcher's side ---- */
typedef struct tess_persist_set { /* of all ranks of a host */
    int n;
    int *fds;     /* (n), inherited by the rank as TESSERA_PERSIST_FD*/
    char *folder; /* NULL: nameless */
    int lock;     /* descriptor of the folder's lock, -1: nameless */
    tess_mem *mem;
} tess_persist_set;

/* folder NULL: nameless, destroyed with the last process that has them. Else `<folder>/rank-%05d.keep`; blocks of the
 * same `identity` (of job and world) found there are taken over, others emptied. TESS_E_INVALID: another launch has the
 * folder; TESS_E_NO_SPACE, TESS_E_IO name the path. */
tess_status tess_persist_set_create(tess_mem *mem, int n, const char *folder, uint64_t identity, tess_persist_set *set);
/* Another launch has them, once the ranks of the one before have ended: those that are damaged are emptied. */
tess_status tess_persist_set_next(const tess_persist_set *set, uint64_t identity);
/* remove: names are taken away too. A set of zeroes is fine. */
void tess_persist_set_destroy(tess_persist_set *set, bool remove);

/* ---- A rank's side ---- */
/* Any block, by its descriptor, which stays the caller's (the checkpoint writer). TESS_E_INVALID: it is none. */
tess_status tess_persist_open(tess_mem *mem, int fd, tess_persist **persist);
void tess_persist_close(tess_persist **persist);

/* Whose block it is, as tess_persist_set_create was told. */
uint64_t tess_persist_identity(const tess_persist *persist);
/* Launches that have had this block so far, from 1: what another number was stored with is from an earlier one. */
uint64_t tess_persist_launch(const tess_persist *persist);

/* The region of this name. *found: it was there with the same size, with what was last stored in it; else it is new and
 * zero. Not for threads at the same time. TESS_E_NOMEM, TESS_E_NO_SPACE name region and size. */
tess_status tess_persist_region(tess_persist *persist, const char *name, size_t bytes, void **address, bool *found);
/* NULL: there is none. */
void *tess_persist_find(const tess_persist *persist, const char *name, size_t *bytes);
/* Forgets all regions (another layout), and gives the memory back. */
void tess_persist_clear(tess_persist *persist);

/* What `mem` allocates by name (base/mem/named.h) lies in `keep` from now on, which is borrowed; NULL: in private
 * memory again. */
void tess_persist_attach(tess_persist *persist, tess_mem *mem);

#endif
