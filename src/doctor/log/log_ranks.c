/* Keeps the ranks that logs mention, counts them, and formats lists of them. */
#include "doctor/log/log_impl.h"

#include <stdio.h>

tess_status log_rank_at(tess_survey *s, int rank, log_rank **out)
{
    if (rank >= s->capacity) {
        int capacity = rank < 32 ? 64 : 2 * rank;
        TESS_TRY(tess_mem_grow(s->mem, TESS_POOL_MISC, (size_t)capacity * sizeof(log_rank), "ranks of a log",
                               (void **)&s->ranks));
        s->capacity = capacity;
    }
    if (rank >= s->n_ranks)
        s->n_ranks = rank + 1;
    *out = &s->ranks[rank];
    return TESS_OK;
}

int log_count_ranks(log_rank_fn is_in, const void *context, int n_ranks)
{
    int n = 0;
    for (int r = 0; r < n_ranks; r++)
        n += is_in(context, r);
    return n;
}

const char *log_name_ranks(log_rank_fn is_in, const void *context, int n_ranks, char *text, size_t size)
{
    const char *comma = "";
    size_t at = (size_t)snprintf(text, size, "%s ", log_count_ranks(is_in, context, n_ranks) == 1 ? "rank" : "ranks");
    for (int r = 0; r < n_ranks; r++) {
        if (!is_in(context, r))
            continue;
        int last = r;
        while (last + 1 < n_ranks && is_in(context, last + 1))
            last++;
        if (at + 24 > size) {
            snprintf(text + at, size - at, "...");
            return text;
        }
        at += (size_t)(last == r ? snprintf(text + at, size - at, "%s%d", comma, r)
                                 : snprintf(text + at, size - at, "%s%d-%d", comma, r, last));
        comma = ",";
        r = last;
    }
    return text;
}
