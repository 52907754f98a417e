#include "comm/hosts/linked.h"

#include "base/core/rng.h"
#include "base/mem/scoped.h"

enum { STEP_MEET, STEP_READY, STEP_MOVE, STEP_EXCHANGED, STEP_LANDED, STEP_TAKE, STEP_TAKEN, STEP_LEAVE };

/* ---- The link ---- */
/* Whether all ranks have succeeded so far. The result is the same on all ranks. */
static tess_status all_can(tess_team *team, tess_status mine, bool *can)
{
    int32_t could = mine == TESS_OK, *all = (int32_t *)(void *)team->lists.exchanged;
    TESS_TRY(tess_team_exchange(team, TESS_TRACE_WINDOW_ALLOC, 0, tess_hash_text("link"), __builtin_return_address(0),
                                &could, all, sizeof(could)));
    *can = ondevice_all_can(team, all, "between hosts, collectives");
    return TESS_OK;
}

static tess_status make_link(tess_team *team, const nccl_id *id, tess_nccl_link **link)
{
    TESS_TRY(hosts_link_create(team, team->rank, team->size, id, link));
    return tess_nccl_wait(*link);
}

static tess_status prepare(const tess_team *team, nccl_id *id)
{
    TESS_TRY(tess_nccl_check(team->runtime->device->device));
    return team->rank == 0 ? tess_nccl_id_create(id) : TESS_OK;
}

static tess_status connect(tess_team *team, hosts_linked *l, bool *can)
{
    nccl_id id = {.bytes = {0}};
    TESS_TRY(all_can(team, prepare(team, &id), can));
    if (!*can)
        return TESS_OK;
    TESS_TRY(tess_broadcast(team, &id, sizeof(id), TESS_U8, 0, NULL));
    return all_can(team, make_link(team, &id, &l->link), can);
}

static void close_link(tess_team *team, bool orderly)
{
    comm_hosts *h = hosts_of(team);
    tess_mem *mem = team->runtime->mem;
    hosts_linked *l = h->linked;
    if (l == NULL)
        return;
    h->linked = NULL;
    tess_nccl_link_destroy(&l->link, orderly);
    ondevice_window_hide(team, l->buffer, __builtin_return_address(0));
    tess_mem_free(mem, l->messages);
    tess_mem_free(mem, l);
}

tess_status tess_hosts_link(tess_team *team)
{
    comm_hosts *h = hosts_of(team);
    hosts_linked *l;
    bool can = false;
    if (h->link_tried)
        return TESS_OK;
    h->link_tried = true;
    TESS_TRY(TESS_NEW(team->runtime->mem, 1, "link", &l));
    tess_status status = connect(team, l, &can);
    if (status == TESS_OK && can)
        status = ondevice_window_alloc(team, TESS_POOL_COMM, HOSTS_LINK_BYTES, "messages", __builtin_return_address(0),
                                       (void **)&l->buffer);
    if (status == TESS_OK && can)
        l->window = ondevice_find(team, l->buffer);
    l->bytes = HOSTS_LINK_BYTES;
    h->linked = l;
    if (l->window == NULL)
        /* otherwise some ranks have no link, and closing cannot be collective */
        close_link(team, status == TESS_OK && can);
    return status;
}

void tess_hosts_unlink(tess_team *team, bool orderly)
{
    if (tess_team_is_local(team) || team->state == NULL)
        return;
    hosts_pairs_close(team, orderly);
    close_link(team, orderly);
}

bool tess_hosts_is_linked(const tess_team *team)
{
    return !tess_team_is_local(team) && hosts_of(team)->linked != NULL;
}

/* ---- Siblings ---- */
static void arrive(tess_work *work, hosts_device_stage stage)
{
    const tess_team *team = work->team;
    const comm_hosts *h = hosts_of(team);
    atomic_store(&h->counters[h->index].on_device[stage], ++h->linked->done[stage]);
    linked_of(work)->stage = stage;
    for (int i = 0; i < hosts_n_local(h, h->mine); i++)
        if (i != h->index)
            tess_job_wake(&team->runtime->job, team->ranks[hosts_local_rank(h, i)]);
}

static bool has_arrived(const comm_hosts *h, int index, hosts_device_stage stage)
{
    return atomic_load(&h->counters[index].on_device[stage]) >= h->linked->done[stage];
}

static bool all_arrived(const tess_work *work)
{
    const comm_hosts *h = hosts_of(work->team);
    bool all = true;
    for (int i = 0; i < hosts_n_local(h, h->mine) && all; i++)
        all = has_arrived(h, i, linked_of(work)->stage);
    return all;
}

