#include "diagnosis/align.h"

#include <string.h>

#include "diagnosis/request.h"

enum {
    LOOK_BACK = 4096, /* operations that are searched for an earlier place with the same past; a step has fewer */
    CONTEXT = 32,     /* most operations that are compared before two places */
    LOOK_AHEAD = 8,   /* operations after the place that are compared */
    MOST_SLIPPED = 128,
    SOON = 256 /* operations of a rank that are searched for the one that is due */
};

/* Returns the request that the majority made at `sequence`, or NULL if none of them has come there. */
static const tess_record *done_at(const tess_team_view *team, const bool *right, uint64_t sequence)
{
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_record *record = right[i] ? tess_member_at(&team->members[i], sequence) : NULL;
        if (record != NULL)
            return record;
    }
    return NULL;
}

typedef bool same_fn(const void *context, uint64_t a, uint64_t b); /* whether the requests at two places are equal */

/* Returns the place before `at` with the most similar past: the longest run of equal requests that ends `skip`
 * operations before each place. Of several, returns the nearest; `at` if there is none. */
static uint64_t find_like(same_fn *same, const void *context, uint64_t at, uint64_t skip)
{
    uint64_t best = at;
    int best_depth = 0;
    for (uint64_t p = at; p-- > skip && at - p <= LOOK_BACK && best_depth < CONTEXT;) {
        int depth = 0;
        while (depth < CONTEXT && p >= skip + (uint64_t)depth &&
               same(context, p - skip - (uint64_t)depth, at - skip - (uint64_t)depth))
            depth++;
        if (depth > best_depth) {
            best_depth = depth;
            best = p;
        }
    }
    return best;
}

/* ---- The course of a team ---- */
static bool same_of_course(const void *course_, uint64_t a, uint64_t b)
{
    const tess_course *course = course_;
    const tess_record *x = done_at(course->team, course->right, a), *y = done_at(course->team, course->right, b);
    return x != NULL && y != NULL && tess_request_same(x, y);
}

tess_course tess_course_find(const tess_team_view *team, const bool *right, uint64_t at)
{
    tess_course course = {.team = team, .right = right, .at = at};
    course.like = find_like(same_of_course, &course, at, 0);
    return course;
}

const tess_record *tess_course_predict(const tess_team_view *team, const bool *right, uint64_t at)
{
    const tess_course course = {.team = team, .right = right, .at = at};
    uint64_t like = find_like(same_of_course, &course, at, 1);
    return like < at ? done_at(team, right, like) : NULL;
}

/* Returns the request `ahead` operations after the place, known or predicted. */
static const tess_record *expected(const tess_course *course, uint64_t ahead)
{
    const tess_record *record = done_at(course->team, course->right, course->at + ahead);
    if (record != NULL || course->like == course->at)
        return record;
    uint64_t period = course->at - course->like;
    return done_at(course->team, course->right, course->like + ahead % period);
}

/* Counts the requests of `odd` from `odd_from` on that equal the expected ones from `from` on; -1: one differs. */
static int agreeing(const tess_course *course, const tess_member_view *odd, uint64_t odd_from, uint64_t from)
{
    int n = 0;
    for (uint64_t i = 0; i < LOOK_AHEAD; i++) {
        const tess_record *got = tess_member_at(odd, course->at + odd_from + i), *want = expected(course, from + i);
        if (got == NULL || want == NULL)
            break;
        if (!tess_request_same(got, want))
            return -1;
        n++;
    }
    return n;
}

static bool was_swapped(const tess_course *course, const tess_member_view *odd)
{
    const tess_record *first = tess_member_at(odd, course->at), *second = tess_member_at(odd, course->at + 1);
    const tess_record *a = expected(course, 0), *b = expected(course, 1);
    return second != NULL && b != NULL && tess_request_same(first, b) && tess_request_same(second, a) &&
           agreeing(course, odd, 2, 2) >= 0;
}

/* Whether no rank of the majority ever called from this call site. */
static bool site_is_its_own(const tess_course *course, const tess_record *record)
{
    if (record->call_site == 0 && record->site[0] == '\0')
        return false;
    for (int m = 0; m < course->team->team->n_ranks; m++) {
        const tess_member_view *member = &course->team->members[m];
        for (size_t i = 0; course->right[m] && i < member->n_records; i++)
            if (tess_request_same_site(member->records[i], record))
                return false;
    }
    return true;
}

