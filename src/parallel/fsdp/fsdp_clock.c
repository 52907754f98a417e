/* Clocks of communication: the current phase, how long this rank waited for others, and how much waiting was hidden.
 *
 * Ranks of a host read one monotonic clock. Each writes down, in memory that all read, when it came to a collective and
 * how long it had worked until then (waits do not count); so one that has waited knows how much of it was for the last
 * peer to come, and the rest is the data on its way. Ranks in lockstep would wait at every collective for the one that
 * worked longest since the collective before; what they really waited is less by what was hidden.
 *
 * Where the shard team spans hosts, only the stamps of this host's ranks are read: clocks of different hosts do not
 * compare. Waiting for a rank of another host then counts as data on its way. */
#include <stdatomic.h>

#include "base/os/os.h"
#include "parallel/fsdp/fsdp_impl.h"

enum { STAMPS = 64 }; /* a power of two above the collectives that may be in flight */

struct tess_fsdp_stamp {
    _Atomic uint64_t number, ns,
        busy_ns; /* the collective's number, the time at which this rank reached it, and the time worked until then */
};

void tess_fsdp_set_clock(tess_fsdp *fsdp, tess_phase_clock *clock)
{
    fsdp->clock = clock;
}

tess_fsdp_traffic tess_fsdp_get_traffic(const tess_fsdp *fsdp)
{
    return fsdp->traffic;
}

tess_status tess_fsdp_stamps_alloc(tess_fsdp_family *family)
{
    if (family->teams.n_shards == 1)
        return TESS_OK;
    size_t bytes = (size_t)family->teams.n_shards * STAMPS * sizeof(tess_fsdp_stamp);
    return tess_shared_alloc(family->teams.shard_team, TESS_POOL_MISC, bytes, "stamps",
                             (void **)&family->sequence.stamps);
}

void tess_fsdp_stamps_free(tess_fsdp_family *family)
{
    if (family->sequence.stamps != NULL)
        tess_shared_free(family->teams.shard_team, family->sequence.stamps);
    family->sequence.stamps = NULL;
}

/* Whether `shard` is another rank of this host: only such stamps are visible here. */
static bool is_host_peer(const tess_fsdp_family *family, int shard)
{
    const tess_team *team = family->teams.shard_team;
    return shard != family->teams.shard && tess_team_host(team, shard) == tess_team_host(team, family->teams.shard);
}

static tess_fsdp_stamp *stamp_of(const tess_fsdp_family *family, int shard, uint64_t number)
{
    return &family->sequence.stamps[(uint64_t)shard * STAMPS + number % STAMPS];
}

/* The time that this rank has worked in the step so far. */
static uint64_t busy_ns(tess_phase_clock *clock)
{
    uint64_t sum = 0;
    tess_phase_switch(clock, clock->phase);
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        sum += phase != TESS_PHASE_WAIT ? clock->ns[phase] : 0;
    return sum;
}

void tess_fsdp_stamp_now(tess_fsdp_family *family, uint64_t number)
{
    if (family->sequence.stamps == NULL)
        return;
    tess_fsdp_stamp *stamp = stamp_of(family, family->teams.shard, number);
    atomic_store_explicit(&stamp->busy_ns, busy_ns(family->fsdp->clock), memory_order_relaxed);
    atomic_store_explicit(&stamp->ns, tess_os_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&stamp->number, number, memory_order_release);
}

static bool is_of(const tess_fsdp_stamp *stamp, uint64_t number)
{
    return atomic_load_explicit(&stamp->number, memory_order_acquire) == number;
}

/* Returns the time at which the last peer of this host arrived, or `now` if the stamp of one peer is not visible
 * yet. */
static uint64_t last_to_come(const tess_fsdp_family *family, uint64_t number, uint64_t now)
{
    uint64_t last = 0;
    for (int r = 0; r < family->teams.n_shards; r++) {
        const tess_fsdp_stamp *stamp = stamp_of(family, r, number);
        if (!is_host_peer(family, r))
            continue;
        if (!is_of(stamp, number))
            return now;
        uint64_t ns = atomic_load_explicit(&stamp->ns, memory_order_relaxed);
        last = ns > last ? ns : last;
    }
    return last < now ? last : now;
}

/* Returns how long a rank worked since the previous collective. 0: not known, because the collective is the step's
 * first, has no stamp, or its stamp is not visible yet. */
static uint64_t worked_before(const tess_fsdp_family *family, int shard, uint64_t number)
{
    const tess_fsdp_stamp *now = stamp_of(family, shard, number), *before = stamp_of(family, shard, number - 1);
    if (!is_of(now, number) || !is_of(before, number - 1))
        return 0;
    uint64_t to = atomic_load_explicit(&now->busy_ns, memory_order_relaxed);
    uint64_t from = atomic_load_explicit(&before->busy_ns, memory_order_relaxed);
    return to > from ? to - from : 0;
}

static uint64_t lockstep_wait(const tess_fsdp_family *family, uint64_t number)
{
    uint64_t mine = worked_before(family, family->teams.shard, number), longest = mine;
    for (int r = 0; r < family->teams.n_shards && mine > 0; r++) {
        uint64_t worked = is_host_peer(family, r) ? worked_before(family, r, number) : 0;
        longest = worked > longest ? worked : longest;
    }
    return longest - mine;
}

tess_status tess_fsdp_wait(tess_fsdp_family *family, tess_work **work, uint64_t number)
{
    uint64_t begin = tess_os_now_ns();
    TESS_TRY(tess_work_wait(work, 0));
    if (family->sequence.stamps == NULL)
        return TESS_OK;
    uint64_t came = last_to_come(family, number, tess_os_now_ns()), waited = came > begin ? came - begin : 0;
    tess_phase_credit(family->fsdp->clock, TESS_PHASE_WAIT, waited);
    family->fsdp->traffic.hidden_ns += (int64_t)lockstep_wait(family, number) - (int64_t)waited;
    return TESS_OK;
}
