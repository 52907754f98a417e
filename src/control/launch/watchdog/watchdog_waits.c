/* Finds on the board the ranks that others wait for. */
#include "base/os/os.h"
#include "control/launch/watchdog/watchdog_impl.h"

static bool is_local(const tess_job *job, int rank, uint32_t state)
{
    return job->rows[rank].host == (int32_t)job->header->host && atomic_load(&job->rows[rank].state) == state;
}

/* Finds ranks whose device makes no progress; called if no rank waits for another. A device that works through a
 * long queue makes progress. */
static void find_devices(const tess_job *job, watchdog_waits *w)
{
    static const uint64_t least_ns = 1000000000;
    char text[8];
    uint64_t enqueued_ns, now_ns = tess_os_now_ns();
    for (int r = 0; r < (int)job->header->world; r++) {
        if (!is_local(job, r, JOB_RANK_JOINED) || atomic_load(&job->rows[r].ended) != 0)
            continue;
        tess_board_describe_device(job, r, text, sizeof(text), &enqueued_ns);
        if (enqueued_ns != w->devices[r].enqueued_ns) {
            w->devices[r].enqueued_ns = enqueued_ns;
            w->devices[r].since_ns = now_ns;
        }
        if (enqueued_ns != 0 && now_ns - w->devices[r].since_ns > least_ns)
            w->list[w->n++] = (tess_missed){.rank = r, .waiter = -1, .since_ns = w->devices[r].since_ns};
    }
}

tess_status watchdog_waits_create(tess_mem *mem, int world, watchdog_waits *w)
{
    const size_t n = (size_t)world;
    void *memory;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, n * (sizeof(*w->list) + sizeof(*w->devices) + sizeof(*w->reached)),
                            "ranks that are waited for", &memory));
    w->list = memory;
    w->devices = (watchdog_device *)(w->list + n);
    w->reached = (bool *)(w->devices + n);
    return tess_board_waits_create(mem, world, &w->board);
}

void watchdog_waits_free(tess_mem *mem, watchdog_waits *w)
{
    tess_board_waits_free(mem, &w->board);
    tess_mem_free(mem, w->list);
    *w = (watchdog_waits){0};
}

void watchdog_find_waits(const tess_job *job, uint64_t joined_ns, watchdog_waits *w)
{
    const tess_wait *waits = w->board.of;
    const int world = job->world;
    tess_board_read_waits(job, &w->board);
    int n_missed = tess_missed_find(waits, world, w->list);
    w->n = 0;
    for (int i = 0; i < n_missed; i++) {
        int rank = w->list[i].rank;
        bool in_circle = waits[rank].since_ns != 0; /* rows of other hosts may be too old to show a circle */
        if (is_local(job, rank, JOB_RANK_JOINED) && (!in_circle || job->header->n_hosts == 1))
            w->list[w->n++] = w->list[i];
    }
    for (int r = 0; joined_ns != 0 && r < world; r++)
        if (is_local(job, r, JOB_RANK_ABSENT))
            w->list[w->n++] = (tess_missed){.rank = r, .waiter = -1, .since_ns = joined_ns};
    if (w->n == 0 && n_missed == 0)
        find_devices(job, w);
}

int watchdog_count_waiters(const tess_job *job, int rank, watchdog_waits *w)
{
    tess_board_read_waits(job, &w->board);
    return tess_missed_count(w->board.of, job->world, rank, w->reached);
}
