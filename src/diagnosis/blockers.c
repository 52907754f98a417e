/* Finds the ranks that are missing from an operation, and whether ranks wait for them there. */
#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

double diagnosis_waited_s(const diagnosis_search *search, int rank, const tess_record *record)
{
    bool is_over = record->completed_ns != 0;
    uint64_t begin = tess_rank_time(search->history, rank, record->enqueued_ns);
    uint64_t end = is_over ? tess_rank_time(search->history, rank, record->completed_ns) : search->history->now_ns;
    return record->enqueued_ns != 0 && end > begin ? (double)(end - begin) * 1e-9 : 0;
}

static bool is_open(const diagnosis_search *search, int rank, const tess_record *record)
{
    if (record->state == TESS_TRACE_COMPLETED)
        return false;
    if (tess_request_is_message(record))
        return true;
    const tess_team_view *team = tess_view_team(&search->view, record->team);
    const tess_member_view *member = team != NULL ? tess_view_member(team, rank) : NULL;
    if (member == NULL || tess_member_at(member, record->sequence) != record)
        return false;
    /* If a later operation of the team has completed, this one has, too; its event may have been torn. */
    for (size_t i = member->n_records; i-- > 0 && member->records[i]->sequence > record->sequence;)
        if (member->records[i]->state == TESS_TRACE_COMPLETED)
            return false;
    return true;
}

bool diagnosis_is_explained(const tess_rank_history *rank)
{
    switch (diagnosis_situation(rank)) {
    case TESS_RANK_WELL:
    case TESS_RANK_UNKNOWN:
    case TESS_RANK_IN_OTHER_COLLECTIVE:
        return !rank->present;
    case TESS_RANK_EXITED: /* a rank that exited with an error may itself have waited */
        return rank->error[0] == '\0';
    default:
        return true;
    }
}

/* Whether others wait for the member: it has not come, or it came and can no longer do its part. */
static bool is_waited_for(const diagnosis_search *search, const tess_member_view *member, uint64_t sequence)
{
    const tess_record *record = tess_member_at(member, sequence), *newest = tess_member_newest(member);
    const tess_rank_history *rank = &search->history->ranks[member->rank];
    if (record == NULL && rank->lost_newest)
        return diagnosis_is_explained(rank) && (newest == NULL || newest->sequence < sequence);
    if (record == NULL)
        return tess_member_is_behind(&search->view, member, sequence);
    return record->state < TESS_TRACE_COMPLETED && diagnosis_is_explained(rank);
}

bool diagnosis_visit_missing(const diagnosis_search *search, int rank, const tess_record *record,
                             diagnosis_visitor *visit, void *context)
{
    if (tess_request_is_message(record)) {
        int peer = diagnosis_message_peer(search, record);
        return peer >= 0 && peer != rank && diagnosis_counterpart(search, rank, record) == NULL &&
               visit(context, peer, record);
    }
    const tess_team_view *team = tess_view_team(&search->view, record->team);
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_member_view *member = &team->members[i];
        if (member->rank >= 0 && member->rank != rank && is_waited_for(search, member, record->sequence) &&
            visit(context, member->rank, record))
            return true;
    }
    return false;
}

bool diagnosis_visit_blockers(const diagnosis_search *search, int rank, diagnosis_visitor *visit, void *context)
{
    const tess_rank_history *r = &search->history->ranks[rank];
    for (size_t i = r->n_records; i-- > 0 && r->n_records - i <= DIAGNOSIS_MOST_OPEN;)
        if (is_open(search, rank, &r->records[i]) &&
            diagnosis_visit_missing(search, rank, &r->records[i], visit, context))
            return true;
    return false;
}

static bool stop_at_first(void *context, int missing, const tess_record *record)
{
    (void)context, (void)missing, (void)record;
    return true;
}

bool diagnosis_waits_in(const diagnosis_search *search, int rank, const tess_record *record)
{
    return is_open(search, rank, record) && diagnosis_visit_missing(search, rank, record, stop_at_first, NULL);
}

bool diagnosis_waits_for_somebody(const diagnosis_search *search, int rank)
{
    return diagnosis_visit_blockers(search, rank, stop_at_first, NULL);
}

/* Whether a member has completed a later operation of the team. Every other member has then completed this one. */
static bool is_over_for_others(const tess_team_view *team, uint64_t sequence)
{
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_member_view *member = &team->members[i];
        for (size_t k = member->n_records; k-- > 0 && member->records[k]->sequence > sequence;)
            if (member->records[k]->state == TESS_TRACE_COMPLETED)
                return true;
    }
    return false;
}

bool diagnosis_waits_for_unknown(const diagnosis_search *search, int rank)
{
    const tess_rank_history *r = &search->history->ranks[rank];
    for (size_t i = r->n_records; i-- > 0 && r->n_records - i <= DIAGNOSIS_MOST_OPEN;) {
        if (tess_request_is_message(&r->records[i]) || !is_open(search, rank, &r->records[i]))
            continue;
        const tess_team_view *team = tess_view_team(&search->view, r->records[i].team);
        for (int k = 0; k < team->team->n_ranks; k++)
            if (team->members[k].rank < 0 && !is_over_for_others(team, r->records[i].sequence))
                return true;
    }
    return false;
}

const tess_record *diagnosis_newest_open(const diagnosis_search *search, int rank)
{
    const tess_rank_history *r = &search->history->ranks[rank];
    const tess_record *last = r->n_records > 0 ? &r->records[r->n_records - 1] : NULL;
    return last != NULL && last->state < TESS_TRACE_COMPLETED && is_open(search, rank, last) ? last : NULL;
}

bool diagnosis_is_stuck(const diagnosis_search *search, int rank)
{
    const tess_record *record = diagnosis_newest_open(search, rank);
    return record != NULL && diagnosis_waited_s(search, rank, record) >= search->patience_s;
}
