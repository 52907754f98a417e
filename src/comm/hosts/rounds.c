/* The pipeline of a large operation. Round g of the team uses area g modulo HOSTS_AREAS of every rank. So a rank can
 * be at most HOSTS_AREAS rounds ahead of the slowest rank of its host. Counters in shared memory show the other
 * ranks of the host which round each rank has reached. */
#include "base/os/os.h"
#include "comm/hosts/hosts_impl.h"

enum { LONGEST_LOOK_NS = 1000000000 };

/* ---- Counters ---- */
static void post_stage(const tess_work *work, hosts_stage stage, uint64_t rounds)
{
    const tess_team *team = work->team;
    const comm_hosts *h = hosts_of(team);
    atomic_store(&h->counters[h->index].rounds[stage], rounds);
    for (int i = 0; i < hosts_n_local(h, h->mine); i++)
        if (i != h->index)
            tess_job_wake(&team->runtime->job, team->ranks[hosts_local_rank(h, i)]);
}

/* Whether all ranks of this host have completed the stage in `rounds` rounds. */
static bool all_have(const comm_hosts *h, hosts_stage stage, uint64_t rounds)
{
    bool all = true;
    for (int i = 0; i < hosts_n_local(h, h->mine) && all; i++)
        all = atomic_load(&h->counters[i].rounds[stage]) >= rounds;
    return all;
}

/* ---- The pipeline ---- */
static void begin_pass(const tess_work *work)
{
    comm_hosts *h = hosts_of(work->team);
    hosts_rounds *r = h->rounds;
    const hosts_pass *pass = &r->pass[r->at];
    r->base = h->n_rounds;
    r->shown = r->folded = r->landed = r->taken = 0;
    r->per_round = pass->block;
    if (pass->element > 0) {
        size_t most = HOSTS_AREA_BYTES / pass->element, good = r->round_bytes / sizeof(float);
        size_t all = (pass->block + 63) / 64 * 64, longest = (most < good ? most : good) / 64 * 64;
        r->per_round = all < longest ? all : longest;
    }
    r->n = (pass->block + r->per_round - 1) / r->per_round;
    /* Counts the part of the areas that has been used, because pages exist only after they are touched. */
    size_t used = (r->n < HOSTS_AREAS ? r->n : HOSTS_AREAS) * r->per_round * pass->element;
    if (used > h->used) {
        tess_mem_count(work->team->runtime->mem, TESS_POOL_COMM, (int64_t)(used - h->used));
        h->used = used;
    }
}

static void plan_passes(tess_work *work)
{
    switch (work->fp.kind) {
    case TESS_TRACE_REDUCE_SCATTER:
    case TESS_TRACE_REDUCE_SCATTER_PIECES:
    case TESS_TRACE_ALL_REDUCE:
        hosts_plan_fold(work);
        break;
    case TESS_TRACE_ALL_TO_ALL:
    case TESS_TRACE_ALL_TO_ALL_V:
    case TESS_TRACE_GATHER:
    case TESS_TRACE_SCATTER:
        hosts_plan_straight(work);
        break;
    default:
        hosts_plan_gather(work);
    }
}

/* Whether an area holds at least 64 elements, the minimum of a round. It does not if a rank handles too many other
 * ranks. */
static bool areas_suffice(const hosts_rounds *r)
{
    bool suffice = true;
    for (int i = 0; i < r->n_passes; i++)
        suffice = suffice && HOSTS_AREA_BYTES / 64 >= r->pass[i].element;
    return suffice;
}

tess_status hosts_begin(tess_work *work)
{
    comm_hosts *h = hosts_of(work->team);
    hosts_rounds *r = h->rounds;
    size_t bytes = work->in_bytes > work->out_bytes ? work->in_bytes : work->out_bytes;
    tess_hosts_choice choice = tess_hosts_choose(work->team->runtime->tuning, work->fp.kind, bytes);
    r->way = &h->ways[choice.way];
    r->round_bytes = choice.round_bytes;
    r->at = r->n_passes = 0;
    r->siblings_read = false;
    if (hosts_is_native(work))
        return hosts_begin_native(work);
    plan_passes(work);
    if (!areas_suffice(r)) {
        r->way = &h->ways[HOSTS_STRIPED];
        plan_passes(work);
    }
    TESS_CHECK(
        areas_suffice(r), TESS_E_UNSUPPORTED,
        "team '%s': its %d ranks take turns on %d hosts, which leaves no room for so many partial sums; split it so "
        "that ranks of a host follow each other",
        work->team->name, work->team->size, h->n_hosts);
    begin_pass(work);
    return TESS_OK;
}

/* Whether the area is free: all ranks of this host have taken its last round, and our messages have left it. */
static tess_status may_show(const comm_hosts *h, hosts_rounds *r, bool *may)
{
    uint64_t round = r->base + r->shown;
    *may = r->shown < r->n && (round < HOSTS_AREAS || all_have(h, HOSTS_TAKEN, round - HOSTS_AREAS + 1));
    return *may ? hosts_test_batch(&r->sends[round % HOSTS_AREAS], may) : TESS_OK;
}

