/* Large data on one host. An operation is a row of phases that all ranks of the team pass together:
 *
 *     meet     the path is chosen, by everybody from the same posts (meeting.c)
 *     direct   take from the peers' buffers (all_reduce: fold into them), then one phase more: they are free once all
 *              have taken
 *     reached  the same on private memory, which the system copies for us
 *     staged   rounds of: show a chunk in one of two stages, meet, take. A stage is written again two rounds later, and
 *              every rank that came to the round between has read it
 *     fold     (staged all_reduce) between show and take each rank reduces its part of the round */
#include "comm/p2p/channel.h"
#include "comm/shm/shm_impl.h"

enum { STEP_MEET, STEP_FOLD, STEP_TAKE, STEP_LEAVE };

static void start(tess_work *work)
{
    shm_post_request(work);
    shm_arrive(work);
}

/* Whether peers can read the operation's data in place. */
static bool all_direct(const tess_work *work)
{
    for (int r = 0; r < work->team->size; r++) {
        const tess_post *post = shm_post(work, r);
        if (shm_shows(work, r) && post->in_offset == CONTROL_PRIVATE)
            return false;
        if (shm_of(work)->collective->fold != NULL && post->out_offset == CONTROL_PRIVATE)
            return false;
    }
    return true;
}

/* Takes the data without rounds.
 *
 * A rank that finds a peer's memory unreadable arrives once more, as others may not need what it missed, and then never
 * again (advance). So ranks that only took from buffers complete with the right data. No rank completes with a sum of
 * which this rank folded a part from garbage: the phase that takes such parts needs all ranks. */
static void take_at_once(tess_work *work, int path)
{
    const shm_collective *c = shm_of(work)->collective;
    shm_of(work)->path = path;
    shm_of(work)->count = work->n;
    shm_of(work)->step = STEP_LEAVE;
    if (c->fold != NULL) {
        c->fold(work);
        if (path == SHM_REACHED)
            shm_of(work)->step = STEP_TAKE; /* results are in private memory, too */
    } else {
        c->take(work);
    }
    shm_arrive(work);
}

static void begin_round(tess_work *work)
{
    tess_team *team = work->team;
    size_t left = work->n - shm_of(work)->first;
    shm_of(work)->count = left < shm_of(work)->per_round ? left : shm_of(work)->per_round;
    shm_of(work)->area = (int)(team->n_stages++ % 2);
    if (shm_shows(work, team->rank))
        shm_show(work, shm_stage(work, team->rank, shm_of(work)->area));
    shm_of(work)->step = shm_of(work)->collective->fold != NULL ? STEP_FOLD : STEP_TAKE;
    shm_arrive(work);
}

static void move(tess_work *work)
{
    if (all_direct(work) || shm_can_reach(work)) {
        take_at_once(work, all_direct(work) ? SHM_DIRECT : SHM_REACHED);
        return;
    }
    size_t per_round = tess_control_stage_bytes(work->team->size) / (shm_blocks(work) * shm_element(work));
    shm_of(work)->per_round = per_round / 64 * 64;
    begin_round(work);
}

static bool advance(tess_work *work)
{
    while (shm_of(work)->unreadable == 0 && shm_phase_over(work)) {
        const shm_collective *c = shm_of(work)->collective;
        switch (shm_of(work)->step) {
        case STEP_MEET:
            if (shm_meet(work))
                return true;
            move(work);
            break;
        case STEP_FOLD:
            c->fold(work);
            shm_of(work)->step = STEP_TAKE;
            shm_arrive(work);
            break;
        case STEP_TAKE:
            c->take(work);
            if (shm_of(work)->path == SHM_REACHED) {
                shm_of(work)->step = STEP_LEAVE;
                shm_arrive(work);
                break;
            }
            shm_of(work)->first += shm_of(work)->count;
            if (shm_of(work)->first == work->n)
                return shm_complete(work);
            begin_round(work);
            break;
        default:
            return shm_complete(work);
        }
    }
    return false;
}

static int missing(const tess_work *work, int *ranks)
{
    return shm_missing(work, NULL, ranks);
}

const comm_backend tess_backend_shm = {.name = "shm",
                                       .work_bytes = sizeof(union {
                                           shm_work operation;
                                           channel_work message;
                                       }),
                                       .start = start,
                                       .advance = advance,
                                       .missing = missing,
                                       .link = tess_channel_link};
