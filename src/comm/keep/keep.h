/* Memory of a rank that outlives it. The launcher makes one block a rank and keeps it: a rank that dies leaves its
 * weights, moments and gradients here, and the process that takes its place finds them by name. A job that nobody
 * launched has none (tess_keep_of gives NULL).
 *
 *     header | directory of regions | regions, each from a huge page on
 *
 * Blocks are memory files; with a folder (of /dev/shm, as a rule) they have names there and outlive the launcher too.
 */
#ifndef TESS_COMM_KEEP_H
#define TESS_COMM_KEEP_H

#include "tessera/runtime.h"

typedef struct tess_keep tess_keep; /* a mapped block */

enum { TESS_KEEP_REGIONS = 4096, TESS_KEEP_NAME = 112 };

/* ---- The launcher's side
 * ------------------------------------------------------------------------------------------------ */
typedef struct tess_keep_set { /* of all ranks of a host */
    int n;
    int *fds; /* (n), inherited by the rank as TESSERA_KEEP_FD and by services */
} tess_keep_set;

/* folder NULL: nameless. Else `<folder>/rank-%05d.keep`; blocks of the same `identity` (of job, model, world, layout)
 * found there are taken over, others emptied. */
tess_status tess_keep_set_create(tess_mem *mem, int n, const char *folder, uint64_t identity, tess_keep_set *set);
/* remove: names are taken away too. */
void tess_keep_set_destroy(tess_mem *mem, tess_keep_set *set, bool remove);

/* ---- A rank's side
 * ------------------------------------------------------------------------------------------------------ */
/* This rank's block, mapped once a process; NULL: there is none. */
tess_keep *tess_keep_of(tess_runtime *runtime);
/* Any block, by its descriptor (the checkpoint writer). */
tess_status tess_keep_open(tess_mem *mem, int fd, tess_keep **keep);
void tess_keep_close(tess_keep **keep);

/* The region of this name. *found: it was there with the same size, with what was last stored in it; else it is new and
 * zero. Not for threads at the same time. TESS_E_NOMEM names region and size. */
tess_status tess_keep_region(tess_keep *keep, const char *name, size_t bytes, void **address, bool *found);
/* NULL: there is none. */
void *tess_keep_find(const tess_keep *keep, const char *name, size_t *bytes);
/* Forgets all regions (another layout), and gives the memory back. */
void tess_keep_clear(tess_keep *keep);

#endif
