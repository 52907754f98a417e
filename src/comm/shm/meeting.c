/* Posts operations, lets ranks meet, and compares their fingerprints. */
#include "comm/shm/shm_impl.h"

enum { INLINE_IN_PLACE_BYTES = 4096 };

void shm_arrive_for(tess_team *team, uint64_t sequence, int rank, uint64_t phase)
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

void shm_arrive(tess_work *work)
{
    shm_of(work)->phase++;
    shm_arrive_for(work->team, work->fp.sequence, work->team->rank, shm_of(work)->phase);
}

static const shm_collective *collective_of(int kind)
{
    static const shm_collective *const collectives[TESS_TRACE_OP_COUNT] = {
        [TESS_TRACE_REDUCE_SCATTER] = &shm_reduce_scatter,
        [TESS_TRACE_ALL_REDUCE] = &shm_all_reduce,
        [TESS_TRACE_BROADCAST] = &shm_broadcast,
        [TESS_TRACE_ALL_TO_ALL] = &shm_all_to_all,
        [TESS_TRACE_ALL_TO_ALL_V] = &shm_all_to_all_v,
        [TESS_TRACE_GATHER] = &shm_gather,
        [TESS_TRACE_SCATTER] = &shm_scatter,
        [TESS_TRACE_BARRIER] = &shm_barrier,
        [TESS_TRACE_ALL_GATHER_PIECES] = &shm_all_gather_pieces,
        [TESS_TRACE_REDUCE_SCATTER_PIECES] = &shm_reduce_scatter_pieces,
    };
    return collectives[kind] != NULL ? collectives[kind]
                                     : &shm_all_gather; /* setup exchanges also gather a few bytes */
}

static void show_equal_blocks(const tess_work *work, uint8_t *to)
{
    size_t element = shm_element(work), blocks = shm_blocks(work);
    for (size_t b = 0; b < blocks; b++)
        if (blocks == 1 || b != (size_t)work->team->rank) /* a rank reads its own block in place */
            memcpy(to + b * shm_stride(work), work->in + (b * work->n + shm_of(work)->first) * element,
                   shm_of(work)->count * element);
}

void shm_show(tess_work *work, uint8_t *to)
{
    if (shm_of(work)->collective->show != NULL)
        shm_of(work)->collective->show(work, to);
    else
        show_equal_blocks(work, to);
}

/* Data that peers can read in place is copied next to the post only if it is short. */
static bool shows_inline(const tess_work *work, const tess_post *post)
{
    size_t bytes = shm_blocks(work) * work->n * shm_element(work);
    bool in_place = shm_shows(work, work->team->rank) && post->in_offset != CONTROL_PRIVATE;
    return shm_of(work)->collective->may_be_inline && bytes <= (in_place ? INLINE_IN_PLACE_BYTES : CONTROL_INLINE);
}

static void post_call(tess_work *work, const shm_collective *c)
{
    tess_post *post = shm_post(work, work->team->rank);
    shm_of(work)->collective = c;
    shm_of(work)->path = SHM_STAGED;
    post->fingerprint = work->fp;
    post->digest = tess_fingerprint_digest(&work->fp);
    post->site = tess_fingerprint_site(&work->fp);
    post->beside = 0;
    post->shown = 0;
}

void shm_post_request(tess_work *work)
{
    tess_team *team = work->team;
    const shm_collective *c = collective_of(work->fp.kind);
    tess_post *post = shm_post(work, team->rank);
    post_call(work, c);
    post->in_offset = c->never_direct ? CONTROL_PRIVATE : tess_offset_of(team->runtime, work->in, work->in_bytes);
    post->out_offset = tess_offset_of(team->runtime, work->out, work->out_bytes);
    post->in_address = (uint64_t)(uintptr_t)work->in;
    post->out_address = (uint64_t)(uintptr_t)work->out;
    if (c->post != NULL)
        c->post(work, post);
    post->shown = shows_inline(work, post);
    if (post->shown != 0 && shm_shows(work, team->rank) && work->n > 0) {
        shm_of(work)->path = SHM_INLINE;
        shm_of(work)->count = work->n;
        shm_show(work, shm_inline(work, team->rank));
        post->beside = shm_blocks(work) * work->n * shm_element(work);
    }
}

