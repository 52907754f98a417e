/* Finds members of a team that disagree: the first sequence number at which two of them made different requests. */
#include <string.h>

#include "diagnosis/align.h"
#include "diagnosis/majority.h"
#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

typedef struct parting {
    const tess_team_view *team;
    uint64_t sequence;
    uint64_t time_ns; /* time of the first of the requests at that place */
    bool by_site;     /* the requests differ only in their call sites, and the guard refused them for that */
} parting;

/* Finds the lowest sequence number at any cursor. Returns false if all cursors are at their ends. */
static bool next_sequence(const tess_team_view *team, const size_t *cursor, uint64_t *sequence)
{
    bool found = false;
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_member_view *member = &team->members[i];
        if (cursor[i] >= member->n_records)
            continue;
        uint64_t here = member->records[cursor[i]]->sequence;
        if (!found || here < *sequence)
            *sequence = here;
        found = true;
    }
    return found;
}

/* Advances the cursors that are at found->sequence. Returns true if two requests there differ. */
static bool pass(const diagnosis_search *search, const tess_team_view *team, parting *found)
{
    const tess_history *history = search->history;
    const tess_record *first = NULL;
    bool differ = false;
    found->time_ns = UINT64_MAX;
    found->by_site = false;
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_member_view *member = &team->members[i];
        size_t *cursor = &search->cursor[i];
        if (*cursor >= member->n_records || member->records[*cursor]->sequence != found->sequence)
            continue;
        const tess_record *record = member->records[(*cursor)++];
        uint64_t at_ns = tess_rank_time(history, member->rank, record->enqueued_ns);
        found->time_ns = at_ns < found->time_ns ? at_ns : found->time_ns;
        first = first != NULL ? first : record;
        differ = differ || !tess_request_same(first, record);
        bool both_failed = first->state == TESS_TRACE_FAILED && record->state == TESS_TRACE_FAILED;
        found->by_site |= search->sites_differ && both_failed && !tess_request_same_site(first, record);
    }
    found->by_site = found->by_site && !differ;
    return differ || found->by_site;
}

static bool find_in_team(const diagnosis_search *search, const tess_team_view *team, parting *found)
{
    memset(search->cursor, 0, (size_t)team->team->n_ranks * sizeof(search->cursor[0]));
    found->team = team;
    while (next_sequence(team, search->cursor, &found->sequence))
        if (pass(search, team, found))
            return true;
    return false;
}

static const tess_record *asked(const parting *where, int place)
{
    return tess_member_at(&where->team->members[place], where->sequence);
}

static bool alike(const parting *where, const tess_record *a, const tess_record *b)
{
    return tess_request_same(a, b) && (!where->by_site || tess_request_same_site(a, b));
}

static int count_like(const parting *where, const tess_record *record)
{
    int n = 0;
    for (int i = 0; i < where->team->team->n_ranks; i++) {
        const tess_record *other = asked(where, i);
        n += other != NULL && alike(where, other, record);
    }
    return n;
}

static bool places_alike(const void *where, int a, int b)
{
    const tess_record *x = asked(where, a), *y = asked(where, b);
    return x != NULL && y != NULL && alike(where, x, y);
}

/* Marks the ranks with the same request as the member `place` (`like`), or those with a different one. Fills
 * search->right with the former. */
static void mark_camp(diagnosis_search *search, const parting *where, int place, bool like)
{
    const tess_record *record = asked(where, place);
    for (int i = 0; i < where->team->team->n_ranks; i++) {
        const tess_record *other = asked(where, i);
        search->right[i] = other != NULL && alike(where, other, record);
        if (other != NULL && search->right[i] == like)
            search->mark[where->team->members[i].rank] = true;
    }
}

/* Whether the others wait on this team for the request that the rank made on the wrong team. */
static bool is_wanted_in(const diagnosis_search *search, const tess_team_view *team, const tess_member_view *member)
{
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_record *newest = tess_member_newest(&team->members[i]);
        if (newest != NULL && newest->state != TESS_TRACE_COMPLETED &&
            tess_request_same(newest, &search->diagnosis->odd) && tess_member_at(member, newest->sequence) == NULL &&
            tess_member_is_behind(&search->view, member, newest->sequence))
            return true;
    }
    return false;
}

