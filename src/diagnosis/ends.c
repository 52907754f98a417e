#include "diagnosis/ends.h"

#include <signal.h>

static const uint64_t struck_within_ns = 1000000000;

tess_situation tess_end_how(int signal, int exit_code)
{
    if (signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP)
        return TESS_RANK_KILLED;
    if (signal != 0)
        return TESS_RANK_CRASHED;
    return exit_code != 0 ? TESS_RANK_EXITED : TESS_RANK_LEFT;
}

bool tess_end_is_bad(tess_situation how)
{
    return how == TESS_RANK_CRASHED || how == TESS_RANK_OOM_KILLED || how == TESS_RANK_KILLED ||
           how == TESS_RANK_EXITED || how == TESS_RANK_HOST_LOST;
}

/* ---- Chains of blame ---- */
static int next(const tess_end *ends, int rank)
{
    return ends[rank].blames == rank ? -1 : ends[rank].blames;
}

/* Returns the end of a chain of blame, or the rank where it enters a circle. Uses Floyd's two pointers: they meet
 * inside a circle; one of them then restarts at the beginning, and they meet again at the entry. */
static int chain_end(const tess_end *ends, int rank)
{
    int slow = rank, fast = rank;
    do {
        for (int i = 0; i < 2; i++, fast = next(ends, fast))
            if (next(ends, fast) < 0)
                return fast;
        slow = next(ends, slow);
    } while (slow != fast);
    for (slow = rank; slow != fast; fast = next(ends, fast))
        slow = next(ends, slow);
    return slow;
}

int tess_ends_cause(const tess_end *ends, int n, int rank)
{
    for (int r = 0; ends[rank].gave_up && r < n; r++)
        if (ends[r].blames == r)
            return r;
    return chain_end(ends, rank);
}

/* ---- Order of ends ---- */
static int weigh(const tess_end *end)
{
    if (end->how == TESS_RANK_EXITED || end->how == TESS_RANK_LEFT || end->signal == SIGABRT)
        return 1;
    return tess_end_is_bad(end->how) && !end->may_be_asked ? 2 : 0;
}

bool tess_end_comes_before(const tess_end *a, const tess_end *b)
{
    int x = weigh(a), y = weigh(b);
    bool timed = a->at_ns != 0 && b->at_ns != 0;
    uint64_t within_ns = x == 2 || y == 2 ? struck_within_ns : 0;
    if (x != y)
        return x > y ? !timed || a->at_ns <= b->at_ns + within_ns : timed && a->at_ns + within_ns < b->at_ns;
    return timed && a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->last_ns < b->last_ns;
}

int tess_ends_first(const tess_end *ends, int n, int seen_first)
{
    int first = seen_first >= 0 ? tess_ends_cause(ends, n, seen_first) : -1;
    for (int r = 0; r < n; r++)
        if (tess_end_is_bad(ends[r].how) && tess_ends_cause(ends, n, r) == r &&
            (first < 0 || tess_end_comes_before(&ends[r], &ends[first])))
            first = r;
    return first;
}

bool tess_ends_are_together(const tess_end *a, const tess_end *b, uint64_t tick_ns)
{
    uint64_t apart_ns = a->at_ns < b->at_ns ? b->at_ns - a->at_ns : a->at_ns - b->at_ns;
    if (a->at_ns == 0 || b->at_ns == 0 || weigh(a) != weigh(b))
        return false;
    return apart_ns == 0 || (apart_ns <= tick_ns && a->signal != 0 && a->signal == b->signal);
}
