/* Sends and receives. The messages from one rank to another with one tag are taken in order, so the i-th send belongs
 * to the i-th receive; where the oldest are no longer known they are counted inside a step. */
#include "diagnosis/diagnosis_impl.h"

int diagnosis_message_peer(const diagnosis_search *search, const tess_record *record)
{
    const tess_team_history *team = tess_history_team(search->history, record->team);
    if (team == NULL || record->root < 0 || record->root >= team->n_ranks)
        return -1;
    int peer = team->ranks[record->root];
    return peer >= 0 && peer < search->history->world ? peer : -1;
}

diagnosis_stream diagnosis_stream_of(int rank, const tess_record *record)
{
    return (diagnosis_stream){
        .team = record->team, .tag = record->tag, .rank = rank, .peer = record->root, .op = record->op};
}

/* The same messages as the other side sees them. */
diagnosis_stream diagnosis_other_side(const diagnosis_search *search, const diagnosis_stream *s)
{
    const tess_team_history *team = tess_history_team(search->history, s->team);
    return (diagnosis_stream){.team = s->team,
                              .tag = s->tag,
                              .rank = team->ranks[s->peer],
                              .peer = tess_team_place(team, s->rank),
                              .op = s->op == TESS_TRACE_SEND ? TESS_TRACE_RECV : TESS_TRACE_SEND};
}

bool diagnosis_stream_has(const diagnosis_stream *s, const tess_record *record)
{
    return record->op == s->op && record->team == s->team && record->root == s->peer && record->tag == s->tag;
}

/* Number of `record` among its kind: in all, or in its step. */
static size_t number_of(const diagnosis_search *search, const diagnosis_stream *s, const tess_record *record,
                        bool in_step)
{
    const tess_rank_history *rank = &search->history->ranks[s->rank];
    size_t n = 0;
    for (const tess_record *at = rank->records; at < record; at++)
        n += diagnosis_stream_has(s, at) && (!in_step || at->step == record->step);
    return n;
}

static const tess_record *number_at(const diagnosis_search *search, const diagnosis_stream *s, size_t number,
                                    int64_t step, bool in_step)
{
    const tess_rank_history *rank = &search->history->ranks[s->rank];
    for (size_t i = 0; i < rank->n_records; i++)
        if (diagnosis_stream_has(s, &rank->records[i]) && (!in_step || rank->records[i].step == step) && number-- == 0)
            return &rank->records[i];
    return NULL;
}

/* What the peer did for `record`; NULL: nothing yet. */
const tess_record *diagnosis_counterpart(const diagnosis_search *search, int rank, const tess_record *record)
{
    diagnosis_stream mine = diagnosis_stream_of(rank, record), theirs = diagnosis_other_side(search, &mine);
    const tess_rank_history *ranks = search->history->ranks;
    bool in_step = ranks[mine.rank].lost_any || ranks[theirs.rank].lost_any;
    size_t number = number_of(search, &mine, record, in_step);
    return number_at(search, &theirs, number, record->step, in_step);
}

bool diagnosis_message_is_met(const diagnosis_search *search, int rank, const tess_record *record)
{
    return diagnosis_message_peer(search, record) >= 0 && diagnosis_counterpart(search, rank, record) != NULL;
}
