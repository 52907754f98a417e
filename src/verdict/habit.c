#include "verdict/habit.h"

#include "verdict/request.h"

enum { LOOK_BACK = 4096, CONTEXT = 32, MOST_SKIPPED = 8 };

static bool same(const tess_record *a, const tess_record *b)
{
    return a->team == b->team && tess_request_same(a, b);
}

/* The nearest earlier place at which the rank did `due` after operations like those before `at`; n: there is none. */
static size_t find_like(const tess_rank_history *rank, size_t at, const tess_record *due)
{
    size_t best = rank->n_records;
    int best_depth = 0;
    for (size_t p = at; p-- > 1 && at - p <= LOOK_BACK && best_depth < CONTEXT;) {
        int depth = 0;
        if (!same(&rank->records[p], due))
            continue;
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

tess_slip tess_habit_slip(const tess_history *history, int rank, const tess_record *due, const tess_record *got, int *n)
{
    const tess_rank_history *r = &history->ranks[rank];
    size_t at = (size_t)(got - r->records), like = at > 0 ? find_like(r, at, due) : r->n_records;
    *n = 1;
    if (like == r->n_records)
        return TESS_SLIP_OTHER;
    bool repeats = same(&r->records[at - 1], got);
    for (size_t k = 1; k <= MOST_SKIPPED && like + k < at; k++) {
        if (!same(&r->records[like + k], got) || (repeats && k > 1))
            continue;
        *n = (int)k;
        return TESS_SLIP_SKIPPED;
    }
    return TESS_SLIP_EXTRA;
}
