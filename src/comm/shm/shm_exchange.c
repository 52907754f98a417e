/* How ranks meet. An operation is a row of phases that all ranks of the team pass together:
 *
 *     meet     each posts its fingerprint and where its data is; when all have, the fingerprints are compared and the
 *              path is chosen, by everybody from the same posts
 *     direct   take from the peers' buffers (all_reduce: fold into them), then one phase more: they are free once all
 *              have taken
 *     reached  the same on private memory, which the system copies for us
 *     staged   rounds of: show a chunk in one of two stages, meet, take. A stage is written again two rounds later, and
 *              whoever came to the round between has read it
 *     fold     (staged all_reduce) between show and take each rank reduces its part of the round
 *     hosts    large data of a team over several hosts goes its own way after the meeting (hosts/rounds.c)
 *
 * A slot's counter only grows: phase k of an operation is over when it has grown by k times the team's size. */
#include "comm/hosts/hosts.h"
#include "comm/shm/shm_impl.h"

enum { INLINE_IN_PLACE_BYTES = 4096 };

enum { STEP_MEET, STEP_FOLD, STEP_TAKE, STEP_LEAVE, STEP_HOSTS };

static tess_slot *slot_of(const tess_work *work)
{
    return &work->team->control->slots[work->fp.sequence % CONTROL_SLOTS];
}

static uint64_t base_of(const tess_work *work)
{
    return work->team->slot_base[work->fp.sequence % CONTROL_SLOTS];
}

/* `rank` has come to phase `phase` of an operation; whoever is last wakes the others. */
static void count_arrival(tess_team *team, uint64_t sequence, int rank, uint64_t phase)
{
    tess_post *post = tess_control_post(team->control, team->size, sequence, rank);
    uint64_t base = team->slot_base[sequence % CONTROL_SLOTS], size = (uint64_t)team->size;
    atomic_store_explicit(&post->arrivals, base / size + phase, memory_order_release);
    uint64_t before = atomic_fetch_add(&team->control->slots[sequence % CONTROL_SLOTS].arrivals, 1);
    if (before + 1 != base + phase * size)
        return;
    for (int r = 0; r < team->size; r++)
        if (r != team->rank)
            tess_job_wake(&team->runtime->job, team->ranks[r]);
}

static void arrive(tess_work *work)
{
    work->phase++;
    count_arrival(work->team, work->fp.sequence, work->team->rank, work->phase);
}

void tess_exchange_arrive_for(tess_team *team, uint64_t sequence, int rank)
{
    count_arrival(team, sequence, rank, 1);
}

static bool phase_over(const tess_work *work)
{
    return atomic_load(&slot_of(work)->arrivals) >= base_of(work) + work->phase * (uint64_t)work->team->size;
}

static bool shows(const tess_work *work, int rank)
{
    return !work->collective->root_shows || rank == work->root;
}

static size_t n_blocks(const tess_work *work)
{
    return work->collective->block_per_rank ? (size_t)work->team->size : 1;
}

static void show_equal_blocks(const tess_work *work, uint8_t *to)
{
    size_t element = shm_element(work), blocks = n_blocks(work);
    for (size_t b = 0; b < blocks; b++)
        if (blocks == 1 || b != (size_t)work->team->rank) /* who reads its own block reads it where it is */
            memcpy(to + b * shm_stride(work), work->in + (b * work->n + work->first) * element, work->count * element);
}

static void show(tess_work *work, uint8_t *to)
{
    if (work->collective->show != NULL)
        work->collective->show(work, to);
    else
        show_equal_blocks(work, to);
}

static const shm_collective *collective_of(int kind)
{
    switch (kind) {
    case TESS_TRACE_REDUCE_SCATTER:
        return &shm_reduce_scatter;
    case TESS_TRACE_ALL_REDUCE:
        return &shm_all_reduce;
    case TESS_TRACE_BROADCAST:
        return &shm_broadcast;
    case TESS_TRACE_ALL_TO_ALL:
        return &shm_all_to_all;
    case TESS_TRACE_ALL_TO_ALL_V:
        return &shm_all_to_all_v;
    case TESS_TRACE_GATHER:
        return &shm_gather;
    case TESS_TRACE_SCATTER:
        return &shm_scatter;
    case TESS_TRACE_BARRIER:
        return &shm_barrier;
    case TESS_TRACE_ALL_GATHER_PIECES:
        return &shm_all_gather_pieces;
    case TESS_TRACE_REDUCE_SCATTER_PIECES:
        return &shm_reduce_scatter_pieces;
    default:
        return &shm_all_gather; /* and the exchanges of setup, which gather a few bytes */
    }
}

/* What peers can read in place is not worth two copies, unless it is short. */
static bool shows_inline(const tess_work *work, const tess_post *post)
{
    size_t bytes = n_blocks(work) * work->n * shm_element(work);
    bool in_place = shows(work, work->team->rank) && post->in_offset != CONTROL_PRIVATE;
    return work->collective->may_be_inline && bytes <= (in_place ? INLINE_IN_PLACE_BYTES : CONTROL_INLINE);
}

