/* Finds the ranks that are waited for, from the board. */
#include "base/os/os.h"
#include "launch/watchdog/watchdog_impl.h"

/* Since when `rank` has waited, and for which ranks; 0: it waits for none. */
static uint64_t read_wait(const tess_job *job, int rank, uint64_t *missing)
{
    const tess_job_row *row = &job->rows[rank];
    uint64_t since_ns = atomic_load_explicit(&row->wait_since_ns, memory_order_acquire), any = 0;
    if (since_ns == 0 || atomic_load(&row->state) != JOB_RANK_JOINED || atomic_load(&row->ended) != 0)
        return 0;
    for (int i = 0; i < JOB_RANK_WORDS; i++) {
        missing[i] = atomic_load_explicit(&row->wait_missing[i], memory_order_relaxed);
        any |= missing[i];
    }
    return any != 0 ? since_ns : 0;
}

typedef struct wait_graph {
    tess_wait waits[JOB_MAX_RANKS];
    uint64_t missing[JOB_MAX_RANKS][JOB_RANK_WORDS];
} wait_graph;

/* The row of a stopped rank keeps the wait that it was stopped in, although the others have come since and wait for it.
 * Such a rank waits for nobody; otherwise they would form a circle. Only states that can matter are read. */
static void read_graph(const tess_job *job, wait_graph *graph)
{
    const int world = (int)job->header->world;
    uint64_t missed[JOB_RANK_WORDS] = {0};
    for (int r = 0; r < world; r++) {
        graph->waits[r] = (tess_wait){read_wait(job, r, graph->missing[r]), graph->missing[r]};
        for (int i = 0; graph->waits[r].since_ns != 0 && i < JOB_RANK_WORDS; i++)
            missed[i] |= graph->missing[r][i];
    }
    for (int r = 0; r < world; r++) {
        if (graph->waits[r].since_ns == 0 || (missed[r / 64] >> r % 64 & 1) == 0)
            continue;
        const char state = watchdog_process_state(job, r, atomic_load(&job->rows[r].pid));
        if (state == 'T' || state == 't')
            graph->waits[r].since_ns = 0;
    }
}

static bool is_local(const tess_job *job, int rank, uint32_t state)
{
    return job->rows[rank].host == (int32_t)job->header->host && atomic_load(&job->rows[rank].state) == state;
}

/* If nobody waits for a rank: finds ranks whose device does not go on. A device that works through a long queue does.
 */
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

void watchdog_find_waits(const tess_job *job, uint64_t joined_ns, watchdog_waits *w)
{
    wait_graph graph;
    int world = (int)job->header->world, n = 0;
    read_graph(job, &graph);
    int n_missed = tess_missed_find(graph.waits, world, w->list);
    for (int i = 0; i < n_missed; i++)
        if (is_local(job, w->list[i].rank, JOB_RANK_JOINED))
            w->list[n++] = w->list[i];
    w->n = tess_missed_ends(graph.waits, w->list, n);
    for (int r = 0; joined_ns != 0 && r < world; r++)
        if (is_local(job, r, JOB_RANK_ABSENT))
            w->list[w->n++] = (tess_missed){.rank = r, .waiter = -1, .since_ns = joined_ns};
    if (w->n == 0 && n_missed == 0)
        find_devices(job, w);
    if (w->n > 0 || n == 0 || job->header->n_hosts > 1)
        return;
    w->list[0] = w->list[tess_missed_most(w->list, n)]; /* all wait, in a circle */
    w->n = 1;
}

int watchdog_count_waiters(const tess_job *job, int rank)
{
    wait_graph graph;
    bool reached[JOB_MAX_RANKS];
    read_graph(job, &graph);
    return tess_missed_count(graph.waits, (int)job->header->world, rank, reached);
}
