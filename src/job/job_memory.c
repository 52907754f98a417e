#include "job/job_memory.h"

#include <string.h>

#include "base/core/round_up.h"
#include "base/os/os.h"
#include "job/ending_room.h"

tess_job_layout tess_job_layout_of(int world)
{
    const uint64_t n = (uint64_t)world;
    tess_job_layout l = {.awaited_bytes = tess_round_up(tess_bits_words(world) * sizeof(uint64_t), 64),
                         .ring_bytes = tess_trace_bytes(JOB_RING_EVENTS),
                         .device_log_bytes = tess_round_up(sizeof(tess_device_log), JOB_PAGE)};
    l.pasts = tess_round_up(sizeof(tess_job_header), 64);
    l.rows = tess_round_up(l.pasts + n * sizeof(tess_rank_past), JOB_PAGE);
    l.awaited = tess_round_up(l.rows + n * sizeof(tess_job_row), JOB_PAGE);
    l.rings = tess_round_up(l.awaited + n * l.awaited_bytes, JOB_PAGE);
    l.device_logs = tess_round_up(l.rings + n * l.ring_bytes, JOB_PAGE);
    l.heap = tess_round_up(l.device_logs + n * l.device_log_bytes, JOB_HUGE_PAGE);
    return l;
}

tess_status tess_job_attach(tess_job *job, int world)
{
    TESS_TRY(tess_ending_room_create(world, &job->room));
    job->world = world;
    job->layout = tess_job_layout_of(world);
    job->past = (tess_rank_past *)(job->base + job->layout.pasts);
    job->rows = (tess_job_row *)(job->base + job->layout.rows);
    return TESS_OK;
}

/* Sets the state in which every job begins: no rank has joined, and nothing is allocated. Rows are zero. */
static tess_status begin(tess_job *job)
{
    tess_job_header *h = job->header;
    h->world_team = 0;
    h->n_holes = 1;
    h->holes[0] = (tess_job_hole){.offset = h->heap, .bytes = h->bytes - h->heap};
    atomic_store(&h->first_lost, -1);
    atomic_store(&h->resumed_step, -1);
    for (int r = 0; r < (int)h->world; r++) {
        tess_trace_ring *ring;
        TESS_TRY(tess_trace_init(tess_job_ring(job, r), JOB_RING_EVENTS, r, (int)h->world, &ring));
    }
    return TESS_OK;
}

tess_status tess_job_create(int world, tess_job *job)
{
    TESS_CHECK(world >= 1, TESS_E_INVALID, "a job of %d ranks: it needs at least one", world);
    /* Windows are created and removed, and address space must not fragment before memory runs out. So it is eight
     * times as large as memory. */
    uint64_t heap = tess_job_layout_of(world).heap, limit = tess_os_memory_bytes();
    uint64_t bytes = heap + tess_round_up(limit * 8, JOB_HUGE_PAGE);

    int fd;
    void *base;
    TESS_TRY(tess_os_memfd("tessera", bytes, &fd));
    tess_status status = tess_os_map_shared(fd, 0, bytes, &base);
    if (status != TESS_OK) {
        tess_os_close(&fd);
        return tess_fail_context(status, "shared memory of %d ranks, %.1f GiB of address space", world,
                                 (double)bytes / 0x1p30);
    }
    *job = (tess_job){.header = base, .base = base, .bytes = bytes, .fd = fd};
    tess_job_header *h = job->header;
    h->version = JOB_VERSION;
    h->world = (uint32_t)world;
    h->n_hosts = 1;
    h->bytes = bytes;
    h->heap = heap;
    h->heap_limit = limit;
    status = tess_job_attach(job, world);
    if (status == TESS_OK)
        status = begin(job);
    if (status != TESS_OK) {
        tess_job_close(job, true);
        return status;
    }
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, JOB_MAGIC, sizeof(h->magic));
    return TESS_OK;
}

tess_status tess_job_reset(tess_job *job)
{
    tess_job_header *h = job->header;
    atomic_store(&h->heap_lock, 0);
    h->heap_used = 0;
    h->trace_folder[0] = '\0';
    tess_os_punch(job->fd, job->layout.rows, h->bytes - job->layout.rows);
    TESS_TRY(begin(job));
    atomic_fetch_add(&h->epoch, 1);
    tess_os_futex_wake((const uint32_t *)(const void *)&h->epoch, INT32_MAX);
    return TESS_OK;
}

