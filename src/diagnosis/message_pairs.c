/* Pairs sends with receives. Messages from one rank to another with one tag are received in order, so the i-th send
 * belongs to the i-th receive. If the oldest records are lost, messages are counted from the beginning of their
 * step. */
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

const tess_record *diagnosis_counterpart(const diagnosis_search *search, int rank, const tess_record *record)
{
    diagnosis_stream mine = diagnosis_stream_of(rank, record), theirs = diagnosis_other_side(search, &mine);
    const tess_rank_history *own = &search->history->ranks[mine.rank], *peer = &search->history->ranks[theirs.rank];
    bool in_step = own->lost_any || peer->lost_any;
    size_t number = 0;
    for (const tess_record *at = own->records; at < record; at++)
        number += diagnosis_stream_has(&mine, at) && (!in_step || at->step == record->step);
    for (size_t i = 0; i < peer->n_records; i++) {
        const tess_record *at = &peer->records[i];
        if (diagnosis_stream_has(&theirs, at) && (!in_step || at->step == record->step) && number-- == 0)
            return at;
    }
    return NULL;
}
