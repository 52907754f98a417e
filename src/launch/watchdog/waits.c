/* Who is waited for. A rank that waits itself is explained by whom it waits for: only the ends of such chains count. */
#include "launch/watchdog/watchdog_impl.h"

static bool has(const uint64_t *set, int rank)
{
    return (set[rank / 64] >> rank % 64 & 1) != 0;
}

/* Since when `rank` has waited, and for whom; 0: it waits for nobody. */
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

static bool waits(const tess_job *job, int rank)
{
    uint64_t missing[JOB_RANK_WORDS];
    return read_wait(job, rank, missing) != 0;
}

static bool is_ours(const tess_job *job, int rank)
{
    return job->rows[rank].host == (int32_t)job->header->host;
}

static void add(watchdog_waits *w, int rank, int waiter, uint64_t since_ns)
{
    for (int i = 0; i < w->n; i++) {
        if (w->ranks[i] != rank)
            continue;
        if (since_ns < w->since_ns[i]) {
            w->since_ns[i] = since_ns;
            w->waiter[i] = waiter;
        }
        w->n_waiting[i]++;
        return;
    }
    w->ranks[w->n] = rank;
    w->waiter[w->n] = waiter;
    w->n_waiting[w->n] = 1;
    w->since_ns[w->n++] = since_ns;
}

/* Adds those that `waiter` waits for: without `chains` only those that wait for nobody themselves. */
static void add_missing(const tess_job *job, int waiter, bool chains, watchdog_waits *w)
{
    uint64_t missing[JOB_RANK_WORDS], since_ns = read_wait(job, waiter, missing);
    for (int i = 0; since_ns != 0 && i < JOB_RANK_WORDS; i++) {
        for (uint64_t left = missing[i]; left != 0; left &= left - 1) {
            int r = i * 64 + __builtin_ctzll(left);
            bool can = r < (int)job->header->world && r != waiter && is_ours(job, r);
            if (can && atomic_load(&job->rows[r].state) == JOB_RANK_JOINED && (chains || !waits(job, r)))
                add(w, r, waiter, since_ns);
        }
    }
}

static void add_absent(const tess_job *job, uint64_t joined_ns, watchdog_waits *w)
{
    for (int r = 0; joined_ns != 0 && r < (int)job->header->world; r++)
        if (is_ours(job, r) && atomic_load(&job->rows[r].state) == JOB_RANK_ABSENT)
            add(w, r, -1, joined_ns);
}

/* All who are waited for wait themselves, in a circle: the one that most wait for stands for it. */
static void keep_most_missed(watchdog_waits *w)
{
    int most = 0;
    for (int i = 1; i < w->n; i++)
        if (w->n_waiting[i] > w->n_waiting[most])
            most = i;
    if (w->n == 0)
        return;
    w->ranks[0] = w->ranks[most];
    w->waiter[0] = w->waiter[most];
    w->since_ns[0] = w->since_ns[most];
    w->n = 1;
}

void watchdog_find_waits(const tess_job *job, uint64_t joined_ns, watchdog_waits *w)
{
    int world = (int)job->header->world;
    bool anybody = false;
    w->n = 0;
    for (int r = 0; r < world; r++) {
        anybody |= atomic_load_explicit(&job->rows[r].wait_since_ns, memory_order_relaxed) != 0;
        add_missing(job, r, false, w);
    }
    add_absent(job, joined_ns, w);
    if (!anybody || w->n > 0 || job->header->n_hosts > 1)
        return;
    for (int r = 0; r < world; r++)
        add_missing(job, r, true, w);
    keep_most_missed(w);
}

int watchdog_count_waiters(const tess_job *job, int rank)
{
    int world = (int)job->header->world, n = 0;
    uint64_t reached[JOB_RANK_WORDS] = {0}, missing[JOB_RANK_WORDS];
    reached[rank / 64] |= UINT64_C(1) << rank % 64;
    for (bool grows = true; grows;) {
        grows = false;
        for (int r = 0; r < world; r++) {
            if (has(reached, r) || read_wait(job, r, missing) == 0)
                continue;
            bool leads = false;
            for (int i = 0; i < JOB_RANK_WORDS; i++)
                leads |= (missing[i] & reached[i]) != 0;
            if (!leads)
                continue;
            reached[r / 64] |= UINT64_C(1) << r % 64;
            grows = true;
            n++;
        }
    }
    return n;
}
