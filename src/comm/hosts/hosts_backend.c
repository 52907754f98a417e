/* Backend for teams over several hosts. Ranks meet as on one host; short operations are complete after the meeting. */
#include "comm/hosts/hosts_impl.h"

static hosts_work *state_of(const tess_work *work)
{
    return tess_work_state(work);
}

static void start(tess_work *work)
{
    shm_post_request(work);
    work->status = hosts_send_post(work);
    shm_arrive(work);
}

/* Called after the meeting. Returns true if the operation is complete or has failed. */
static bool meet(tess_work *work)
{
    if (shm_meet(work))
        return true;
    state_of(work)->moves = true;
    work->status = hosts_begin(work);
    return work->status != TESS_OK;
}

static bool advance(tess_work *work)
{
    if (work->status == TESS_OK)
        work->status = hosts_receive_posts(work->team);
    if (work->status != TESS_OK)
        return true;
    if (!shm_phase_over(work))
        return false;
    if (!state_of(work)->moves && meet(work))
        return true;
    if (!hosts_advance(work))
        return false;
    return work->status != TESS_OK || shm_complete(work);
}

static int missing(const tess_work *work, int *ranks)
{
    const tess_work *oldest = work->team->head != NULL ? work->team->head : work;
    bool moves = !tess_work_is_message(oldest) && state_of(oldest)->moves;
    return moves && !tess_work_is_message(work) ? hosts_missing(oldest, ranks) : shm_missing(work, hosts_late, ranks);
}

static const comm_link *link_to(const tess_team *team, int peer)
{
    const comm_hosts *h = hosts_of(team);
    return h->members[peer].host == h->mine ? &tess_link_channel : &hosts_link;
}

const comm_backend tess_backend_mpi = {.name = "mpi",
                                       .work_bytes = sizeof(hosts_work),
                                       .shared_bytes = hosts_bytes,
                                       .attach = hosts_attach,
                                       .detach = hosts_detach,
                                       .is_mine = tess_wire_is_mine,
                                       .start = start,
                                       .advance = advance,
                                       .missing = missing,
                                       .give_up = hosts_give_up,
                                       .link = link_to};