static void start(tess_work *work)
{
    tess_team *team = work->team;
    const shm_collective *c = collective_of(work->fp.kind);
    tess_post *post = shm_post(work, team->rank);
    work->collective = c;
    work->step = STEP_MEET;
    work->path = SHM_STAGED;
    post->fingerprint = work->fp;
    post->digest = tess_fingerprint_digest(&work->fp);
    post->site = tess_fingerprint_site(&work->fp);
    post->in_offset = c->never_direct ? CONTROL_PRIVATE : tess_offset_of(team->runtime, work->in, work->in_bytes);
    post->out_offset = tess_offset_of(team->runtime, work->out, work->out_bytes);
    post->in_address = (uint64_t)(uintptr_t)work->in;
    post->out_address = (uint64_t)(uintptr_t)work->out;
    post->beside = 0;
    if (c->post != NULL)
        c->post(work, post);
    post->shown = shows_inline(work, post);
    if (post->shown != 0 && shows(work, team->rank) && work->n > 0) {
        work->path = SHM_INLINE;
        work->count = work->n;
        show(work, shm_inline(work, team->rank));
        post->beside = n_blocks(work) * work->n * shm_element(work);
    }
    if (team->hosts != NULL)
        work->status = tess_hosts_post(work, post, post->beside);
    arrive(work);
}

static bool all_shown(const tess_work *work)
{
    for (int r = 0; r < work->team->size; r++)
        if (shm_post(work, r)->shown == 0)
            return false;
    return true;
}

/* True when the operation's data can be read where it is. */
static bool all_direct(const tess_work *work)
{
    for (int r = 0; r < work->team->size; r++) {
        const tess_post *post = shm_post(work, r);
        if (shows(work, r) && post->in_offset == CONTROL_PRIVATE)
            return false;
        if (work->collective->fold != NULL && post->out_offset == CONTROL_PRIVATE)
            return false;
    }
    return true;
}

/* The data is where it can be had without rounds.
 *
 * A rank that finds a peer's memory unreadable arrives once more, as others may have nothing to do with what it missed,
 * and then never again (advance). So who only took from buffers completes, with the right data; and no one completes
 * with a sum of which this rank has folded a part from garbage, as the phase that takes such parts needs everybody. */
static void take_at_once(tess_work *work, int path)
{
    const shm_collective *c = work->collective;
    work->path = path;
    work->count = work->n;
    work->step = STEP_LEAVE;
    if (c->fold != NULL) {
        c->fold(work);
        if (path == SHM_REACHED)
            work->step = STEP_TAKE; /* results are in private memory as well */
    } else {
        c->take(work);
    }
    arrive(work);
}

static void begin_round(tess_work *work)
{
    tess_team *team = work->team;
    size_t left = work->n - work->first;
    work->count = left < work->per_round ? left : work->per_round;
    work->area = (int)(team->n_stages++ % 2);
    if (shows(work, team->rank))
        show(work, shm_stage(work, team->rank, work->area));
    work->step = work->collective->fold != NULL ? STEP_FOLD : STEP_TAKE;
    arrive(work);
}

static bool complete(tess_work *work)
{
    work->team->slot_base[work->fp.sequence % CONTROL_SLOTS] += work->phase * (uint64_t)work->team->size;
    return true;
}

static bool fail(tess_work *work, tess_status status)
{
    work->status = status;
    return true;
}

static bool all_agree(const tess_work *work)
{
    uint64_t mine = shm_post(work, work->team->rank)->digest;
    bool agree = true;
    for (int r = 0; COMM_IS_GUARDED && r < work->team->size && agree; r++)
        agree = shm_post(work, r)->digest == mine;
    return agree;
}

static comm_place *place_of(tess_team *team, uint32_t site)
{
    return &team->places[site / 2 % COMM_PLACES];
}

/* All have met at `site`: so they did at the one before, and that is the order, as long as it is the only one. */
static void note_meeting(tess_team *team, uint32_t site)
{
    comm_place *place = place_of(team, site), *before = place_of(team, team->last_place);
    if ((place->site & ~UINT32_C(1)) != site)
        *place = (comm_place){.site = site};
    if (site == 0 || (before->next != 0 && before->next != site))
        before->has_many_next |= team->last_place != 0;
    else if (team->last_place != 0)
        before->next = site;
    team->last_place = site;
}

/* Not all call from one place. One where they have not all met, or of which nothing is known (0), is a branch that some
 * ranks take, and stays one. */
static bool is_branch(const tess_work *work)
{
    tess_team *team = work->team;
    bool branch = false;
    for (int r = 0; r < team->size; r++) {
        uint32_t site = shm_post(work, r)->site;
        branch = branch || site == 0 || place_of(team, site)->site != site;
    }
    for (int r = 0; r < team->size && branch; r++) {
        uint32_t site = shm_post(work, r)->site;
        *place_of(team, site) = (comm_place){.site = site | 1};
    }
    return branch;
}

