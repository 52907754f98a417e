/* Who waits for whom: from the rank that has waited longest along those that are not there, to one that waits for
 * nobody, or round in a circle. */
#include <stdlib.h>

#include "verdict/habit.h"
#include "verdict/request.h"
#include "verdict/verdict_impl.h"

enum { MOST_OPEN = 64 }; /* newest records of a rank among which those that wait are looked for */

/* ---- One operation -------------------------------------------------------------------------------------------------
 */
double verdict_waited_s(const verdict_search *search, int rank, const tess_record *record)
{
    bool is_over = record->completed_ns != 0;
    uint64_t begin = tess_rank_time(search->history, rank, record->enqueued_ns);
    uint64_t end = is_over ? tess_rank_time(search->history, rank, record->completed_ns) : search->history->now_ns;
    return record->enqueued_ns != 0 && end > begin ? (double)(end - begin) * 1e-9 : 0;
}

/* Something after it in the team is complete, so it was too, whatever the ring says (an event may be torn). */
static bool was_overtaken(const verdict_search *search, int rank, const tess_record *record)
{
    const tess_team_view *team = tess_view_team(&search->view, record->team);
    const tess_member_view *member = team != NULL ? tess_view_member(team, rank) : NULL;
    for (size_t i = member != NULL ? member->n_records : 0; i-- > 0 && member->records[i]->sequence > record->sequence;)
        if (member->records[i]->state == TESS_TRACE_COMPLETED)
            return true;
    return false;
}

static bool is_open(const verdict_search *search, int rank, const tess_record *record)
{
    if (record->state == TESS_TRACE_COMPLETED)
        return false;
    if (tess_request_is_message(record))
        return true;
    const tess_team_view *team = tess_view_team(&search->view, record->team);
    const tess_member_view *member = team != NULL ? tess_view_member(team, rank) : NULL;
    return member != NULL && tess_member_at(member, record->sequence) == record && !was_overtaken(search, rank, record);
}

/* Calls visit for every rank that has not come to `record` of `rank`, until it says stop. */
typedef bool visitor(void *context, int missing, const tess_record *record);

static bool visit_missing(const verdict_search *search, int rank, const tess_record *record, visitor *visit,
                          void *context)
{
    if (tess_request_is_message(record)) {
        int peer = verdict_message_peer(search, record);
        return peer >= 0 && peer != rank && !verdict_message_is_met(search, rank, record) &&
               visit(context, peer, record);
    }
    const tess_team_view *team = tess_view_team(&search->view, record->team);
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_member_view *member = &team->members[i];
        if (member->rank >= 0 && member->rank != rank &&
            tess_member_is_behind(&search->view, member, record->sequence) && visit(context, member->rank, record))
            return true;
    }
    return false;
}

/* The same for all operations of the rank that wait. */
static bool visit_blockers(const verdict_search *search, int rank, visitor *visit, void *context)
{
    const tess_rank_history *r = &search->history->ranks[rank];
    for (size_t i = r->n_records; i-- > 0 && r->n_records - i <= MOST_OPEN;)
        if (is_open(search, rank, &r->records[i]) && visit_missing(search, rank, &r->records[i], visit, context))
            return true;
    return false;
}

static bool stop_at_first(void *context, int missing, const tess_record *record)
{
    (void)context, (void)missing, (void)record;
    return true;
}

bool verdict_waits_for_somebody(const verdict_search *search, int rank)
{
    return visit_blockers(search, rank, stop_at_first, NULL);
}

/* What the system says of the rank explains why it does not come; what it waits for is then no matter. */
static bool is_explained(const tess_rank_history *rank)
{
    switch (verdict_situation(rank)) {
    case TESS_RANK_WELL:
    case TESS_RANK_UNKNOWN:
    case TESS_RANK_IN_OTHER_COLLECTIVE:
        return !rank->present;
    case TESS_RANK_EXITED: /* by its own error, it may have waited itself */
        return rank->error[0] == '\0';
    default:
        return true;
    }
}

static bool is_leaf(const verdict_search *search, int rank)
{
    return is_explained(&search->history->ranks[rank]) || !verdict_waits_for_somebody(search, rank);
}

/* ---- The one who has waited longest --------------------------------------------------------------------------------
 */