/* Takes one step of the pipeline that is possible now. Sets *moved to false if none is. */
static tess_status move(tess_work *work, bool *moved)
{
    comm_hosts *h = hosts_of(work->team);
    hosts_rounds *r = h->rounds;
    const hosts_pass *pass = &r->pass[r->at];
    bool may, done = false;
    *moved = true;
    TESS_TRY(may_show(h, r, &may));
    if (may) {
        uint64_t round = r->base + r->shown;
        TESS_TRY(pass->receive(work, round));
        TESS_TRY(pass->show(work, round));
        r->shown++;
        post_stage(work, HOSTS_SHOWN, round + 1);
        return TESS_OK;
    }
    if (!pass->folds) {
        r->folded = r->shown;
    } else if (r->folded < r->shown && all_have(h, HOSTS_SHOWN, r->base + r->folded + 1)) {
        TESS_TRY(pass->fold(work, r->base + r->folded));
        r->folded++;
        return TESS_OK;
    }
    if (r->landed < r->folded) {
        TESS_TRY(hosts_test_batch(&r->receives[(r->base + r->landed) % HOSTS_AREAS], &done));
        if (done) {
            r->landed++;
            post_stage(work, HOSTS_LANDED, r->base + r->landed);
            return TESS_OK;
        }
    }
    if (r->taken < r->landed && all_have(h, HOSTS_LANDED, r->base + r->taken + 1)) {
        pass->take(work, r->base + r->taken);
        r->taken++;
        post_stage(work, HOSTS_TAKEN, r->base + r->taken);
        return TESS_OK;
    }
    *moved = false;
    return TESS_OK;
}

static tess_status pass_over(const comm_hosts *h, hosts_rounds *r, bool *over)
{
    *over = r->taken == r->n && (!r->siblings_read || all_have(h, HOSTS_TAKEN, r->base + r->n));
    for (int area = 0; area < HOSTS_AREAS && *over; area++)
        TESS_TRY(hosts_test_batch(&r->sends[area], over));
    return TESS_OK;
}

static tess_status advance(tess_work *work, bool *over)
{
    comm_hosts *h = hosts_of(work->team);
    hosts_rounds *r = h->rounds;
    if (r->n_passes == 0)
        return tess_wire_test(&r->native, over);
    for (;;) {
        for (bool moved = true; moved;)
            TESS_TRY(move(work, &moved));
        TESS_TRY(pass_over(h, r, over));
        if (!*over)
            return TESS_OK;
        h->n_rounds += r->n;
        if (++r->at == r->n_passes)
            return TESS_OK;
        begin_pass(work);
    }
}

/* Returns the sender of the oldest message that has not arrived; -1: none. */
static int find_awaited(const hosts_rounds *r)
{
    for (int area = 0; area < HOSTS_AREAS; area++) {
        const hosts_batch *batch = &r->receives[area];
        if (batch->n_done < batch->n)
            return batch->messages[batch->n_done].peer;
    }
    return -1;
}

bool hosts_advance(tess_work *work)
{
    const comm_hosts *h = hosts_of(work->team);
    bool over = false;
    work->status = advance(work, &over);
    atomic_store_explicit(&h->counters[h->index].waits_for, find_awaited(h->rounds) + 1, memory_order_relaxed);
    return over || work->status != TESS_OK;
}

static bool is_behind(const hosts_counter *counter, const hosts_rounds *r)
{
    const uint64_t ours[HOSTS_STAGES] = {
        [HOSTS_SHOWN] = r->shown, [HOSTS_LANDED] = r->landed, [HOSTS_TAKEN] = r->taken};
    bool behind = false;
    for (int stage = 0; stage < HOSTS_STAGES && !behind; stage++)
        behind = atomic_load(&counter->rounds[stage]) < r->base + ours[stage];
    return behind;
}

/* Whether the rank's waits_for is current. A waiting rank writes its heartbeat at every poll, so a recent heartbeat
 * proves it. */
static bool is_waiting(const tess_work *work, int index)
{
    const tess_team *team = work->team;
    const tess_job_row *row = &team->runtime->job.rows[team->ranks[hosts_local_rank(hosts_of(team), index)]];
    uint64_t seen = atomic_load(&row->heartbeat_ns), now = tess_os_now_ns();
    return now <= seen || now - seen < LONGEST_LOOK_NS;
}

/* Lists the ranks to blame for messages that have not arrived here or at a slower sibling that waits for them: their
 * senders. A slower sibling that does not wait is listed itself. */
int hosts_missing(const tess_work *work, int *ranks)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_rounds *r = h->rounds;
    bool *named = work->team->lists.named;
    int n = 0;
    memset(named, 0, (size_t)work->team->size * sizeof(*named));
    for (int i = 0; i < hosts_n_local(h, h->mine); i++) {
        int awaited = atomic_load(&h->counters[i].waits_for) - 1;
        bool behind = i != h->index && is_behind(&h->counters[i], r);
        bool reported = awaited >= 0 && (i == h->index || (behind && is_waiting(work, i)));
        int rank = reported ? awaited : behind ? hosts_local_rank(h, i) : -1;
        if (rank >= 0 && !named[rank])
            ranks[n++] = rank;
        if (rank >= 0)
            named[rank] = true;
    }
    /* No rank of this host is slower, so the receivers of our messages are to blame. */
    for (int area = 0; n == 0 && area < HOSTS_AREAS; area++)
        if (r->sends[area].n_done < r->sends[area].n)
            ranks[n++] = r->sends[area].messages[r->sends[area].n_done].peer;
    return n;
}