static bool repeats(const tess_course *course, const tess_record *got)
{
    const tess_record *before = course->at > 0 ? done_at(course->team, course->right, course->at - 1) : NULL;
    return before != NULL && tess_request_same(before, got) && tess_request_same_site(before, got);
}

/* Whether the operation looks extra, if there are no later operations to compare. It does if it repeats the
 * operation before it, or if its call site and phase occur nowhere else. */
static bool looks_extra(const tess_course *course, const tess_record *got)
{
    const tess_record *want = expected(course, 0);
    if (repeats(course, got))
        return true;
    return strncmp(got->phase, want->phase, sizeof(got->phase)) != 0 && site_is_its_own(course, got);
}

/* Returns how well `n` skipped operations explain the requests of the odd rank; <= 0: they do not. A single request
 * is no skip if it has the majority's call site and not that of the request expected after the skip. */
static int fit_of_skip(const tess_course *course, const tess_member_view *odd, int n, bool alone)
{
    const tess_record *got = tess_member_at(odd, course->at);
    int agree = agreeing(course, odd, 0, (uint64_t)n);
    if (agree <= 0 || !alone)
        return agree;
    bool is_same_call =
        tess_request_same_site(got, expected(course, 0)) && !tess_request_same_site(got, expected(course, (uint64_t)n));
    return is_same_call || (n > 1 && repeats(course, got)) ? 0 : agree;
}

/* Finds the smallest slip that explains all requests. Steps resemble each other, so a larger slip might explain
 * them, too. */
tess_slip tess_course_slip(const tess_course *course, const tess_member_view *odd, int *n)
{
    bool alone = tess_member_at(odd, course->at + 1) == NULL;
    int as_other = agreeing(course, odd, 1, 1);
    *n = 1;
    if (was_swapped(course, odd))
        return TESS_SLIP_SWAPPED;
    for (int k = 1; k <= MOST_SLIPPED; k++) {
        int as_skipped = fit_of_skip(course, odd, k, alone), as_extra = agreeing(course, odd, (uint64_t)k, 0);
        int most = as_skipped > as_extra ? as_skipped : as_extra;
        if (most <= 0 || most <= as_other)
            continue;
        *n = k;
        return as_skipped >= as_extra ? TESS_SLIP_SKIPPED : TESS_SLIP_EXTRA;
    }
    return alone && looks_extra(course, tess_member_at(odd, course->at)) ? TESS_SLIP_EXTRA : TESS_SLIP_OTHER;
}

/* ---- The habit of a rank ---- */
static bool same(const tess_record *a, const tess_record *b)
{
    return a->team == b->team && tess_request_same(a, b);
}

static bool same_of_rank(const void *rank_, uint64_t a, uint64_t b)
{
    const tess_rank_history *rank = rank_;
    return same(&rank->records[a], &rank->records[b]);
}

/* Returns how many operations after `from` the request comes; SOON: not within SOON operations. */
static int distance(const tess_rank_history *rank, size_t from, size_t end, const tess_record *record)
{
    for (int k = 0; k < SOON && from + (size_t)k < end; k++)
        if (same(&rank->records[from + (size_t)k], record))
            return k;
    return SOON;
}

tess_slip tess_habit_slip(const tess_history *history, int rank, const tess_record *due, const tess_record *got, int *n)
{
    const tess_rank_history *r = &history->ranks[rank];
    size_t at = (size_t)(got - r->records), like = find_like(same_of_rank, r, at, 1);
    int to_due = distance(r, like, at, due), to_got = distance(r, like, at, got);
    bool repeats = at > 0 && same(&r->records[at - 1], got);
    *n = 1;
    if (like == at || to_due == SOON || to_got < to_due)
        return TESS_SLIP_OTHER;
    if (to_got == SOON || (repeats && to_got > 1))
        return TESS_SLIP_EXTRA;
    *n = to_got;
    return TESS_SLIP_SKIPPED;
}