static int longest_waiting(const verdict_search *search, double *longest_s)
{
    int who = -1;
    *longest_s = 0;
    for (int r = 0; r < search->history->world; r++) {
        const tess_rank_history *rank = &search->history->ranks[r];
        if (is_explained(rank))
            continue;
        for (size_t i = rank->n_records; i-- > 0 && rank->n_records - i <= MOST_OPEN;) {
            const tess_record *record = &rank->records[i];
            if (!is_open(search, r, record) || !visit_missing(search, r, record, stop_at_first, NULL))
                continue;
            double waited_s = verdict_waited_s(search, r, record);
            bool long_enough = waited_s >= search->patience_s || record->state == TESS_TRACE_FAILED;
            if (long_enough && (who < 0 || waited_s > *longest_s)) {
                *longest_s = waited_s;
                who = r;
            }
        }
    }
    return who;
}

/* ---- All that it waits for in the end ------------------------------------------------------------------------------
 */
typedef struct reach {
    verdict_search *search;
    int n; /* of search->queue; mark says who is in it */
} reach;

static bool add_to_reach(void *context, int missing, const tess_record *record)
{
    reach *r = context;
    (void)record;
    if (!r->search->mark[missing]) {
        r->search->mark[missing] = true;
        r->search->queue[r->n++] = missing;
    }
    return false;
}

static int find_reach(verdict_search *search, int from)
{
    reach r = {.search = search};
    add_to_reach(&r, from, NULL);
    for (int i = 0; i < r.n; i++)
        if (!is_explained(&search->history->ranks[search->queue[i]]))
            visit_blockers(search, search->queue[i], add_to_reach, &r);
    for (int i = 0; i < r.n; i++)
        search->mark[search->queue[i]] = false;
    return r.n;
}

/* What is told first of two that others wait for. */
static bool comes_before(const tess_rank_history *a, const tess_rank_history *b)
{
    tess_situation x = verdict_situation(a), y = verdict_situation(b);
    x = x == TESS_RANK_WELL ? TESS_RANK_UNKNOWN : x;
    y = y == TESS_RANK_WELL ? TESS_RANK_UNKNOWN : y;
    if (x != y)
        return x < y;
    return !a->present && b->present; /* its dump is missing because it could not write it */
}

static bool is_like(const tess_rank_history *a, const tess_rank_history *b)
{
    return !comes_before(a, b) && !comes_before(b, a);
}

static tess_verdict_kind kind_of(const tess_rank_history *rank)
{
    switch (verdict_situation(rank)) {
    case TESS_RANK_CRASHED:
    case TESS_RANK_OOM_KILLED:
    case TESS_RANK_KILLED:
    case TESS_RANK_HOST_LOST:
        return TESS_VERDICT_LOST;
    case TESS_RANK_EXITED:
        return rank->error[0] != '\0' ? TESS_VERDICT_FAILED : TESS_VERDICT_LOST;
    case TESS_RANK_LEFT:
        return TESS_VERDICT_LEFT;
    case TESS_RANK_STOPPED:
        return TESS_VERDICT_STOPPED;
    case TESS_RANK_BLOCKED_IN_IO:
        return TESS_VERDICT_IO;
    case TESS_RANK_LOADING_DATA:
    case TESS_RANK_SLEEPING:
    case TESS_RANK_COMPUTING:
        return TESS_VERDICT_BUSY;
    case TESS_RANK_NOT_JOINED:
        return TESS_VERDICT_NOT_JOINED;
    default:
        return TESS_VERDICT_MISSING;
    }
}

typedef struct waiters {
    verdict_search *search;
    int rank; /* whose operations are looked at */
    double longest_s;
} waiters;

static bool is_guilty(const tess_verdict *verdict, int rank)
{
    for (int i = 0; i < verdict->n_ranks; i++)
        if (verdict->ranks[i] == rank)
            return true;
    return false;
}

static bool note_waiter(void *context, int missing, const tess_record *record)
{
    waiters *w = context;
    tess_verdict *verdict = w->search->verdict;
    if (!is_guilty(verdict, missing))
        return false;
    double waited_s = verdict_waited_s(w->search, w->rank, record);
    w->search->mark[w->rank] = true;
    if (verdict->record.op == TESS_TRACE_NONE || waited_s > w->longest_s) {
        w->longest_s = waited_s;
        verdict->record = *record;
        verdict->team = record->team;
    }
    return false;
}

void verdict_attach_waiters(verdict_search *search)
{
    tess_verdict *verdict = search->verdict;
    waiters w = {.search = search};
    for (w.rank = 0; w.rank < search->history->world; w.rank++)
        if (!is_guilty(verdict, w.rank))
            visit_blockers(search, w.rank, note_waiter, &w);
    verdict->n_waiting = verdict_take_marked(search, verdict->waiting);
    verdict->waited_s = w.longest_s;
    const tess_rank_history *first = &search->history->ranks[verdict->ranks[0]];
    if (first->n_records > 0)
        verdict->odd = first->records[first->n_records - 1];
}