/* Whether the ranks disagree on this team, too: the request that is extra on one team is missing on the other. The
 * misplaced request becomes diagnosis->odd. */
static bool parts_there_too(diagnosis_search *search, const tess_team_view *team, const tess_member_view *member)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    parting there;
    if (!find_in_team(search, team, &there))
        return false;
    const tess_record *own = tess_member_at(member, there.sequence);
    if (own == NULL)
        return false;
    if (tess_request_same(own, &diagnosis->record)) {
        diagnosis->odd = *own;
        return true;
    }
    if (tess_request_same(own, &diagnosis->odd))
        return false;
    for (int i = 0; i < team->team->n_ranks; i++)
        if (&team->members[i] != member && asked(&there, i) != NULL &&
            tess_request_same(asked(&there, i), &diagnosis->odd))
            return true;
    return false;
}

/* Whether the others wait for the rank's last request on this team, which no other member made. That request becomes
 * diagnosis->odd. */
static bool is_made_in(diagnosis_search *search, const tess_team_view *team, const tess_member_view *member)
{
    const tess_record *newest = tess_member_newest(member);
    if (newest == NULL || newest->state == TESS_TRACE_COMPLETED ||
        !tess_request_same(newest, &search->diagnosis->record))
        return false;
    for (int i = 0; i < team->team->n_ranks; i++)
        if (&team->members[i] != member && tess_member_at(&team->members[i], newest->sequence) != NULL)
            return false;
    search->diagnosis->odd = *newest;
    return true;
}

static bool took_wrong_team(diagnosis_search *search, const parting *where, int rank)
{
    for (size_t t = 0; t < search->view.n_teams; t++) {
        const tess_team_view *team = &search->view.teams[t];
        const tess_member_view *member = team != where->team ? tess_view_member(team, rank) : NULL;
        if (member != NULL && (is_wanted_in(search, team, member) || parts_there_too(search, team, member) ||
                               is_made_in(search, team, member)))
            return true;
    }
    return false;
}

static tess_diagnosis_kind classify(diagnosis_search *search, const parting *where, int odd_place)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    int n;
    if (where->by_site)
        return TESS_DIAGNOSIS_ORDER;
    if (took_wrong_team(search, where, where->team->members[odd_place].rank))
        return TESS_DIAGNOSIS_MISMATCH_TEAM;
    tess_course course = tess_course_find(where->team, search->right, where->sequence);
    tess_slip slip = tess_course_slip(&course, &where->team->members[odd_place], &n);
    diagnosis->n_operations = n;
    switch (slip) {
    case TESS_SLIP_SKIPPED:
        return TESS_DIAGNOSIS_SKIPPED;
    case TESS_SLIP_EXTRA:
        return TESS_DIAGNOSIS_EXTRA;
    case TESS_SLIP_SWAPPED:
        return TESS_DIAGNOSIS_ORDER;
    default:
        return tess_request_difference(&diagnosis->record, &diagnosis->odd);
    }
}

static bool is_specific(tess_diagnosis_kind kind)
{
    return kind == TESS_DIAGNOSIS_ORDER || kind == TESS_DIAGNOSIS_MISMATCH_TEAM;
}

/* Classifies a tie, in which either group may be odd. Tries both and takes the more specific kind, because a
 * specific match is hardly a coincidence. */
static tess_diagnosis_kind classify_tie(diagnosis_search *search, const parting *where, int right, int odd)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    tess_record record = diagnosis->record, odd_record = diagnosis->odd;
    tess_diagnosis_kind kind = classify(search, where, odd);
    int n_operations = diagnosis->n_operations;
    if (is_specific(kind))
        return kind;
    mark_camp(search, where, odd, true);
    diagnosis_take_marked(search, search->queue);
    diagnosis->record = odd_record;
    diagnosis->odd = record;
    tess_diagnosis_kind other = classify(search, where, right);
    diagnosis->record = record;
    diagnosis->odd = odd_record;
    diagnosis->n_operations = n_operations;
    return is_specific(other) ? other : kind;
}

