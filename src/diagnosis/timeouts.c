#include "diagnosis/timeouts.h"

#include <string.h>

#include "diagnosis/majority.h"

/* An unknown group ("") may be any. */
static bool same_group(const char *a, const char *b)
{
    return a[0] == '\0' || b[0] == '\0' || strcmp(a, b) == 0;
}

static bool same_work(const tess_timed_work *a, const tess_timed_work *b)
{
    return a->sequence == b->sequence && strcmp(a->op, b->op) == 0 && a->numel_in == b->numel_in &&
           a->numel_out == b->numel_out && same_group(a->group, b->group);
}

static bool works_alike(const void *ranks, int a, int b)
{
    const tess_timed_rank *x = (const tess_timed_rank *)ranks + a, *y = (const tess_timed_rank *)ranks + b;
    return x->waits && y->waits && same_work(&x->work, &y->work);
}

tess_stand tess_timeouts_stand(const tess_timeouts *t, int rank)
{
    if (rank >= t->n_seen)
        return TESS_STAND_UNSEEN;
    const tess_timed_rank *r = &t->ranks[rank];
    const tess_timed_work *usual = t->usual;
    if (r->waits) {
        bool same_place = r->work.sequence == usual->sequence;
        if (same_work(&r->work, usual))
            return TESS_STAND_IN_IT;
        if (same_place && same_group(r->work.group, usual->group))
            return TESS_STAND_DIFFERS;
        return !same_place && r->work.group[0] != '\0' && strcmp(r->work.group, usual->group) == 0
                   ? TESS_STAND_ELSEWHERE
                   : TESS_STAND_OTHER_GROUP;
    }
    bool has_progress = r->has_progress && same_group(r->progress.group, usual->group);
    if (has_progress && r->progress.enqueued < usual->sequence)
        return TESS_STAND_OUTSIDE;
    if (has_progress && r->progress.completed < usual->sequence)
        return TESS_STAND_QUEUED;
    return r->seen ? TESS_STAND_SILENT : TESS_STAND_UNSEEN;
}

int tess_timeouts_count(const tess_timeouts *t, unsigned stands)
{
    int n = 0;
    for (int r = 0; r < t->n_ranks; r++)
        n += (tess_timeouts_stand(t, r) & stands) != 0;
    return n;
}

/* A rank without lines is absent only if the number of ranks is known: otherwise any number of logs may be missing. */
static unsigned find_absent(const tess_timeouts *t)
{
    int n_missing = tess_timeouts_count(t, TESS_STAND_MISSING), n_waiting = tess_timeouts_count(t, TESS_STAND_WAITS);
    int n_outside = tess_timeouts_count(t, TESS_STAND_OUTSIDE);
    if (n_outside > 0)
        return n_outside <= n_waiting ? TESS_STAND_OUTSIDE : 0;
    int n_unseen = tess_timeouts_count(t, TESS_STAND_UNSEEN);
    bool alone = n_unseen == 0 || (n_missing == 1 && t->world_known);
    return n_missing > 0 && n_missing < n_waiting && alone ? TESS_STAND_MISSING : 0;
}

static bool conclude(tess_timeouts *t, tess_timeouts_kind kind, unsigned culprits, tess_report_id headline,
                     tess_report_id evidence)
{
    t->kind = kind;
    t->culprits = culprits;
    t->headline = headline;
    t->evidence = evidence;
    return true;
}

bool tess_timeouts_find(tess_timeouts *t)
{
    int first = tess_majority_find(works_alike, t->ranks, t->n_seen).first;
    t->usual = first >= 0 ? &t->ranks[first].work : NULL;
    if (first < 0)
        return false;
    t->absent = find_absent(t);
    if (tess_timeouts_count(t, TESS_STAND_DIFFERS) > 0)
        return conclude(t, TESS_TIMEOUTS_MISMATCH, TESS_STAND_DIFFERS, TESS_REPORT_DIFFERENT, TESS_REPORT_SAME_PLACE);
    if (tess_timeouts_count(t, TESS_STAND_ELSEWHERE) > 0)
        return conclude(t, TESS_TIMEOUTS_MISMATCH, TESS_STAND_ELSEWHERE, TESS_REPORT_DIFFERENT,
                        TESS_REPORT_OTHER_PLACE);
    if (tess_timeouts_count(t, TESS_STAND_OTHER_GROUP) > 0) /* the members of a group are not known */
        return conclude(t, TESS_TIMEOUTS_ONE_SIDED, 0, TESS_REPORT_GROUPS, TESS_REPORT_NO_MEMBERS);
    if (tess_timeouts_count(t, TESS_STAND_MISSING) == 0)
        return t->world_known ? conclude(t, TESS_TIMEOUTS_ALL_WAITED, 0, TESS_REPORT_ALL_WAITED, TESS_REPORT_NONE)
                              : conclude(t, TESS_TIMEOUTS_ONE_SIDED, 0, TESS_REPORT_ALL_SEEN_WAITED, TESS_REPORT_NONE);
    if (tess_timeouts_count(t, TESS_STAND_OUTSIDE) > tess_timeouts_count(t, TESS_STAND_WAITS))
        return conclude(t, TESS_TIMEOUTS_MISMATCH, TESS_STAND_WAITS, TESS_REPORT_ONE_MORE, TESS_REPORT_NONE);
    if (t->absent != 0)
        return conclude(t, TESS_TIMEOUTS_MISSING, t->absent, TESS_REPORT_NEVER_JOINED, TESS_REPORT_NONE);
    return conclude(t, TESS_TIMEOUTS_ONE_SIDED, 0, TESS_REPORT_SOMEBODY_MISSING, TESS_REPORT_NO_TIMEOUT_OF);
}

bool tess_timeouts_precede(const tess_timeouts *t, int rank, tess_text_place at, double time_s)
{
    for (int r = 0; r < t->n_seen; r++) {
        const tess_timed_rank *other = &t->ranks[r];
        if (!other->waits)
            continue;
        if (time_s >= 0 && other->time_s >= 0 && time_s > other->time_s)
            return true;
        if (r == rank && at.file == other->at.file && at.line > other->at.line)
            return true;
    }
    return false;
}
