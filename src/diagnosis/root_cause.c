#include "diagnosis/root_cause.h"

#include <string.h>

#include "diagnosis/diagnosis_impl.h"

const char *tess_diagnosis_name(tess_diagnosis_kind kind)
{
    static const char *const names[] = {
#define X(name, text) [name] = text,
        TESS_DIAGNOSIS_LIST(X)
#undef X
    };
    return kind < TESS_DIAGNOSIS_COUNT ? names[kind] : "unknown";
}

static tess_status prepare(diagnosis_search *search)
{
    tess_mem *mem = search->history->mem;
    size_t n = (size_t)search->history->world;
    TESS_TRY(TESS_NEW_IN(&search->own, n, "diagnosis", &search->mark));
    TESS_TRY(TESS_NEW_IN(&search->own, n, "diagnosis", &search->right));
    TESS_TRY(TESS_NEW_IN(&search->own, n, "diagnosis", &search->cursor));
    TESS_TRY(TESS_NEW_IN(&search->own, n, "diagnosis", &search->queue));
    TESS_TRY(TESS_NEW_IN(&search->own, n, "diagnosis", &search->ends));
    TESS_TRY(TESS_NEW(mem, n, "diagnosis", &search->diagnosis->ranks));
    TESS_TRY(TESS_NEW(mem, n, "diagnosis", &search->diagnosis->waiting));
    for (int r = 0; r < search->history->world; r++)
        search->ends[r] = diagnosis_end_of(search->history, r);
    return tess_view_create(search->history, &search->view);
}

/* Whether all ranks left the job, or were asked to end and ended between two operations. */
static bool all_left(const tess_history *history)
{
    for (int r = 0; r < history->world; r++) {
        const tess_rank_history *rank = &history->ranks[r];
        bool is_open = rank->n_records > 0 && rank->records[rank->n_records - 1].state != TESS_TRACE_COMPLETED;
        bool ended_as_asked = rank->ended && rank->asked && rank->signal == 0 && !is_open;
        if (diagnosis_situation(rank) != TESS_RANK_LEFT && !ended_as_asked)
            return false;
    }
    return true;
}

/* Finds that all ranks that have not ended are stopped, so that none waits for another. */
static bool find_all_stopped(diagnosis_search *search)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    int n = 0;
    for (int r = 0; r < search->history->world; r++) {
        tess_situation situation = diagnosis_situation(&search->history->ranks[r]);
        if (situation == TESS_RANK_STOPPED)
            diagnosis->ranks[n++] = r;
        else if (situation != TESS_RANK_LEFT)
            return false;
    }
    diagnosis->kind = TESS_DIAGNOSIS_STOPPED;
    diagnosis->n_ranks = n;
    return true;
}

/* Whether all ranks were asked to end and have ended, some of them during an operation. */
static bool all_were_ended(const tess_history *history)
{
    for (int r = 0; r < history->world; r++)
        if (!history->ranks[r].ended || !history->ranks[r].asked)
            return false;
    return true;
}

/* Whether any rank had trouble; asked if no culprit was found. */
static bool any_in_trouble(const diagnosis_search *search)
{
    bool live = search->history->source == TESS_HISTORY_LIVE;
    for (int r = 0; r < search->history->world; r++) {
        const tess_rank_history *rank = &search->history->ranks[r];
        bool failed = rank->n_records > 0 && rank->records[rank->n_records - 1].state == TESS_TRACE_FAILED;
        if (diagnosis_is_stuck(search, r) ||
            (!live && (!rank->present || failed || diagnosis_waits_for_somebody(search, r))))
            return true;
    }
    return false;
}

/* Tries the strongest evidence first: errors of the ranks themselves, contradicting requests, deaths, then waits. */
static void find_root_cause(diagnosis_search *search)
{
    if (all_left(search->history))
        search->diagnosis->kind = TESS_DIAGNOSIS_FINISHED;
    else if (diagnosis_find_numbers(search) || diagnosis_find_disagreement(search) || diagnosis_find_message(search) ||
             diagnosis_find_ending(search, true) || find_all_stopped(search) || diagnosis_find_waiting(search) ||
             diagnosis_find_ending(search, false) || diagnosis_find_suspect(search) || diagnosis_find_vanished(search))
        return;
    else if (all_were_ended(search->history))
        search->diagnosis->kind = TESS_DIAGNOSIS_FINISHED;
    /* a job that has ended without order is not healthy */
    else if (search->history->source == TESS_HISTORY_RINGS || any_in_trouble(search))
        search->diagnosis->kind = TESS_DIAGNOSIS_UNDECIDED;
    else
        search->diagnosis->kind = TESS_DIAGNOSIS_HEALTHY;
}

tess_status tess_diagnosis_find(const tess_history *history, double patience_s, tess_diagnosis *diagnosis)
{
    diagnosis_search search = {.own.mem = history->mem,
                               .history = history,
                               .patience_s = patience_s,
                               .suspect = -1,
                               .witness = -1,
                               .diagnosis = diagnosis};
    memset(diagnosis, 0, sizeof(*diagnosis));
    tess_status status = prepare(&search);
    if (status == TESS_OK) {
        find_root_cause(&search);
        diagnosis_refine_by_steps(&search);
        diagnosis_compare_steps(&search);
        diagnosis_report(&search);
        tess_mem_drop(&search.view.teams);
    } else {
        tess_diagnosis_free(history, diagnosis);
    }
    tess_scope_end(&search.own);
    return status;
}

void tess_diagnosis_free(const tess_history *history, tess_diagnosis *diagnosis)
{
    tess_mem_free(history->mem, diagnosis->ranks);
    tess_mem_free(history->mem, diagnosis->waiting);
    diagnosis->ranks = diagnosis->waiting = NULL;
}