/* Adds one line per group, with its call site. */
static void report_camps(diagnosis_search *search, const parting *where)
{
    enum { MOST_CAMPS = 6 };
    int n_camps = 0, n_ranks = where->team->team->n_ranks;
    for (int i = 0; i < n_ranks && n_camps < MOST_CAMPS; i++) {
        const tess_record *record = asked(where, i);
        bool reported = record == NULL;
        for (int j = 0; j < i && !reported; j++)
            reported = asked(where, j) != NULL && alike(where, asked(where, j), record);
        if (reported)
            continue;
        char who[160];
        mark_camp(search, where, i, true);
        int n = diagnosis_take_marked(search, search->queue);
        tess_sentence words = tess_sentence_begin(who, sizeof(who));
        tess_sentence_ranks(&words, search->queue, n);
        tess_sentence_add(&words, " called");
        diagnosis_add_call(search, who, record);
        n_camps++;
    }
}

/* Adds a hint without blame: which of two equal groups made the request that earlier steps predict. */
static void report_hint(diagnosis_search *search, const parting *where)
{
    const tess_record *next = tess_course_predict(where->team, search->right, where->sequence);
    if (next == NULL)
        return;
    for (int i = 0; i < where->team->team->n_ranks; i++) {
        const tess_record *record = asked(where, i);
        if (record == NULL || !tess_request_same(record, next))
            continue;
        diagnosis_add_line(search->diagnosis,
                           "hint: after the same operations before, all did what rank %d did here (%s)",
                           where->team->members[i].rank, tess_trace_op_name(next->op));
        return;
    }
}

/* Returns the first member of another group that is as large as that of `place`. */
static int first_rival(const parting *where, int place)
{
    int n = count_like(where, asked(where, place));
    for (int i = 0; i < where->team->team->n_ranks; i++)
        if (asked(where, i) != NULL && !alike(where, asked(where, i), asked(where, place)) &&
            count_like(where, asked(where, i)) == n)
            return i;
    return place;
}

/* Compares the groups. In a tie, the group of the lowest rank is compared with the other one. */
static void compare_camps(diagnosis_search *search, const parting *where)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    tess_majority majority = tess_majority_find(places_alike, where, where->team->team->n_ranks);
    int right = majority.first;
    diagnosis->tie = majority.tie;
    if (diagnosis->tie)
        right = first_rival(where, right);
    report_camps(search, where);
    mark_camp(search, where, right, true);
    diagnosis->n_waiting = diagnosis_take_marked(search, diagnosis->waiting);
    mark_camp(search, where, right, false);
    diagnosis->n_ranks = diagnosis_take_marked(search, diagnosis->ranks);
    int odd = tess_team_place(where->team->team, diagnosis->ranks[0]);
    diagnosis->team = where->team->team->hash;
    diagnosis->record = *asked(where, right);
    diagnosis->odd = *asked(where, odd);
    diagnosis->waited_s = diagnosis_waited_s(search, diagnosis->waiting[0], &diagnosis->record);
    diagnosis->kind = diagnosis->tie ? classify_tie(search, where, right, odd) : classify(search, where, odd);
    if (diagnosis->tie)
        report_hint(search, where);
}

bool diagnosis_find_disagreement(diagnosis_search *search)
{
    parting first = {.time_ns = UINT64_MAX}, here;
    /* Call sites often differ correctly, so they count only if the guard refused an operation for them. */
    for (int r = 0; r < search->history->world; r++)
        search->sites_differ |= strstr(search->history->ranks[r].error, TESS_ERROR_BY_PLACE) != NULL;
    for (size_t t = 0; t < search->view.n_teams; t++)
        if (find_in_team(search, &search->view.teams[t], &here) && (first.team == NULL || here.time_ns < first.time_ns))
            first = here;
    if (first.team == NULL)
        return false;
    compare_camps(search, &first);
    return true;
}
