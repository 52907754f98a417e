/* Follows ranks that wait for each other: from the rank that has waited longest, over the ranks that are missing, to
 * a rank that waits for none. */
#include <stdlib.h>

#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

static bool is_leaf(const diagnosis_search *search, int rank)
{
    return diagnosis_is_explained(&search->history->ranks[rank]) ||
           !(diagnosis_waits_for_somebody(search, rank) || diagnosis_waits_for_unknown(search, rank));
}

/* ---- The rank that has waited longest ---- */
static bool stop_at_explained(void *context, int missing, TESS_UNUSED const tess_record *record)
{
    const tess_history *history = *(const tess_history *const *)context;
    return diagnosis_is_explained(&history->ranks[missing]);
}

/* Whether the wait is long enough for blame. In a dead job, the length of the wait may be unknown, because its end
 * was not recorded. It is then enough that the situation of a missing rank explains its absence. */
static bool is_long(const diagnosis_search *search, int rank, const tess_record *record, double waited_s)
{
    const tess_history *history = search->history;
    return waited_s >= search->patience_s || record->state == TESS_TRACE_FAILED ||
           (history->source == TESS_HISTORY_RINGS &&
            diagnosis_visit_missing(search, rank, record, stop_at_explained, &history));
}

static int longest_waiting(const diagnosis_search *search, double *longest_s)
{
    int who = -1;
    *longest_s = 0;
    for (int r = 0; r < search->history->world; r++) {
        const tess_rank_history *rank = &search->history->ranks[r];
        if (diagnosis_is_explained(rank))
            continue;
        for (size_t i = rank->n_records; i-- > 0 && rank->n_records - i <= DIAGNOSIS_MOST_OPEN;) {
            const tess_record *record = &rank->records[i];
            if (!diagnosis_waits_in(search, r, record))
                continue;
            double waited_s = diagnosis_waited_s(search, r, record);
            if (is_long(search, r, record, waited_s) && (who < 0 || waited_s > *longest_s)) {
                *longest_s = waited_s;
                who = r;
            }
        }
    }
    return who;
}

/* ---- All ranks that a rank waits for, directly or not ---- */
typedef struct wait_reach {
    diagnosis_search *search;
    int n; /* number of ranks in search->queue; search->mark marks the same ranks */
} wait_reach;

static bool add_to_reach(void *context, int missing, TESS_UNUSED const tess_record *record)
{
    wait_reach *r = context;
    if (!r->search->mark[missing]) {
        r->search->mark[missing] = true;
        r->search->queue[r->n++] = missing;
    }
    return false;
}

static int find_reach(diagnosis_search *search, int from)
{
    wait_reach r = {.search = search};
    add_to_reach(&r, from, NULL);
    for (int i = 0; i < r.n; i++)
        if (!diagnosis_is_explained(&search->history->ranks[search->queue[i]]))
            diagnosis_visit_blockers(search, search->queue[i], add_to_reach, &r);
    for (int i = 0; i < r.n; i++)
        search->mark[search->queue[i]] = false;
    return r.n;
}

/* Whether `a` is to blame before `b`, of two ranks that others wait for. A rank with records comes before a rank
 * without records, which may have joined the operation. */
static bool comes_before(const tess_rank_history *a, const tess_rank_history *b)
{
    tess_situation x = diagnosis_situation(a), y = diagnosis_situation(b);
    x = x == TESS_RANK_WELL ? TESS_RANK_UNKNOWN : x;
    y = y == TESS_RANK_WELL ? TESS_RANK_UNKNOWN : y;
    if (x != y)
        return x < y;
    return a->present && !b->present;
}

