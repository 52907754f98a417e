/* First fit over a sorted table of holes. Calls are rare (setup), so one lock is enough; it names its holder. */
#include "job/job_memory.h"

#include <sched.h>
#include <string.h>

#include "base/os/os.h"

static tess_status lock(const tess_job *job, int rank)
{
    tess_job_header *h = job->header;
    double begin = tess_os_now_s();
    for (;;) {
        uint32_t holder = 0;
        if (atomic_compare_exchange_strong(&h->heap_lock, &holder, (uint32_t)rank + 1))
            return TESS_OK;
        tess_rank_state state = (tess_rank_state)atomic_load(&job->rows[holder - 1].state);
        TESS_CHECK(state != JOB_RANK_LOST && state != JOB_RANK_GONE, TESS_E_PEER_LOST,
                   "rank %u died while it allocated shared memory", holder - 1);
        TESS_CHECK(tess_os_now_s() - begin < 30, TESS_E_TIMEOUT, "rank %u holds the shared heap's lock for 30 s",
                   holder - 1);
        sched_yield();
    }
}

static void unlock(const tess_job *job)
{
    atomic_store(&job->header->heap_lock, 0);
}

static uint64_t align_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/* Replaces holes[index] by the `n` (0, 1 or 2) holes of `with`. */
static bool replace(tess_job_header *h, uint32_t index, const tess_job_hole *with, uint32_t n)
{
    if (h->n_holes - 1 + n > JOB_HEAP_HOLES)
        return false;
    memmove(&h->holes[index + n], &h->holes[index + 1], (h->n_holes - index - 1) * sizeof(h->holes[0]));
    for (uint32_t i = 0; i < n; i++)
        h->holes[index + i] = with[i];
    h->n_holes += n - 1;
    return true;
}

tess_status tess_job_alloc(const tess_job *job, int rank, size_t bytes, size_t align, uint64_t *offset)
{
    tess_job_header *h = job->header;
    TESS_CHECK(bytes <= h->heap_limit, TESS_E_NOMEM, "shared memory: %zu bytes are more than this machine's %llu",
               bytes, (unsigned long long)h->heap_limit);
    uint64_t size = align_up(bytes > 0 ? bytes : 1, JOB_PAGE);
    TESS_TRY(lock(job, rank));
    if (h->heap_used + size > h->heap_limit) {
        uint64_t used = h->heap_used;
        unlock(job);
        return TESS_FAIL(TESS_E_NOMEM, "shared memory: %zu bytes more than the %llu in use exceed this machine's %llu",
                         bytes, (unsigned long long)used, (unsigned long long)h->heap_limit);
    }
    for (uint32_t i = 0; i < h->n_holes; i++) {
        tess_job_hole hole = h->holes[i];
        uint64_t begin = align_up(hole.offset, align), end = hole.offset + hole.bytes;
        if (begin + size > end)
            continue;
        tess_job_hole rest[2];
        uint32_t n = 0;
        if (begin > hole.offset)
            rest[n++] = (tess_job_hole){.offset = hole.offset, .bytes = begin - hole.offset};
        if (begin + size < end)
            rest[n++] = (tess_job_hole){.offset = begin + size, .bytes = end - begin - size};
        if (!replace(h, i, rest, n))
            break;
        h->heap_used += size;
        unlock(job);
        *offset = begin;
        return TESS_OK;
    }
    unlock(job);
    return TESS_FAIL(TESS_E_NOMEM, "shared memory: no hole of %zu bytes is left in the job's address space", bytes);
}

void tess_job_free(const tess_job *job, int rank, uint64_t offset, size_t bytes)
{
    tess_job_header *h = job->header;
    uint64_t size = align_up(bytes > 0 ? bytes : 1, JOB_PAGE);
    tess_os_punch(job->fd, offset, size);
    if (lock(job, rank) != TESS_OK)
        return; /* the job is ending, and its memory with it */
    uint32_t i = 0;
    while (i < h->n_holes && h->holes[i].offset < offset)
        i++;
    bool joins_left = i > 0 && h->holes[i - 1].offset + h->holes[i - 1].bytes == offset;
    bool joins_right = i < h->n_holes && offset + size == h->holes[i].offset;
    if (joins_left && joins_right) {
        tess_job_hole merged = {.offset = h->holes[i - 1].offset,
                                .bytes = h->holes[i - 1].bytes + size + h->holes[i].bytes};
        h->holes[i] = merged;
        replace(h, i - 1, NULL, 0);
    } else if (joins_left) {
        h->holes[i - 1].bytes += size;
    } else if (joins_right) {
        h->holes[i].offset = offset;
        h->holes[i].bytes += size;
    } else if (h->n_holes < JOB_HEAP_HOLES) {
        memmove(&h->holes[i + 1], &h->holes[i], (h->n_holes - i) * sizeof(h->holes[0]));
        h->holes[i] = (tess_job_hole){.offset = offset, .bytes = size};
        h->n_holes++;
    } /* else: the table is full and this range stays unused; its pages are already freed */
    h->heap_used -= size;
    unlock(job);
}
