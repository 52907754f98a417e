/* Finds ranks that make the same request at different steps. Steps resemble each other: after a rank has left out a
 * whole step, all its requests still match, until one comes that is not part of every step. */
#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

typedef struct step_parting {
    const tess_team_view *team;
    uint64_t sequence, time_ns;
    int64_t step; /* step of most ranks */
} step_parting;

/* Returns the step of more than half of the members in this operation; -1: there is none, or their requests differ. */
static int64_t step_of_most(const tess_team_view *team, uint64_t sequence, bool *differ)
{
    const tess_record *best = NULL;
    int n = 0, votes = 0, n_best = 0;
    *differ = false;
    for (int i = 0; i < team->team->n_ranks; i++) { /* Boyer-Moore vote: only the last candidate can have a majority */
        const tess_record *record = tess_member_at(&team->members[i], sequence);
        if (record == NULL)
            continue;
        if (best != NULL && !tess_request_same(best, record))
            return -1;
        *differ |= best != NULL && best->step != record->step;
        best = votes == 0 ? record : best;
        votes += record->step == best->step ? 1 : -1;
        n++;
    }
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_record *record = tess_member_at(&team->members[i], sequence);
        n_best += record != NULL && record->step == best->step;
    }
    return 2 * n_best > n ? best->step : -1;
}

static bool is_odd(const step_parting *where, int place)
{
    const tess_record *record = tess_member_at(&where->team->members[place], where->sequence);
    return record != NULL && record->step >= 0 && record->step != where->step;
}

static bool find_in_team(const diagnosis_search *search, const tess_team_view *team, step_parting *found)
{
    const tess_member_view *longest = &team->members[0];
    for (int i = 1; i < team->team->n_ranks; i++)
        if (team->members[i].n_records > longest->n_records)
            longest = &team->members[i];
    found->team = team;
    for (size_t i = 0; i < longest->n_records; i++) {
        bool differ;
        found->sequence = longest->records[i]->sequence;
        found->step = step_of_most(team, found->sequence, &differ);
        found->time_ns = tess_rank_time(search->history, longest->rank, longest->records[i]->enqueued_ns);
        if (differ && found->step >= 0)
            return true;
    }
    return false;
}

static bool find_first(const diagnosis_search *search, step_parting *first)
{
    step_parting here;
    *first = (step_parting){0};
    for (size_t t = 0; t < search->view.n_teams; t++)
        if (find_in_team(search, &search->view.teams[t], &here) &&
            (first->team == NULL || here.time_ns < first->time_ns))
            *first = here;
    return first->team != NULL;
}

static void blame_odd(diagnosis_search *search, const step_parting *where)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    for (int i = 0; i < where->team->team->n_ranks; i++)
        if (is_odd(where, i))
            search->mark[where->team->members[i].rank] = true;
    diagnosis->n_ranks = diagnosis_take_marked(search, diagnosis->ranks);
    for (int i = 0; i < where->team->team->n_ranks; i++) {
        const tess_record *record = tess_member_at(&where->team->members[i], where->sequence);
        if (record == NULL || is_odd(where, i))
            continue;
        search->mark[where->team->members[i].rank] = true;
        diagnosis->record = *record;
    }
    diagnosis->n_waiting = diagnosis_take_marked(search, diagnosis->waiting);
    diagnosis->odd = *tess_member_at(tess_view_member(where->team, diagnosis->ranks[0]), where->sequence);
    diagnosis->team = where->team->team->hash;
}

void diagnosis_refine_by_steps(diagnosis_search *search)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    tess_diagnosis_kind kind = diagnosis->kind;
    bool is_mismatch = kind >= TESS_DIAGNOSIS_MISMATCH_OP && kind <= TESS_DIAGNOSIS_DEADLOCK;
    step_parting first;
    if ((!is_mismatch && kind != TESS_DIAGNOSIS_LEFT) || !find_first(search, &first))
        return;
    bool any = false;
    for (int i = 0; i < first.team->team->n_ranks; i++)
        any |= is_odd(&first, i);
    if (!any)
        return;
    blame_odd(search, &first);
    diagnosis->tie = false;
    diagnosis->n_operations = 0;
    diagnosis->kind = diagnosis->odd.step > diagnosis->record.step ? TESS_DIAGNOSIS_SKIPPED : TESS_DIAGNOSIS_EXTRA;
}

static bool may_be_uneven(const tess_diagnosis *diagnosis)
{
    bool slipped = diagnosis->kind == TESS_DIAGNOSIS_SKIPPED || diagnosis->kind == TESS_DIAGNOSIS_EXTRA;
    /* if a whole step slipped, the headline already names the steps */
    bool reported = slipped && diagnosis->n_operations == 0;
    return (slipped || diagnosis->kind == TESS_DIAGNOSIS_DEADLOCK) && !reported && diagnosis->n_ranks > 0 &&
           diagnosis->n_waiting > 0;
}

/* Returns the newest step of the rank; -1: not known. */
static int64_t newest_step(const diagnosis_search *search, int rank)
{
    const tess_rank_history *r = &search->history->ranks[rank];
    return r->n_spans > 0 ? r->spans[r->n_spans - 1].step : -1;
}

void diagnosis_compare_steps(diagnosis_search *search)
{
    const tess_diagnosis *diagnosis = search->diagnosis;
    if (!may_be_uneven(diagnosis))
        return;
    int64_t own = newest_step(search, diagnosis->ranks[0]), theirs = newest_step(search, diagnosis->waiting[0]);
    for (int i = 1; i < diagnosis->n_waiting; i++)
        if (newest_step(search, diagnosis->waiting[i]) != theirs)
            return;
    if (own < 0 || theirs < 0 || own == theirs)
        return;
    tess_sentence words = tess_sentence_begin(search->uneven, sizeof(search->uneven));
    tess_sentence_add(&words, "rank %d was at step %lld, ", diagnosis->ranks[0], (long long)own);
    tess_sentence_ranks(&words, diagnosis->waiting, diagnosis->n_waiting);
    tess_sentence_add(&words, " at step %lld, as where batches are uneven", (long long)theirs);
}