static tess_diagnosis_kind kind_of(const tess_rank_history *rank)
{
    switch (diagnosis_situation(rank)) {
    case TESS_RANK_CRASHED:
    case TESS_RANK_OOM_KILLED:
    case TESS_RANK_KILLED:
    case TESS_RANK_HOST_LOST:
        return TESS_DIAGNOSIS_LOST;
    case TESS_RANK_EXITED:
        return rank->error[0] != '\0' ? TESS_DIAGNOSIS_FAILED : TESS_DIAGNOSIS_LOST;
    case TESS_RANK_LEFT:
        return TESS_DIAGNOSIS_LEFT;
    case TESS_RANK_STOPPED:
        return TESS_DIAGNOSIS_STOPPED;
    case TESS_RANK_BLOCKED_IN_IO:
        return TESS_DIAGNOSIS_IO;
    case TESS_RANK_LOADING_DATA:
    case TESS_RANK_SLEEPING:
    case TESS_RANK_COMPUTING:
        return TESS_DIAGNOSIS_BUSY;
    case TESS_RANK_NOT_JOINED:
        return TESS_DIAGNOSIS_NOT_JOINED;
    default:
        return TESS_DIAGNOSIS_MISSING;
    }
}

typedef struct waiters {
    diagnosis_search *search;
    int rank; /* rank whose operations are visited */
    double longest_s;
} waiters;

static bool is_in(const int *ranks, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

static bool note_waiter(void *context, int missing, const tess_record *record)
{
    waiters *w = context;
    tess_diagnosis *diagnosis = w->search->diagnosis;
    if (!is_in(diagnosis->ranks, diagnosis->n_ranks, missing))
        return false;
    double waited_s = diagnosis_waited_s(w->search, w->rank, record);
    w->search->mark[w->rank] = true;
    if (diagnosis->record.op == TESS_TRACE_NONE || waited_s > w->longest_s) {
        w->longest_s = waited_s;
        diagnosis->record = *record;
        diagnosis->team = record->team;
    }
    return false;
}

void diagnosis_attach_waiters(diagnosis_search *search)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    waiters w = {.search = search};
    for (w.rank = 0; w.rank < search->history->world; w.rank++)
        if (!is_in(diagnosis->ranks, diagnosis->n_ranks, w.rank))
            diagnosis_visit_blockers(search, w.rank, note_waiter, &w);
    diagnosis->n_waiting = diagnosis_take_marked(search, diagnosis->waiting);
    diagnosis->waited_s = w.longest_s;
    const tess_rank_history *first = &search->history->ranks[diagnosis->ranks[0]];
    if (first->n_records > 0)
        diagnosis->odd = first->records[first->n_records - 1];
}

/* Returns the newest operation in which the rank waits, or NULL if it waits in none. */
static const tess_record *newest_waiting(const diagnosis_search *search, int rank)
{
    const tess_rank_history *r = &search->history->ranks[rank];
    for (size_t i = r->n_records; i-- > 0 && r->n_records - i <= DIAGNOSIS_MOST_OPEN;)
        if (diagnosis_waits_in(search, rank, &r->records[i]))
            return &r->records[i];
    return NULL;
}

/* Reports the ranks between the culprits and those that wait for them. They wait themselves, or left no records. */
static void report_chain(diagnosis_search *search, int n_reached)
{
    enum { MOST_REPORTED = 4 };
    tess_diagnosis *diagnosis = search->diagnosis;
    for (int i = 0, n = 0; i < n_reached && n < MOST_REPORTED; i++) {
        int rank = search->queue[i];
        const tess_record *record = newest_waiting(search, rank);
        bool present = search->history->ranks[rank].present;
        char what[192];
        if (is_in(diagnosis->waiting, diagnosis->n_waiting, rank) ||
            is_in(diagnosis->ranks, diagnosis->n_ranks, rank) || (present && record == NULL))
            continue;
        if (present)
            diagnosis_add_line(diagnosis, "rank %d waits for one of those: %s", rank,
                               tess_request_format(search->history, record, what, sizeof(what)));
        else
            diagnosis_add_line(diagnosis, "rank %d has left no record: whether it came is not known%s%.*s", rank,
                               search->history->ranks[rank].why[0] != '\0' ? "; " : "", TESS_HISTORY_LONG_TEXT - 1,
                               search->history->ranks[rank].why);
        n++;
    }
}

