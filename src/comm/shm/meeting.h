/* How ranks meet in a team's control area, also on behalf of ranks on other hosts. Each posts its fingerprint and the
 * place of its data. When all have posted, the fingerprints are compared. Short data lies next to the posts and is
 * taken at once; the backend moves the rest.
 *
 * A slot's counter only grows: phase k of an operation is over when it has grown by k times the team's size. */
#ifndef TESS_COMM_SHM_MEETING_H
#define TESS_COMM_SHM_MEETING_H

#include "comm/comm_impl.h"

/* How far an operation is. */
typedef struct shm_work {
    const struct shm_collective *collective;
    uint64_t phase;      /* phases that this rank arrived in */
    int step;            /* the step that follows the phase */
    int path;            /* how peers read the data */
    size_t first, count; /* elements of the round at hand */
    size_t per_round;    /* elements of a full round */
    int area;            /* stage of the round */
    int unreadable;      /* 1 + team rank whose memory could not be read: it has ended, or the wait times out */
} shm_work;

static inline shm_work *shm_of(const tess_work *work)
{
    return tess_work_state(work);
}

static inline tess_post *shm_post(const tess_work *work, int rank)
{
    return tess_control_post(work->team->control, work->team->size, work->fp.sequence, rank);
}

/* Arrivals in the operation's slot before it. */
static inline uint64_t shm_base(const tess_work *work)
{
    return work->team->slot_base[work->fp.sequence % CONTROL_SLOTS];
}

static inline bool shm_phase_over(const tess_work *work)
{
    const tess_slot *slot = &work->team->control->slots[work->fp.sequence % CONTROL_SLOTS];
    return atomic_load(&slot->arrivals) >= shm_base(work) + shm_of(work)->phase * (uint64_t)work->team->size;
}

/* Fills this rank's post, and what lies next to it; shm_arrive shows it to the others. */
void shm_post_request(tess_work *work);
/* The same for memory of a device, of which nothing lies next to the post: the caller says where it is. */
tess_post *shm_post_on_device(tess_work *work);
/* This rank arrives in the next phase; the last rank wakes the others. */
void shm_arrive(tess_work *work);
/* The same for `rank`, whose post is in place. */
void shm_arrive_for(tess_team *team, uint64_t sequence, int rank, uint64_t phase);
/* Called when all have posted. True: the operation is complete or failed; else its data must be moved. */
bool shm_meet(tess_work *work);
/* Called when all have arrived in the last phase. Returns true. */
bool shm_complete(tess_work *work);
/* Team ranks that have not come to the phase where the oldest operation stands. late(oldest, rank): the rank to
 * blame for the absence of `rank`; NULL: itself. */
int shm_missing(const tess_work *work, int (*late)(const tess_work *oldest, int rank), int *ranks);

#endif