/* The data is not in the control area: the backend moves it. */
static tess_status meet_on_device(tess_work *work)
{
    work->n = work->fp.count;
    return TESS_OK;
}

static const shm_collective on_device = {.meet = meet_on_device};

tess_post *shm_post_on_device(tess_work *work)
{
    post_call(work, &on_device);
    return shm_post(work, work->team->rank);
}

static bool all_shown(const tess_work *work)
{
    for (int r = 0; r < work->team->size; r++)
        if (shm_post(work, r)->shown == 0)
            return false;
    return true;
}

bool shm_complete(tess_work *work)
{
    work->team->slot_base[work->fp.sequence % CONTROL_SLOTS] += shm_of(work)->phase * (uint64_t)work->team->size;
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

/* Records that all ranks have met at `site`, after the last site where all met. This is taken as the order until
 * another site follows. */
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

/* Records that ranks called from different sites. A site where not all ranks have met, or an unknown site (0), is a
 * branch that only some ranks take. It stays marked as such. */
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

/* Whether ranks have two operations in different order. That is so if all ranks have always gone from the last
 * meeting to one site, and only some have gone there now. Sites that vary depend on data, which may differ between
 * ranks. */
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

bool shm_meet(tess_work *work)
{
    tess_team *team = work->team;
    const shm_collective *c = shm_of(work)->collective;
    tess_status status = TESS_OK;
    bool alike = all_agree(work);
    if (!alike || !places_agree(work)) {
        int culprit;
        status = tess_fingerprint_compare(&shm_post(work, 0)->fingerprint, sizeof(tess_post), team->size, team->ranks,
                                          team->name, alike, team->lists.listed, &culprit);
        tess_team_break(team, status, culprit);
        return fail(work, status);
    }
    if (c->meet != NULL) {
        status = c->meet(work);
        if (status != TESS_OK)
            return fail(work, status);
    }
    work->is_short = work->n == 0 || shm_of(work)->path == SHM_NOTHING || all_shown(work);
    if (!work->is_short)
        tess_work_record(work, TESS_TRACE_STARTED);
    if (work->n == 0 || shm_of(work)->path == SHM_NOTHING)
        return shm_complete(work);
    if (work->is_short) {
        shm_of(work)->path = SHM_INLINE;
        shm_of(work)->count = work->n;
        c->take(work);
        return shm_complete(work);
    }
    shm_of(work)->path = SHM_STAGED;
    return false;
}

int shm_missing(const tess_work *work, int (*late)(const tess_work *oldest, int rank), int *ranks)
{
    const tess_team *team = work->team;
    if (tess_work_is_message(work)) {
        ranks[0] = work->root;
        return 1;
    }
    if (shm_of(work)->unreadable != 0) {
        ranks[0] = shm_of(work)->unreadable - 1;
        return 1;
    }
    /* Lists the ranks that have not reached the current phase of this work. A work that is not the oldest waits for
     * the ranks that the oldest waits for. */
    const tess_work *oldest = team->head != NULL ? team->head : work;
    uint64_t arrivals = shm_base(oldest) / (uint64_t)team->size + shm_of(oldest)->phase;
    bool *named = team->lists.named;
    int n = 0;
    memset(named, 0, (size_t)team->size * sizeof(*named));
    for (int r = 0; r < team->size; r++) {
        if (atomic_load(&shm_post(oldest, r)->arrivals) >= arrivals)
            continue;
        int rank = late != NULL ? late(oldest, r) : r;
        if (!named[rank])
            ranks[n++] = rank;
        named[rank] = true;
    }
    return n;
}
