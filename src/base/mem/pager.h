/* A pager moves the pages of file mappings between memory and disk, ahead of their use and after it, in the
 * background.
 *
 * State that is larger than memory lies in shared mappings of files, not in private memory that is filled and emptied
 * by reads and writes of our own (O_DIRECT). Then its pages are the kernel's: a process that is killed at any
 * instruction loses nothing that it had stored, so that the optimizer's journal and hot recovery are as good as in
 * memory; pointers stay valid for everybody at any time (checkpoints, export, norms, checks); and a missing or wrong
 * request costs time, never a bit. What the pager adds is that a page is there before it is wanted, and that pages
 * leave after their use, so that memory holds a window of the state and not what the kernel happens to keep.
 *
 * A request is on a range of addresses: fetch, which returns at once; wait, until what was fetched is there; release,
 * which returns at once. Fetches go from disk to memory in the order of the calls, and pause while the ranges in memory
 * would be more than `resident` bytes: so a caller may ask for everything that it will use, in order, and the pager is
 * as far ahead as memory allows. One that is waited for goes first, whatever is in memory, but not before releases
 * under way: memory holds `resident` bytes, or what the caller uses at once if that is more.
 *
 * A request on addresses of no mapping does nothing, as does every request on a pager that is NULL: callers need not
 * know whether their memory is on disk. All functions are thread-safe. */
#ifndef TESS_BASE_MEM_PAGER_H
#define TESS_BASE_MEM_PAGER_H

#include "tessera/memory.h"

typedef struct tess_pager tess_pager;

typedef enum tess_page_use {
    TESS_PAGE_READ,
    TESS_PAGE_UPDATE,   /* read, then written */
    TESS_PAGE_OVERWRITE /* written before it is read: what the range holds is dropped, its whole pages become zero */
} tess_page_use;

/* Two threads, one for each direction of the disk. Pages in memory are counted in TESS_POOL_COMM of `mem` (borrowed).
 * TESS_E_NOMEM. */
tess_status tess_pager_create(tess_mem *mem, size_t resident, tess_pager **pager);
/* Raises the bound to `resident`, if it is lower. `at_once` of these bytes are kept for what callers wait for: if they
 * use no more at a time, the bound holds. */
void tess_pager_make_room(tess_pager *pager, size_t resident, size_t at_once);
/* Drops all requests; what is under way completes. NULL is fine. */
void tess_pager_destroy(tess_pager **pager);

/* Enters a shared mapping of `fd` (borrowed until removed) from `offset` on. `name`: of the file, for messages; copied.
 * TESS_E_NOMEM. */
tess_status tess_pager_add(tess_pager *pager, void *base, size_t bytes, int fd, uint64_t offset, const char *name);
/* Drops what is asked for in the mapping; what is under way completes. */
void tess_pager_remove(tess_pager *pager, const void *base);

/* Ranges are told apart by both of their ends: release what was fetched. A range that is fetched again is there once.
 * The first fetch since it left says whether its content is dropped, so that a reader can ask first. Before
 * overwriting a range, wait for its fetch; otherwise the pager may zero what you wrote. */
void tess_pager_fetch(tess_pager *pager, const void *at, size_t bytes, tess_page_use use);
/* All fetches that touch the range are complete. TESS_E_IO, TESS_E_NO_SPACE: an earlier write to some file has failed
 * (pages that were to be written may be lost); every later wait says so, too. */
tess_status tess_pager_wait(tess_pager *pager, const void *at, size_t bytes);
/* The caller is done with the range for now. Pages that were written go to disk, then all leave memory. What was not
 * fetched is left alone. */
void tess_pager_release(tess_pager *pager, const void *at, size_t bytes);
/* All releases are complete. */
void tess_pager_drain(tess_pager *pager);

typedef struct tess_pager_stats {
    uint64_t read_bytes,
        written_bytes;          /* bytes of ranges fetched and released; written: only ranges fetched for writing */
    uint64_t read_ns, write_ns; /* time during which either direction was busy */
    uint64_t waited_ns;         /* time that callers waited */
    size_t resident, peak;      /* bytes in memory: now, most ever */
    size_t limit;               /* the largest bound on `resident` that the pager was given */
} tess_pager_stats;

/* All zero without a pager. */
tess_pager_stats tess_pager_get_stats(const tess_pager *pager);

#endif