static bool blame_leaves(diagnosis_search *search, int n_reached)
{
    const tess_rank_history *ranks = search->history->ranks;
    int best = -1;
    for (int i = 0; i < n_reached; i++) {
        int rank = search->queue[i];
        if (is_leaf(search, rank) && (best < 0 || comes_before(&ranks[rank], &ranks[best])))
            best = rank;
    }
    if (best < 0)
        return false;
    for (int i = 0; i < n_reached; i++) { /* also marks the ranks that are equally to blame */
        int rank = search->queue[i];
        search->mark[rank] |= is_leaf(search, rank) && !comes_before(&ranks[best], &ranks[rank]);
    }
    search->diagnosis->kind = kind_of(&ranks[best]);
    search->diagnosis->n_ranks = diagnosis_take_marked(search, search->diagnosis->ranks);
    diagnosis_attach_waiters(search);
    report_chain(search, n_reached);
    return true;
}

/* Sides with the majority in dumps and logs of another framework. They show what a rank called, but not what it did
 * afterwards. If more members have left out an operation than called it, the operation was one too many. */
static void side_with_majority(diagnosis_search *search)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    const tess_team_view *team = tess_view_team(&search->view, diagnosis->record.team);
    if (search->history->source != TESS_HISTORY_PYTORCH || diagnosis->kind != TESS_DIAGNOSIS_MISSING || team == NULL ||
        tess_request_is_message(&diagnosis->record) || diagnosis->n_ranks <= diagnosis->n_waiting)
        return;
    for (int i = 0; i < diagnosis->n_ranks; i++)
        if (!search->history->ranks[diagnosis->ranks[i]].present || tess_view_member(team, diagnosis->ranks[i]) == NULL)
            return;
    const tess_record *newest = tess_member_newest(tess_view_member(team, diagnosis->ranks[0]));
    const tess_record *called = &diagnosis->record;
    int *ranks = diagnosis->ranks;
    uint64_t n = newest != NULL ? called->sequence - newest->sequence : 1;
    diagnosis->kind = TESS_DIAGNOSIS_EXTRA;
    diagnosis->n_operations = n < INT32_MAX ? (int)n : INT32_MAX;
    diagnosis->ranks = diagnosis->waiting;
    diagnosis->n_ranks = diagnosis->n_waiting;
    diagnosis->waiting = ranks;
    diagnosis->n_waiting = 0;
    diagnosis->odd = *called;
}

bool diagnosis_find_waiting(diagnosis_search *search)
{
    double longest_s;
    int from = longest_waiting(search, &longest_s);
    if (from < 0)
        return false;
    int n_reached = find_reach(search, from);
    if (!blame_leaves(search, n_reached)) {
        for (int i = 0; i < n_reached; i++)
            if (diagnosis_waits_for_unknown(search, search->queue[i]))
                return false; /* the chain ends in a rank without records */
        diagnosis_blame_circle(search, from);
    }
    side_with_majority(search);
    if (search->diagnosis->waited_s < longest_s)
        search->diagnosis->waited_s = longest_s;
    return true;
}

/* ---- A rank that vanished ---- */
/* Marks the other members that failed in the operation. Returns true if `rank` alone still has it open. */
static bool mark_failed(diagnosis_search *search, int rank, const tess_record *record)
{
    const tess_team_view *team = tess_view_team(&search->view, record->team);
    int n_failed = 0, n_open = 0;
    if (team == NULL || tess_request_is_message(record))
        return false;
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_record *other = tess_member_at(&team->members[i], record->sequence);
        bool failed = other != NULL && other->state == TESS_TRACE_FAILED;
        n_failed += failed;
        n_open += other != NULL && other->state < TESS_TRACE_COMPLETED;
        if (failed && team->members[i].rank != rank)
            search->mark[team->members[i].rank] = true;
    }
    return n_failed > 0 && n_open == 1;
}

bool diagnosis_find_vanished(diagnosis_search *search)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    for (int r = 0; r < search->history->world && search->history->source == TESS_HISTORY_RINGS; r++) {
        const tess_record *record = diagnosis_newest_open(search, r);
        bool vanished = record != NULL && mark_failed(search, r, record);
        diagnosis->n_waiting = diagnosis_take_marked(search, diagnosis->waiting);
        if (!vanished)
            continue;
        diagnosis->kind = TESS_DIAGNOSIS_LOST;
        diagnosis->ranks[0] = r;
        diagnosis->n_ranks = 1;
        diagnosis->team = record->team;
        diagnosis->odd = *record;
        return true;
    }
    diagnosis->n_waiting = 0;
    return false;
}