/* After the last meeting all have always gone to one place, and some have gone there now: the others have two
 * operations in another order. Where all have gone now here and now there, it depends on data, and that may be uneven.
 */
static bool breaks_order(const tess_work *work)
{
    tess_team *team = work->team;
    const comm_place *before = place_of(team, team->last_place);
    bool some = false;
    if (team->last_place == 0 || before->site != team->last_place || before->has_many_next)
        return false;
    for (int r = 0; r < team->size; r++)
        some = some || shm_post(work, r)->site == before->next;
    return some;
}

static bool places_agree(const tess_work *work)
{
    tess_team *team = work->team;
    uint32_t site = shm_post(work, team->rank)->site;
    bool agree = true;
    for (int r = 0; COMM_IS_GUARDED && r < team->size && agree; r++)
        agree = shm_post(work, r)->site == site;
    if (agree) {
        note_meeting(team, site);
        return true;
    }
    bool broken = breaks_order(work);
    team->last_place = 0;
    return is_branch(work) || !broken;
}

/* All have posted. True when the operation is over. */
static bool meet(tess_work *work)
{
    tess_team *team = work->team;
    const shm_collective *c = work->collective;
    tess_status status = TESS_OK;
    bool alike = all_agree(work);
    if (!alike || !places_agree(work)) {
        int guilty;
        status = tess_fingerprint_compare(&shm_post(work, 0)->fingerprint, sizeof(tess_post), team->size, team->ranks,
                                          team->name, alike, &guilty);
        tess_team_break(team, status, guilty);
        return fail(work, status);
    }
    if (c->meet != NULL) {
        status = c->meet(work);
        if (status != TESS_OK)
            return fail(work, status);
    }
    work->is_short = work->n == 0 || work->path == SHM_NOTHING || all_shown(work);
    if (!work->is_short)
        tess_work_record(work, TESS_TRACE_STARTED);
    if (work->n == 0 || work->path == SHM_NOTHING)
        return complete(work);
    if (work->is_short) {
        work->path = SHM_INLINE;
        work->count = work->n;
        c->take(work);
        return complete(work);
    }
    work->path = SHM_STAGED;
    if (team->hosts != NULL) {
        work->step = STEP_HOSTS;
        status = tess_hosts_begin(work);
        return status != TESS_OK && fail(work, status);
    }
    if (all_direct(work) || shm_can_reach(work)) {
        take_at_once(work, all_direct(work) ? SHM_DIRECT : SHM_REACHED);
        return false;
    }
    size_t per_round = CONTROL_STAGE / (n_blocks(work) * shm_element(work));
    work->per_round = per_round / 64 * 64;
    begin_round(work);
    return false;
}

static bool advance(tess_work *work)
{
    if (work->team->hosts != NULL && work->status == TESS_OK)
        work->status = tess_hosts_receive_posts(work->team);
    if (work->status != TESS_OK)
        return true;
    while (work->unreadable == 0 && phase_over(work)) {
        const shm_collective *c = work->collective;
        switch (work->step) {
        case STEP_MEET:
            if (meet(work))
                return true;
            break;
        case STEP_FOLD:
            c->fold(work);
            work->step = STEP_TAKE;
            arrive(work);
            break;
        case STEP_TAKE:
            c->take(work);
            if (work->path == SHM_REACHED) {
                work->step = STEP_LEAVE;
                arrive(work);
                break;
            }
            work->first += work->count;
            if (work->first == work->n)
                return complete(work);
            begin_round(work);
            break;
        case STEP_HOSTS:
            if (!tess_hosts_advance(work))
                return false;
            return work->status != TESS_OK || complete(work);
        default:
            return complete(work);
        }
    }
    return false;
}

static int missing(const tess_work *work, int *ranks)
{
    const tess_team *team = work->team;
    if (work->fp.kind == TESS_TRACE_SEND || work->fp.kind == TESS_TRACE_RECV) {
        ranks[0] = work->root;
        return 1;
    }
    if (work->unreadable != 0) {
        ranks[0] = work->unreadable - 1;
        return 1;
    }
    /* Ranks that have not come to the phase where this work stands; a work that is not the oldest waits for those that
     * the oldest waits for. */
    const tess_work *oldest = team->head != NULL ? team->head : work;
    if (oldest->step == STEP_HOSTS)
        return tess_hosts_missing(oldest, ranks);
    uint64_t arrivals = base_of(oldest) / (uint64_t)team->size + oldest->phase;
    bool named[JOB_MAX_RANKS] = {false};
    int n = 0;
    for (int r = 0; r < team->size; r++) {
        if (atomic_load(&shm_post(oldest, r)->arrivals) >= arrivals)
            continue;
        int late = team->hosts != NULL ? tess_hosts_late(oldest, r) : r;
        if (!named[late])
            ranks[n++] = late;
        named[late] = true;
    }
    return n;
}

const comm_backend tess_backend_shm = {.name = "shm", .start = start, .advance = advance, .missing = missing};
const comm_backend tess_backend_mpi = {.name = "mpi", .start = start, .advance = advance, .missing = missing};
