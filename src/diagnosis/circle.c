/* Diagnoses ranks that wait for each other in a circle over several teams. The culprit is the rank that differs from
 * the majority, or from its own habit. */
#include "diagnosis/align.h"
#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

typedef struct wait_edge {
    int missing;
    const tess_record *record;
} wait_edge;

static bool take_first(void *context, int missing, const tess_record *record)
{
    *(wait_edge *)context = (wait_edge){.missing = missing, .record = record};
    return true;
}

static wait_edge first_edge(const diagnosis_search *search, int rank)
{
    wait_edge e = {.missing = -1};
    diagnosis_visit_blockers(search, rank, take_first, &e);
    return e;
}

/* Writes the ranks of the circle to which the waits of `from` lead to search->queue, in order. Returns their number. */
static int find_circle(diagnosis_search *search, int from)
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

static void report_circle(diagnosis_search *search, int n)
{
    enum { MOST_REPORTED = 8 };
    for (int i = 0; i < n && i < MOST_REPORTED; i++) {
        wait_edge e = first_edge(search, search->queue[i]);
        char what[192], site[TESS_HISTORY_TEXT + 8];
        tess_request_site(e.record, site, sizeof(site));
        diagnosis_add_line(search->diagnosis, "rank %d waits for rank %d in %s%s%s", search->queue[i], e.missing,
                           tess_request_format(search->history, e.record, what, sizeof(what)),
                           site[0] != '\0' ? ", at " : "", site);
    }
}

static bool has_come(const tess_team_view *team, int rank, uint64_t sequence)
{
    const tess_member_view *member = tess_view_member(team, rank);
    return member != NULL && tess_member_at(member, sequence) != NULL;
}

/* Lists the members of both teams that came to `a` but not to `b`, in ascending order. Returns their number. */
static int take_side(diagnosis_search *search, const tess_record *a, const tess_record *b, int *list)
{
    const tess_team_view *team = tess_view_team(&search->view, a->team);
    const tess_team_view *other = tess_view_team(&search->view, b->team);
    for (int i = 0; i < team->team->n_ranks; i++) {
        int rank = team->members[i].rank;
        if (rank >= 0 && tess_view_member(other, rank) != NULL && has_come(team, rank, a->sequence) &&
            !has_come(other, rank, b->sequence))
            search->mark[rank] = true;
    }
    return diagnosis_take_marked(search, list);
}

/* Returns how the first rank that called `got` instead of `due` left its habit: it skipped `due`, or made one call
 * too many. */
static tess_slip slip_to(diagnosis_search *search, const tess_record *due, const tess_record *got, int *n)
{
    take_side(search, got, due, search->diagnosis->waiting);
    int rank = search->diagnosis->waiting[0];
    const tess_team_view *team = tess_view_team(&search->view, got->team);
    return tess_habit_slip(search->history, rank, due, tess_member_at(tess_view_member(team, rank), got->sequence), n);
}

/* Breaks a tie if equally many ranks called `a` and `b` first. If only one side left its habit, swaps so that `b` is
 * that side's request, and returns true. */
static bool break_tie(diagnosis_search *search, const tess_record **a, const tess_record **b)
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

static tess_diagnosis_kind kind_of_slip(tess_slip slip)
{
    return slip == TESS_SLIP_SKIPPED ? TESS_DIAGNOSIS_SKIPPED
           : slip == TESS_SLIP_EXTRA ? TESS_DIAGNOSIS_EXTRA
                                     : TESS_DIAGNOSIS_DEADLOCK;
}

/* Blames the minority of the members of two teams: some called `a` first, the others `b`. */
static void blame_side(diagnosis_search *search, const tess_record *a, const tess_record *b)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    int n_a = take_side(search, a, b, diagnosis->ranks), n_b = take_side(search, b, a, diagnosis->waiting);
    const tess_record *right = n_a >= n_b ? a : b, *wrong = n_a >= n_b ? b : a;
    diagnosis->tie = n_a == n_b && !break_tie(search, &right, &wrong);
    diagnosis->kind = tess_request_same(right, wrong)
                          ? TESS_DIAGNOSIS_MISMATCH_TEAM
                          : kind_of_slip(slip_to(search, right, wrong, &diagnosis->n_operations));
    diagnosis->n_ranks = take_side(search, wrong, right, diagnosis->ranks);
    diagnosis->n_waiting = take_side(search, right, wrong, diagnosis->waiting);
    diagnosis->record = *right;
    diagnosis->odd = *wrong;
    diagnosis->team = right->team;
}

/* Blames all ranks of the circle if none is more to blame than the others. */
static void blame_all(diagnosis_search *search, int n)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    diagnosis->kind = TESS_DIAGNOSIS_DEADLOCK;
    diagnosis->tie = true;
    diagnosis->record = *first_edge(search, search->queue[0]).record;
    diagnosis->odd = diagnosis->record;
    diagnosis->team = diagnosis->record.team;
    for (int i = 0; i < n; i++)
        search->mark[search->queue[i]] = true;
    diagnosis->n_ranks = diagnosis_take_marked(search, diagnosis->ranks);
}

/* Blames the only rank of the circle that left its habit. The rank before it waits for the operation that it left
 * out. Returns false if there is no such rank. */
static bool blame_one(diagnosis_search *search, int n)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    int n_found = 0;
    for (int i = 0; i < n; i++) {
        wait_edge own = first_edge(search, search->queue[i]), due = first_edge(search, search->queue[(i + n - 1) % n]);
        int n_slipped;
        tess_slip slip = tess_habit_slip(search->history, search->queue[i], due.record, own.record, &n_slipped);
        if (slip == TESS_SLIP_OTHER)
            continue;
        n_found++;
        diagnosis->kind = kind_of_slip(slip);
        diagnosis->n_operations = n_slipped;
        diagnosis->ranks[0] = search->queue[i];
        diagnosis->waiting[0] = search->queue[(i + n - 1) % n];
        diagnosis->record = *due.record;
        diagnosis->odd = *own.record;
    }
    if (n_found != 1)
        return false;
    diagnosis->team = diagnosis->record.team;
    diagnosis->n_ranks = diagnosis->n_waiting = 1;
    return true;
}

void diagnosis_blame_circle(diagnosis_search *search, int from)
{
    int n = find_circle(search, from), n_messages = 0, with_message = 0;
    report_circle(search, n);
    for (int i = 0; i < n; i++) {
        if (tess_request_is_message(first_edge(search, search->queue[i]).record)) {
            with_message = search->queue[i];
            n_messages++;
        }
    }
    wait_edge a = first_edge(search, search->queue[0]), b = first_edge(search, search->queue[n > 1]);
    if (n_messages > 0 && n_messages < n)
        diagnosis_blame_message(search, with_message, first_edge(search, with_message).record);
    else if (n == 2 && n_messages == 0 && a.record->team != b.record->team)
        blame_side(search, a.record, b.record);
    else if (n_messages > 0 || !blame_one(search, n))
        blame_all(search, n);
}
