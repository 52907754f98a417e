/* Clocks of communication: the phase under way, how long this rank waited for others, how much it did not have to.
 *
 * Ranks of a host read one monotonic clock. Each writes down, in memory that all read, when it came to a collective; so
 * one that has waited knows how much of it was for the last peer to come. The rest is the data on its way. */
#include <stdatomic.h>

#include "base/os/os.h"
#include "parallel/fsdp/fsdp_impl.h"

enum { STAMPS = 64 }; /* a power of two above the collectives that may be in flight */

struct tess_fsdp_stamp {
    _Atomic uint64_t number, ns; /* of the collective; when this rank came to it */
};

void tess_fsdp_set_clock(tess_fsdp *fsdp, tess_phase_clock *clock)
{
    fsdp->clock = clock;
}

tess_fsdp_traffic tess_fsdp_get_traffic(const tess_fsdp *fsdp)
{
    return fsdp->traffic;
}

tess_status tess_fsdp_stamps_alloc(tess_fsdp *fsdp)
{
    if (fsdp->n_shards == 1)
        return TESS_OK;
    size_t bytes = (size_t)fsdp->n_shards * STAMPS * sizeof(tess_fsdp_stamp);
    return tess_shared_alloc(fsdp->shard_team, TESS_POOL_MISC, bytes, "stamps", (void **)&fsdp->stamps);
}

void tess_fsdp_stamps_free(tess_fsdp *fsdp)
{
    if (fsdp->stamps != NULL)
        tess_shared_free(fsdp->shard_team, fsdp->stamps);
    fsdp->stamps = NULL;
}

static tess_fsdp_stamp *stamp_of(const tess_fsdp *fsdp, int shard, uint64_t number)
{
    return &fsdp->stamps[(uint64_t)shard * STAMPS + number % STAMPS];
}

void tess_fsdp_stamp_now(tess_fsdp *fsdp, uint64_t number)
{
    if (fsdp->stamps == NULL)
        return;
    tess_fsdp_stamp *stamp = stamp_of(fsdp, fsdp->shard, number);
    atomic_store_explicit(&stamp->ns, tess_os_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&stamp->number, number, memory_order_release);
}

/* When the last peer came; `now` for one that came so late that its stamp is not to be seen yet. */
static uint64_t last_to_come(const tess_fsdp *fsdp, uint64_t number, uint64_t now)
{
    uint64_t last = 0;
    for (int r = 0; r < fsdp->n_shards; r++) {
        const tess_fsdp_stamp *stamp = stamp_of(fsdp, r, number);
        if (r == fsdp->shard)
            continue;
        if (atomic_load_explicit(&stamp->number, memory_order_acquire) != number)
            return now;
        uint64_t ns = atomic_load_explicit(&stamp->ns, memory_order_relaxed);
        last = ns > last ? ns : last;
    }
    return last < now ? last : now;
}

tess_status tess_fsdp_wait(tess_fsdp *fsdp, tess_work **work, uint64_t number)
{
    uint64_t begin = tess_os_now_ns();
    TESS_TRY(tess_work_wait(work, 0));
    if (fsdp->stamps == NULL)
        return TESS_OK;
    uint64_t came = last_to_come(fsdp, number, tess_os_now_ns());
    uint64_t issued = atomic_load_explicit(&stamp_of(fsdp, fsdp->shard, number)->ns, memory_order_relaxed);
    uint64_t hidden_until = came < begin ? came : begin;
    if (came > begin)
        tess_phase_credit(fsdp->clock, TESS_PHASE_WAIT, came - begin);
    if (hidden_until > issued)
        fsdp->traffic.hidden_ns += hidden_until - issued;
    return TESS_OK;
}
