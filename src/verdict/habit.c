#include "verdict/habit.h"

#include "verdict/request.h"

enum { LOOK_BACK = 4096, CONTEXT = 32, LOOK_AHEAD = 256 };

static bool same(const tess_record *a, const tess_record *b)
{
    return a->team == b->team && tess_request_same(a, b);
}

/* The nearest earlier place that came after operations like those before `at`, as many of them as possible; `at`: there
 * is none. */
static size_t find_like(const tess_rank_history *rank, size_t at)
{
    size_t best = at;
    int best_depth = 0;
    for (size_t p = at; p-- > 1 && at - p <= LOOK_BACK && best_depth < CONTEXT;) {
        int depth = 0;
        while (depth < CONTEXT && p >= 1 + (size_t)depth &&
               same(&rank->records[p - 1 - (size_t)depth], &rank->records[at - 1 - (size_t)depth]))
            depth++;
        if (depth > best_depth) {
            best_depth = depth;
            best = p;
        }
    }
    return best;
}

/* How far behind `from` the record comes; LOOK_AHEAD: not soon. */
static int distance(const tess_rank_history *rank, size_t from, size_t end, const tess_record *record)
{
    for (int k = 0; k < LOOK_AHEAD && from + (size_t)k < end; k++)
        if (same(&rank->records[from + (size_t)k], record))
            return k;
    return LOOK_AHEAD;
}

tess_slip tess_habit_slip(const tess_history *history, int rank, const tess_record *due, const tess_record *got, int *n)
{
    const tess_rank_history *r = &history->ranks[rank];
    size_t at = (size_t)(got - r->records), like = find_like(r, at);
    int to_due = distance(r, like, at, due), to_got = distance(r, like, at, got);
    bool repeats = at > 0 && same(&r->records[at - 1], got);
    *n = 1;
    if (like == at || to_due == LOOK_AHEAD || to_got < to_due)
        return TESS_SLIP_OTHER;
    if (to_got == LOOK_AHEAD || (repeats && to_got > 1))
        return TESS_SLIP_EXTRA;
    *n = to_got;
    return TESS_SLIP_SKIPPED;
}