/* Ranks that wait for others in turn stand between the guilty and those who notice. */
static void tell_chain(verdict_search *search, int n_reached)
{
    enum { MOST_TOLD = 4 };
    tess_verdict *verdict = search->verdict;
    for (int i = 0, n = 0; i < n_reached && n < MOST_TOLD; i++) {
        int rank = search->queue[i];
        const tess_rank_history *r = &search->history->ranks[rank];
        char what[192];
        bool told = is_guilty(verdict, rank) || r->n_records == 0;
        for (int k = 0; k < verdict->n_waiting && !told; k++)
            told = verdict->waiting[k] == rank;
        if (told)
            continue;
        verdict_add_line(verdict, "rank %d waits for one of those: %s", rank,
                         tess_request_format(search->history, &r->records[r->n_records - 1], what, sizeof(what)));
        n++;
    }
}

static bool name_leaves(verdict_search *search, int n_reached)
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
    for (int i = 0; i < n_reached; i++)
        if (is_leaf(search, search->queue[i]) && is_like(&ranks[search->queue[i]], &ranks[best]))
            search->mark[search->queue[i]] = true;
    search->verdict->kind = kind_of(&ranks[best]);
    search->verdict->n_ranks = verdict_take_marked(search, search->verdict->ranks);
    verdict_attach_waiters(search);
    tell_chain(search, n_reached);
    return true;
}

/* ---- Circles -------------------------------------------------------------------------------------------------------
 */
typedef struct edge {
    int missing;
    const tess_record *record;
} edge;

static bool take_first(void *context, int missing, const tess_record *record)
{
    *(edge *)context = (edge){.missing = missing, .record = record};
    return true;
}

static edge first_edge(const verdict_search *search, int rank)
{
    edge e = {.missing = -1};
    visit_blockers(search, rank, take_first, &e);
    return e;
}

/* The ranks of a circle that `from` leads into, in its order, into search->queue. */
static int find_circle(verdict_search *search, int from)
{
    int at = from, n = 0, first = 0;
    while (!search->mark[at]) {
        search->mark[at] = true;
        search->queue[n++] = at;
        at = first_edge(search, at).missing;
    }
    while (search->queue[first] != at)
        first++;
    for (int i = 0; i < n; i++)
        search->mark[search->queue[i]] = false;
    for (int i = first; i < n; i++)
        search->queue[i - first] = search->queue[i];
    return n - first;
}

static void tell_circle(verdict_search *search, int n)
{
    enum { MOST_TOLD = 8 };
    for (int i = 0; i < n && i < MOST_TOLD; i++) {
        edge e = first_edge(search, search->queue[i]);
        char what[192], site[TESS_HISTORY_TEXT + 8];
        tess_request_site(e.record, site, sizeof(site));
        verdict_add_line(search->verdict, "rank %d waits for rank %d in %s%s%s", search->queue[i], e.missing,
                         tess_request_format(search->history, e.record, what, sizeof(what)),
                         site[0] != '\0' ? ", at " : "", site);
    }
}

static bool has_come(const tess_team_view *team, int rank, uint64_t sequence)
{
    const tess_member_view *member = tess_view_member(team, rank);
    return member != NULL && tess_member_at(member, sequence) != NULL;
}

/* Marks the members of both teams that have come to `a` and not to `b`; returns how many. */
static int mark_side(verdict_search *search, const tess_record *a, const tess_record *b)
{
    const tess_team_view *team = tess_view_team(&search->view, a->team);
    const tess_team_view *other = tess_view_team(&search->view, b->team);
    int n = 0;
    for (int i = 0; i < team->team->n_ranks; i++) {
        int rank = team->members[i].rank;
        if (rank < 0 || tess_view_member(other, rank) == NULL || !has_come(team, rank, a->sequence) ||
            has_come(other, rank, b->sequence))
            continue;
        search->mark[rank] = true;
        n++;
    }
    return n;
}

static int count_side(verdict_search *search, const tess_record *a, const tess_record *b)
{
    int n = mark_side(search, a, b);
    verdict_take_marked(search, search->verdict->waiting);
    return n;
}