/* Lists siblings that are late. If none is late, lists the siblings whose messages this rank's GPU awaits. */
static int missing(const tess_work *work, int *ranks)
{
    const comm_hosts *h = hosts_of(work->team);
    const hosts_way *way = &h->ways[HOSTS_STRIPED];
    const tess_work *oldest = work->team->head != NULL ? work->team->head : work;
    int n = 0;
    if (oldest->device.step == STEP_MEET)
        return shm_missing(work, hosts_late, ranks);
    for (int i = 0; i < hosts_n_local(h, h->mine); i++)
        if (!has_arrived(h, i, linked_of(oldest)->stage))
            ranks[n++] = hosts_local_rank(h, i);
    for (int k = 0; n == 0 && k < way->n_sources; k++)
        ranks[k] = way->sources[k];
    return n > 0 ? n : way->n_sources;
}

/* ---- Progress ---- */
static void start(tess_work *work)
{
    const ondevice_window *window = ondevice_find(work->team, work->in);
    atomic_fetch_add(&work->team->runtime->device->n_under_way, 1);
    work->status = tess_event_record(ondevice_ready(work), work->team->runtime->device->after);
    if (hosts_linked_is_straight(work)) {
        shm_post_request(work); /* counts of the blocks, which ranks compare */
    } else {
        tess_post *post = shm_post_on_device(work);
        post->in_offset = window != NULL ? (uint64_t)(work->in - window->memory) : CONTROL_PRIVATE;
        post->out_offset = window != NULL ? window->number : CONTROL_PRIVATE;
    }
    tess_work_note(work, hosts_send_post(work));
    shm_arrive(work);
}

static void moved(tess_work *work, tess_status status)
{
    if (status == TESS_OK)
        status = tess_event_record(ondevice_of(work)->moved, ondevice_of(work)->stream);
    tess_work_note(work, status);
}

static tess_status begin(tess_work *work, bool second)
{
    linked_of(work)->second = second;
    return hosts_linked_begin(work, linked_of(work)->round, second);
}

/* Continues after an exchange has settled: enqueues what follows it. *more: another exchange has begun. Rounds of
 * sums without a gather need no wait for siblings between them. */
static tess_status follow(tess_work *work, bool *more)
{
    hosts_linked_work *l = linked_of(work);
    bool gathers = hosts_linked_gathers(work), first = !l->second;
    *more = false;
    if (!hosts_linked_sums(work) || !first)
        return TESS_OK;
    TESS_TRY(hosts_linked_finish(work, l->round));
    *more = gathers || ++l->round < l->n;
    return *more ? begin(work, gathers) : TESS_OK;
}

/* Progresses the exchange. Returns false while NCCL still connects, or waits for peers to call. */
static bool exchanged(tess_work *work)
{
    bool settled = false, more = true;
    while (more && work->status == TESS_OK) {
        work->status = tess_nccl_settled(hosts_of(work->team)->linked->link, &settled);
        if (work->status != TESS_OK || !settled)
            return work->status != TESS_OK;
        tess_work_note(work, follow(work, &more));
    }
    moved(work, work->status);
    return true;
}

/* Called when the device has executed everything enqueued. */
static bool has_moved(tess_work *work)
{
    bool passed = ondevice_passed(work, ondevice_of(work)->moved), settled;
    if (!passed)
        tess_work_note(work, tess_nccl_settled(hosts_of(work->team)->linked->link, &settled));
    return passed || work->status != TESS_OK;
}

static bool advance(tess_work *work)
{
    if (work->status == TESS_OK)
        work->status = hosts_receive_posts(work->team);
    while (work->status == TESS_OK) {
        ondevice_await(work, work->device.step == STEP_READY || work->device.step == STEP_TAKEN);
        switch (work->device.step) {
        case STEP_MEET:
            if (!shm_phase_over(work))
                return false;
            if (shm_meet(work))
                return true;
            hosts_linked_plan(work);
            break;
        case STEP_READY:
            if (!ondevice_passed(work, ondevice_ready(work)))
                return false;
            arrive(work, HOSTS_DEVICE_READY);
            break;
        case STEP_MOVE:
            if (!all_arrived(work))
                return false;
            work->status = begin(work, false);
            break;
        case STEP_EXCHANGED:
            if (!exchanged(work))
                return false;
            break;
        case STEP_LANDED:
            if (!has_moved(work))
                return false;
            arrive(work, HOSTS_DEVICE_LANDED);
            break;
        case STEP_TAKE:
            if (!all_arrived(work))
                return false;
            if (hosts_linked_gathers(work))
                moved(work, hosts_linked_take(work, linked_of(work)->round++));
            break;
        case STEP_TAKEN:
            if (!ondevice_passed(work, ondevice_of(work)->moved))
                return false;
            arrive(work, HOSTS_DEVICE_LEFT);
            break;
        default:
            if (!all_arrived(work))
                return false;
            if (linked_of(work)->round == linked_of(work)->n)
                return shm_complete(work);
            work->device.step = STEP_MOVE - 1;
        }
        work->device.step++;
    }
    return true;
}

const comm_backend tess_backend_linked = {.name = "nccl", .start = start, .advance = advance, .missing = missing};
