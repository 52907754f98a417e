#include "diagnosis/missed.h"

static bool waits_for(const tess_wait *wait, int rank)
{
    return wait->since_ns != 0 && (wait->missing[rank / 64] >> rank % 64 & 1) != 0;
}

static tess_missed look_at(const tess_wait *waits, int n_ranks, int rank)
{
    tess_missed missed = {.rank = rank, .waiter = -1};
    for (int r = 0; r < n_ranks; r++) {
        if (r == rank || !waits_for(&waits[r], rank))
            continue;
        if (missed.n_waiting++ == 0 || waits[r].since_ns < missed.since_ns) {
            missed.waiter = r;
            missed.since_ns = waits[r].since_ns;
        }
    }
    return missed;
}

/* Finds the ranks that others wait for. Returns their number. */
static int find_missed(const tess_wait *waits, int n_ranks, tess_missed *out)
{
    int n = 0;
    for (int word = 0; word * 64 < n_ranks; word++) {
        uint64_t missing = 0;
        for (int r = 0; r < n_ranks; r++)
            missing |= waits[r].since_ns != 0 ? waits[r].missing[word] : 0;
        for (; missing != 0; missing &= missing - 1) {
            int rank = word * 64 + __builtin_ctzll(missing);
            tess_missed missed = rank < n_ranks ? look_at(waits, n_ranks, rank) : (tess_missed){0};
            if (missed.n_waiting > 0)
                out[n++] = missed;
        }
    }
    return n;
}

int tess_missed_most(const tess_missed *missed, int n)
{
    int most = 0;
    for (int i = 1; i < n; i++)
        if (missed[i].n_waiting > missed[most].n_waiting)
            most = i;
    return n > 0 ? most : -1;
}

int tess_missed_find(const tess_wait *waits, int n_ranks, tess_missed *out)
{
    int n = find_missed(waits, n_ranks, out), most = tess_missed_most(out, n), n_ends = 0;
    tess_missed circle = most >= 0 ? out[most] : (tess_missed){0};
    for (int i = 0; i < n; i++)
        if (waits[out[i].rank].since_ns == 0)
            out[n_ends++] = out[i];
    if (n_ends > 0 || n == 0)
        return n_ends;
    out[0] = circle;
    return 1;
}

/* Adds the ranks that wait for a rank in `reached`. Returns the number of ranks added. */
static int reach_further(const tess_wait *waits, int n_ranks, bool *reached)
{
    int n = 0;
    for (int r = 0; r < n_ranks; r++) {
        bool leads = false;
        for (int other = 0; !reached[r] && waits[r].since_ns != 0 && other < n_ranks && !leads; other++)
            leads = reached[other] && waits_for(&waits[r], other);
        reached[r] |= leads;
        n += leads;
    }
    return n;
}

int tess_missed_count(const tess_wait *waits, int n_ranks, int rank, bool *reached)
{
    int n = 0;
    for (int r = 0; r < n_ranks; r++)
        reached[r] = r == rank;
    for (int more = 1; more > 0; n += more)
        more = reach_further(waits, n_ranks, reached);
    return n;
}