static int first_of_side(verdict_search *search, const tess_record *a, const tess_record *b)
{
    mark_side(search, a, b);
    verdict_take_marked(search, search->verdict->waiting);
    return search->verdict->waiting[0];
}

/* How the first rank that went to `got` instead of `due` came to do so: it skipped `due`, or did one too many. */
static tess_slip slip_to(verdict_search *search, const tess_record *due, const tess_record *got, int *n)
{
    int rank = first_of_side(search, got, due);
    const tess_team_view *team = tess_view_team(&search->view, got->team);
    return tess_habit_slip(search->history, rank, due, tess_member_at(tess_view_member(team, rank), got->sequence), n);
}

/* Two ways, `a` first or `b` first, taken by as many: did just one of them leave its habit? Swaps them when it is `a`
 * that did; false: that does not tell. */
static bool break_tie(verdict_search *search, const tess_record **a, const tess_record **b)
{
    int n;
    bool b_slipped = slip_to(search, *a, *b, &n) != TESS_SLIP_OTHER;
    bool a_slipped = slip_to(search, *b, *a, &n) != TESS_SLIP_OTHER;
    if (a_slipped && !b_slipped) {
        const tess_record *first = *a;
        *a = *b;
        *b = first;
    }
    return a_slipped != b_slipped;
}

/* The same operation, on another team; one left out, or one too many, after which the rank goes on in another team; or
 * else just two orders. */
static tess_verdict_kind kind_of_two_ways(verdict_search *search, const tess_record *due, const tess_record *got,
                                          int *n)
{
    if (tess_request_same(due, got))
        return TESS_VERDICT_MISMATCH_TEAM;
    switch (slip_to(search, due, got, n)) {
    case TESS_SLIP_SKIPPED:
        return TESS_VERDICT_SKIPPED;
    case TESS_SLIP_EXTRA:
        return TESS_VERDICT_EXTRA;
    default:
        return TESS_VERDICT_DEADLOCK;
    }
}

/* Two teams, and members of both that went to one first or to the other: most are right. */
static void judge_two_ways(verdict_search *search, const tess_record *a, const tess_record *b)
{
    tess_verdict *verdict = search->verdict;
    int n_a = count_side(search, a, b), n_b = count_side(search, b, a);
    const tess_record *right = n_a >= n_b ? a : b, *wrong = n_a >= n_b ? b : a;
    verdict->tie = n_a == n_b && !break_tie(search, &right, &wrong);
    verdict->kind = kind_of_two_ways(search, right, wrong, &verdict->n_operations);
    mark_side(search, wrong, right);
    verdict->n_ranks = verdict_take_marked(search, verdict->ranks);
    mark_side(search, right, wrong);
    verdict->n_waiting = verdict_take_marked(search, verdict->waiting);
    verdict->record = *right;
    verdict->odd = *wrong;
    verdict->team = right->team;
}

/* Nobody of the circle is more guilty than the others. */
static void name_all_of_circle(verdict_search *search, int n)
{
    tess_verdict *verdict = search->verdict;
    verdict->kind = TESS_VERDICT_DEADLOCK;
    verdict->tie = true;
    verdict->record = *first_edge(search, search->queue[0]).record;
    verdict->odd = verdict->record;
    verdict->team = verdict->record.team;
    for (int i = 0; i < n; i++)
        search->mark[search->queue[i]] = true;
    verdict->n_ranks = verdict_take_marked(search, verdict->ranks);
}

static void name_circle(verdict_search *search, int from)
{
    int n = find_circle(search, from), n_messages = 0, with_message = 0;
    tell_circle(search, n);
    for (int i = 0; i < n; i++) {
        if (tess_request_is_message(first_edge(search, search->queue[i]).record)) {
            with_message = search->queue[i];
            n_messages++;
        }
    }
    edge a = first_edge(search, search->queue[0]), b = first_edge(search, search->queue[n > 1]);
    if (n_messages > 0 && n_messages < n)
        verdict_judge_message(search, with_message, first_edge(search, with_message).record);
    else if (n == 2 && n_messages == 0 && a.record->team != b.record->team)
        judge_two_ways(search, a.record, b.record);
    else
        name_all_of_circle(search, n);
}

bool verdict_find_waiting(verdict_search *search)
{
    double longest_s;
    int from = longest_waiting(search, &longest_s);
    if (from < 0)
        return false;
    if (!name_leaves(search, find_reach(search, from)))
        name_circle(search, from);
    if (search->verdict->waited_s < longest_s)
        search->verdict->waited_s = longest_s;
    return true;
}