tess_status tess_job_open(int fd, int world, tess_job *job)
{
    size_t bytes = 0;
    TESS_CHECK(tess_os_fd_size(fd, &bytes) == TESS_OK && bytes >= sizeof(tess_job_header), TESS_E_INVALID,
               "TESSERA_SHM_FD=%d is not a job's shared memory: start the program with `tessera run -n N -- PROGRAM`",
               fd);
    void *base;
    TESS_TRY(tess_os_map_shared(fd, 0, bytes, &base));
    *job = (tess_job){.header = base, .base = base, .bytes = bytes, .fd = fd};
    const tess_job_header *h = job->header;
    if (memcmp(h->magic, JOB_MAGIC, sizeof(h->magic)) != 0 || h->version != JOB_VERSION || h->bytes != job->bytes ||
        h->world != (uint32_t)world) {
        uint32_t version = h->version, ranks = h->world;
        bool ours = memcmp(h->magic, JOB_MAGIC, sizeof(h->magic)) == 0;
        tess_job_close(job, false);
        if (!ours)
            return TESS_FAIL(TESS_E_INVALID, "TESSERA_SHM_FD=%d is not a job's shared memory", fd);
        return TESS_FAIL(
            TESS_E_INVALID,
            "the launcher's shared memory has layout %u for %u ranks, this program expects layout %d for %d: "
            "use a launcher and a library of the same version",
            version, ranks, JOB_VERSION, world);
    }
    tess_status status = tess_job_attach(job, world);
    if (status != TESS_OK)
        tess_job_close(job, false);
    return status;
}

void tess_job_keep_from_forks(const tess_job *job, bool keep)
{
    tess_os_keep_from_forks(job->base, job->bytes, keep);
}

void tess_job_close(tess_job *job, bool close_fd)
{
    if (job->base != NULL)
        tess_os_unmap_shared(job->base, job->bytes);
    tess_ending_room_free(&job->room);
    if (close_fd)
        tess_os_close(&job->fd);
    *job = (tess_job){.fd = -1};
}

tess_device_log *tess_job_device_log(const tess_job *job, int rank)
{
    return (tess_device_log *)(job->base + job->layout.device_logs + (uint64_t)rank * job->layout.device_log_bytes);
}

tess_trace_ring *tess_job_ring(const tess_job *job, int rank)
{
    return (tess_trace_ring *)(job->base + job->layout.rings + (uint64_t)rank * job->layout.ring_bytes);
}

_Atomic uint64_t *tess_job_awaited(const tess_job *job, int rank)
{
    return (_Atomic uint64_t *)(job->base + job->layout.awaited + (uint64_t)rank * job->layout.awaited_bytes);
}

int tess_job_first_rank(const tess_job *job)
{
    for (int r = 0; r < (int)job->header->world; r++)
        if (job->rows[r].host == (int32_t)job->header->host)
            return r;
    return -1;
}

void tess_job_wake(const tess_job *job, int rank)
{
    tess_job_row *row = &job->rows[rank];
    /* The waker stores the change, then loads the count; the sleeper stores its count, then looks for the change. All
     * four are sequentially consistent, so at least one of the two sees the other. */
    if (atomic_load(&row->n_sleeping) == 0)
        return;
    atomic_fetch_add(&row->doorbell, 1);
    tess_os_futex_wake((const uint32_t *)(const void *)&row->doorbell, INT32_MAX);
}

void tess_job_wake_all(const tess_job *job)
{
    for (int r = 0; r < (int)job->header->world; r++)
        tess_job_wake(job, r);
}

uint32_t tess_job_sleep_begin(const tess_job *job, int rank)
{
    tess_job_row *row = &job->rows[rank];
    atomic_fetch_add(&row->n_sleeping, 1);
    return atomic_load(&row->doorbell);
}

void tess_job_sleep(const tess_job *job, int rank, uint32_t ticket, uint64_t timeout_ns)
{
    tess_os_futex_wait((const uint32_t *)(const void *)&job->rows[rank].doorbell, ticket, timeout_ns);
}

void tess_job_sleep_end(const tess_job *job, int rank)
{
    atomic_fetch_sub(&job->rows[rank].n_sleeping, 1);
}
