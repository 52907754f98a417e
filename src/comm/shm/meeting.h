/* Lets ranks meet in a team's control area, also on behalf of ranks on other hosts. Each rank posts its fingerprint
 * and the place of its data. When all have posted, the fingerprints are compared. Short data is stored next to the
 * posts and copied at once; the backend moves longer data.
 *
 * A slot's counter only grows: phase k of an operation is over when it has grown by k times the team's size. */
#ifndef TESS_COMM_SHM_MEETING_H
#define TESS_COMM_SHM_MEETING_H

#include "comm/comm_impl.h"

/* Progress of an operation. */
typedef struct shm_work {
    const struct shm_collective *collective;
    uint64_t phase;      /* number of phases in which this rank has arrived */
    int step;            /* the step to run when the phase is over */
    int path;            /* how peers read the data: SHM_NOTHING, ... */
    size_t first, count; /* elements of the current round */
    size_t per_round;    /* number of elements in a full round */
    int area;            /* index of the round's stage */
    /* 1 + team rank whose memory could not be read: it has ended, or the wait will time out; 0: none */
    int unreadable;
} shm_work;

static inline shm_work *shm_of(const tess_work *work)
{
    return tess_work_state(work);
}

static inline tess_post *shm_post(const tess_work *work, int rank)
{
    return tess_control_post(work->team->control, work->team->size, work->fp.sequence, rank);
}

/* Returns the number of arrivals in the slot before this operation. */
static inline uint64_t shm_base(const tess_work *work)
{
    return work->team->slot_base[work->fp.sequence % CONTROL_SLOTS];
}

static inline bool shm_phase_over(const tess_work *work)
{
    const tess_slot *slot = &work->team->control->slots[work->fp.sequence % CONTROL_SLOTS];
    return atomic_load(&slot->arrivals) >= shm_base(work) + shm_of(work)->phase * (uint64_t)work->team->size;
}

/* Fills this rank's post and the data next to it. shm_arrive then shows it to the others. */
void shm_post_request(tess_work *work);
/* Fills the post of an operation on device memory. Nothing is stored next to it; the caller fills in where the data
 * is. */
tess_post *shm_post_on_device(tess_work *work);
/* Records that this rank has arrived in the next phase. The last rank wakes the others. */
void shm_arrive(tess_work *work);
/* Records the arrival of `rank`, whose post is in place. */
void shm_arrive_for(tess_team *team, uint64_t sequence, int rank, uint64_t phase);
/* Called when all ranks have posted. Returns true if the operation is complete or has failed; otherwise its data
 * must be moved. */
bool shm_meet(tess_work *work);
/* Called when all ranks have arrived in the last phase. Returns true. */
bool shm_complete(tess_work *work);
/* Lists the team ranks that have not reached the current phase of the oldest operation. late(oldest, rank): returns
 * the rank to blame for the absence of `rank`; NULL: that rank itself. */
int shm_missing(const tess_work *work, int (*late)(const tess_work *oldest, int rank), int *ranks);

#endif
