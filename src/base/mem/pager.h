/* Moves the pages of file mappings between memory and disk in the background: in before their use, out after it.
 *
 * State that is larger than memory is kept in shared mappings of files. The alternative would be private memory that
 * this program fills and empties itself (O_DIRECT). With mappings the pages belong to the kernel:
 * - A process that is killed at any instruction loses nothing that it had stored, so the optimizer's journal and hot
 *   recovery work as they do in memory.
 * - Pointers stay valid at any time for all users (checkpoints, export, norms, checks).
 * - A missing or wrong request costs time, but never changes a bit.
 * The pager makes sure that pages are in memory before they are needed and leave it after their use. Memory then holds
 * a window of the state, not what the kernel happens to keep.
 *
 * A request concerns a range of addresses. Fetch and release return at once; wait returns when what was fetched is in
 * memory. Fetches read from disk in the order of the calls. They pause while the ranges in memory would exceed
 * `resident` bytes. So a caller may request everything that it will use, in order; the pager then reads as far ahead as
 * memory allows. A range that a caller waits for is read first, even if memory is full, but only after the releases
 * under way. So memory holds `resident` bytes, or what the caller uses at once if that is more.
 *
 * A request on addresses outside of all mappings does nothing, nor does a request on a NULL pager. Callers need not
 * know whether their memory is on disk. All functions are thread-safe. */
#ifndef TESS_BASE_MEM_PAGER_H
#define TESS_BASE_MEM_PAGER_H

#include "tessera/memory.h"

typedef struct tess_pager tess_pager;

typedef enum tess_page_use {
    TESS_PAGE_READ,
    TESS_PAGE_UPDATE,   /* read, then written */
    TESS_PAGE_OVERWRITE /* written before it is read: drops the content, and whole pages of the range become zero */
} tess_page_use;

/* Starts two threads, one that reads and one that writes. Pages in memory are counted in TESS_POOL_COMM of `mem`
 * (borrowed). TESS_E_NOMEM. */
tess_status tess_pager_create(tess_mem *mem, size_t resident, tess_pager **pager);
/* Raises the bound on bytes in memory to `resident`, if it is lower. Of these, `at_once` bytes are reserved for ranges
 * that callers wait for. The bound holds as long as callers use at most `at_once` bytes at a time. */
void tess_pager_make_room(tess_pager *pager, size_t resident, size_t at_once);
/* Drops all requests, after moves under way are complete. NULL is fine. */
void tess_pager_destroy(tess_pager **pager);

/* Adds a shared mapping of `fd` (borrowed until tess_pager_remove), which maps the file from `offset` on. `name` is the
 * file's name for messages; it is copied. TESS_E_NOMEM. */
tess_status tess_pager_add(tess_pager *pager, void *base, size_t bytes, int fd, uint64_t offset, const char *name);
/* Removes a mapping. Drops the requests in it, after moves under way are complete. */
void tess_pager_remove(tess_pager *pager, const void *base);

/* Starts to read a range. A range is identified by its start and size: release exactly what was fetched. Fetching a
 * range twice has the effect of one fetch. Only the first fetch since the range left memory can drop its content, so
 * a reader may fetch first. Before overwriting a range, wait for its fetch; otherwise the pager may zero what you
 * wrote. */
void tess_pager_fetch(tess_pager *pager, const void *at, size_t bytes, tess_page_use use);
/* Waits until all fetches that touch the range are complete. TESS_E_IO, TESS_E_NO_SPACE: an earlier write to some file
 * failed, so pages may be lost; all later waits return this error, too. */
tess_status tess_pager_wait(tess_pager *pager, const void *at, size_t bytes);
/* Ends the use of a range. Pages that were written go to disk, then all leave memory. Does nothing if the range was not
 * fetched. */
void tess_pager_release(tess_pager *pager, const void *at, size_t bytes);
/* Waits until all releases are complete. */
void tess_pager_drain(tess_pager *pager);

typedef struct tess_pager_stats {
    uint64_t read_bytes,
        written_bytes;          /* bytes of ranges that were read, and written back (only those fetched for writing) */
    uint64_t read_ns, write_ns; /* time that the reader and the writer were busy */
    uint64_t waited_ns;         /* time that callers waited */
    size_t resident, peak;      /* bytes in memory: now, most ever */
    size_t limit;               /* the largest bound on `resident` that the pager was given */
} tess_pager_stats;

/* Returns all zeroes if `pager` is NULL. */
tess_pager_stats tess_pager_get_stats(const tess_pager *pager);

#endif
