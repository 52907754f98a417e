#include "diagnosis/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "diagnosis/request.h"

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const tess_team_view *)a)->team->hash, y = ((const tess_team_view *)b)->team->hash;
    return (x > y) - (x < y);
}

static int by_sequence(const void *a, const void *b)
{
    const tess_record *x = *(const tess_record *const *)a, *y = *(const tess_record *const *)b;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return (x > y) - (x < y);
}

static tess_member_view *find_member(const tess_team_view *team, int rank)
{
    for (int i = 0; i < team->team->n_ranks; i++)
        if (team->members[i].rank == rank)
            return &team->members[i];
    return NULL;
}

const tess_team_view *tess_view_team(const tess_view *view, uint64_t hash)
{
    const tess_team_history wanted = {.hash = hash};
    const tess_team_view key = {.team = &wanted};
    return view->n_teams > 0 ? bsearch(&key, view->teams, view->n_teams, sizeof(key), by_hash) : NULL;
}

const tess_member_view *tess_view_member(const tess_team_view *team, int rank)
{
    return find_member(team, rank);
}

static void sort_records(tess_member_view *member)
{
    size_t n = 0;
    if (member->n_records == 0)
        return;
    qsort(member->records, member->n_records, sizeof(member->records[0]), by_sequence);
    for (size_t i = 0; i < member->n_records; i++) /* if two records have one sequence, the later one is kept */
        if (i + 1 == member->n_records || member->records[i + 1]->sequence != member->records[i]->sequence)
            member->records[n++] = member->records[i];
    member->n_records = n;
}

/* Stores the rank's records in the views of their teams, or only counts them. */
static void deal_records(tess_view *view, int r, bool count_only)
{
    const tess_rank_history *rank = &view->history->ranks[r];
    uint64_t failure_ns = UINT64_MAX, hash = 0; /* time of the first failure; team of the current record */
    tess_member_view *member = NULL;
    for (size_t i = 0; i < rank->n_records; i++)
        if (rank->records[i].state == TESS_TRACE_FAILED && rank->records[i].completed_ns < failure_ns)
            failure_ns = rank->records[i].completed_ns;
    for (size_t i = 0; i < rank->n_records; i++) {
        const tess_record *record = &rank->records[i];
        if (i == 0 || record->team != hash) {
            const tess_team_view *team = tess_view_team(view, record->team);
            hash = record->team;
            member = team != NULL ? find_member(team, r) : NULL;
        }
        if (member == NULL || record->enqueued_ns > failure_ns || tess_request_is_message(record))
            continue;
        if (!count_only)
            member->records[member->n_records] = record;
        member->n_records++;
    }
}

static void place_records(tess_view *view, size_t n_members)
{
    const tess_record **next = view->all_records;
    for (int r = 0; r < view->history->world; r++)
        deal_records(view, r, true);
    for (size_t m = 0; m < n_members; m++) {
        view->all_members[m].records = next;
        next += view->all_members[m].n_records;
        view->all_members[m].n_records = 0;
    }
    for (int r = 0; r < view->history->world; r++)
        deal_records(view, r, false);
    for (size_t m = 0; m < n_members; m++)
        sort_records(&view->all_members[m]);
}

static tess_status allocate(tess_view *view, size_t n_members, size_t n_records)
{
    tess_mem *mem = view->history->mem;
    TESS_TRY(TESS_NEW(mem, view->n_teams, "diagnosis", &view->teams));
    TESS_TRY(TESS_PART(view->teams, n_members, "diagnosis", &view->all_members));
    return TESS_PART(view->teams, n_records, "diagnosis", &view->all_records);
}

tess_status tess_view_create(const tess_history *history, tess_view *view)
{
    size_t n_members = 0, n_records = 0;
    *view = (tess_view){.history = history, .n_teams = history->n_teams};
    for (size_t t = 0; t < history->n_teams; t++)
        n_members += (size_t)history->teams[t].n_ranks;
    for (int r = 0; r < history->world; r++)
        n_records += history->ranks[r].n_records;
    tess_status status = allocate(view, n_members, n_records);
    if (status != TESS_OK) {
        tess_mem_drop(&view->teams);
        return status;
    }
    tess_member_view *members = view->all_members;
    for (size_t t = 0; t < history->n_teams; t++) {
        const tess_team_history *team = &history->teams[t];
        view->teams[t] = (tess_team_view){.team = team, .members = members};
        for (int i = 0; i < team->n_ranks; i++)
            members[i].rank = team->ranks[i] >= 0 && team->ranks[i] < history->world ? team->ranks[i] : -1;
        members += team->n_ranks;
    }
    if (view->n_teams > 0)
        qsort(view->teams, view->n_teams, sizeof(view->teams[0]), by_hash);
    place_records(view, n_members);
    return TESS_OK;
}

const tess_record *tess_member_at(const tess_member_view *member, uint64_t sequence)
{
    size_t low = 0, high = member->n_records;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (member->records[middle]->sequence < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low < member->n_records && member->records[low]->sequence == sequence ? member->records[low] : NULL;
}

const tess_record *tess_member_newest(const tess_member_view *member)
{
    return member->n_records > 0 ? member->records[member->n_records - 1] : NULL;
}

bool tess_member_is_behind(const tess_view *view, const tess_member_view *member, uint64_t sequence)
{
    const tess_record *newest = tess_member_newest(member);
    if (member->rank >= 0 && view->history->ranks[member->rank].lost_newest)
        return false;
    if (newest != NULL)
        return newest->sequence < sequence;
    return member->rank < 0 || !view->history->ranks[member->rank].present ||
           !view->history->ranks[member->rank].lost_any;
}

uint64_t tess_rank_time(const tess_history *history, int rank, uint64_t time_ns)
{
    return time_ns + (uint64_t)history->ranks[rank].clock_offset_ns;
}
