/* Who has not come to an operation, and who waits for them there. */
#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

double diagnosis_waited_s(const diagnosis_search *search, int rank, const tess_record *record)
{
    bool is_over = record->completed_ns != 0;
    uint64_t begin = tess_rank_time(search->history, rank, record->enqueued_ns);
    uint64_t end = is_over ? tess_rank_time(search->history, rank, record->completed_ns) : search->history->now_ns;
    return record->enqueued_ns != 0 && end > begin ? (double)(end - begin) * 1e-9 : 0;
}

/* Something after it in the team is complete, so it was too, whatever the ring says (an event may be torn). */
static bool was_overtaken(const diagnosis_search *search, int rank, const tess_record *record)
{
    const tess_team_view *team = tess_view_team(&search->view, record->team);
    const tess_member_view *member = team != NULL ? tess_view_member(team, rank) : NULL;
    for (size_t i = member != NULL ? member->n_records : 0; i-- > 0 && member->records[i]->sequence > record->sequence;)
        if (member->records[i]->state == TESS_TRACE_COMPLETED)
            return true;
    return false;
}

static bool is_open(const diagnosis_search *search, int rank, const tess_record *record)
{
    if (record->state == TESS_TRACE_COMPLETED)
        return false;
    if (tess_request_is_message(record))
        return true;
    const tess_team_view *team = tess_view_team(&search->view, record->team);
    const tess_member_view *member = team != NULL ? tess_view_member(team, rank) : NULL;
    return member != NULL && tess_member_at(member, record->sequence) == record && !was_overtaken(search, rank, record);
}

/* What the system says of the rank explains why it does not come; what it waits for is then no matter. */
bool diagnosis_is_explained(const tess_rank_history *rank)
{
    switch (diagnosis_situation(rank)) {
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

/* It has not come, or it has and is no longer able to do its part. */
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

/* Calls visit for every rank that has not come to `record` of `rank`, until it says stop. */
bool diagnosis_visit_missing(const diagnosis_search *search, int rank, const tess_record *record,
                             diagnosis_visitor *visit, void *context)
{
    if (tess_request_is_message(record)) {
        int peer = diagnosis_message_peer(search, record);
        return peer >= 0 && peer != rank && !diagnosis_message_is_met(search, rank, record) &&
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
