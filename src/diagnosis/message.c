/* Finds sends and receives that do not match, and which of the two ranks is odd. */
#include <stdio.h>

#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

enum { MOST_OPEN = 32 }; /* newest records of a rank that are searched for open messages */

static size_t count_in_step(const diagnosis_search *search, const diagnosis_stream *s, int64_t step)
{
    const tess_rank_history *rank = &search->history->ranks[s->rank];
    size_t n = 0;
    for (size_t i = 0; i < rank->n_records; i++)
        n += diagnosis_stream_has(s, &rank->records[i]) && rank->records[i].step == step;
    return n;
}

/* Returns which of the two ranks sends or receives less or more in this step than in the previous one; -1: neither
 * or both. */
static int odd_of_two(const diagnosis_search *search, int rank, const tess_record *record)
{
    diagnosis_stream mine = diagnosis_stream_of(rank, record), theirs = diagnosis_other_side(search, &mine);
    size_t usual = count_in_step(search, &mine, record->step - 1);
    if (record->step < 1 || count_in_step(search, &theirs, record->step - 1) != usual)
        return -1;
    bool more = count_in_step(search, &mine, record->step) > usual;
    bool less = count_in_step(search, &theirs, record->step) < usual;
    return more == less ? -1 : more ? mine.rank : theirs.rank;
}

static void fill_in(diagnosis_search *search, int culprit, int a, int b, const tess_record *of_a,
                    const tess_record *of_b)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    bool second = culprit == b;
    diagnosis->kind = TESS_DIAGNOSIS_MESSAGE;
    diagnosis->tie = culprit < 0;
    diagnosis->ranks[0] = second ? b : a;
    diagnosis->waiting[0] = second ? a : b;
    diagnosis->n_ranks = diagnosis->n_waiting = 1;
    diagnosis->team = of_a->team;
    diagnosis->record = second || of_b == NULL ? *of_a : *of_b;
    diagnosis->odd = second ? (of_b != NULL ? *of_b : (tess_record){0}) : *of_a;
}

static void report_side(diagnosis_search *search, int rank, const tess_record *record)
{
    char who[32];
    snprintf(who, sizeof(who), "rank %d called", rank);
    diagnosis_add_call(search, who, record);
}

void diagnosis_blame_message(diagnosis_search *search, int rank, const tess_record *record)
{
    int peer = diagnosis_message_peer(search, record), culprit = odd_of_two(search, rank, record);
    if (culprit < 0 && peer < rank) { /* the lower rank comes first in a tie */
        fill_in(search, peer, rank, peer, record, NULL);
        search->diagnosis->tie = true;
    } else {
        fill_in(search, culprit, rank, peer, record, NULL);
    }
    search->diagnosis->waited_s = diagnosis_waited_s(search, rank, record);
    report_side(search, rank, record);
    diagnosis_add_line(search->diagnosis, "rank %d has no %s for it", peer,
                       record->op == TESS_TRACE_SEND ? "receive" : "send");
    if (culprit >= 0)
        diagnosis_add_line(search->diagnosis, "in the step before both did as many: what is odd is rank %d", culprit);
}

/* ---- Messages that do not match ---- */
static bool fits(const tess_record *a, const tess_record *b)
{
    return a->count == b->count &&
           (a->dtype == b->dtype || a->dtype >= TESS_DTYPE_COUNT || b->dtype >= TESS_DTYPE_COUNT);
}

/* Returns how often the rank made the same request to this peer before. */
static size_t times_before(const diagnosis_search *search, int rank, const tess_record *record)
{
    const tess_rank_history *r = &search->history->ranks[rank];
    size_t n = 0;
    for (const tess_record *at = r->records; at < record; at++)
        n += at->op == record->op && at->team == record->team && at->root == record->root && at->tag == record->tag &&
             fits(at, record);
    return n;
}

/* Blames the rank whose request is new. */
static void blame_pair(diagnosis_search *search, int a, const tess_record *of_a, int b, const tess_record *of_b)
{
    if (b < a) {
        blame_pair(search, b, of_b, a, of_a);
        return;
    }
    bool is_usual_a = times_before(search, a, of_a) > 0, is_usual_b = times_before(search, b, of_b) > 0;
    int culprit = is_usual_a == is_usual_b ? -1 : is_usual_a ? b : a;
    fill_in(search, culprit, a, b, of_a, of_b);
    search->diagnosis->waited_s = diagnosis_waited_s(search, a, of_a);
    report_side(search, a, of_a);
    report_side(search, b, of_b);
    if (culprit >= 0)
        diagnosis_add_line(search->diagnosis, "rank %d asks for what it asked for before, rank %d does not",
                           culprit == a ? b : a, culprit);
}

/* Returns an open message between the two ranks in the same direction with another tag, which also has no
 * counterpart. */
static const tess_record *other_tag(const diagnosis_search *search, int rank, const tess_record *record, int peer)
{
    const tess_rank_history *theirs = &search->history->ranks[peer];
    diagnosis_stream mine = diagnosis_stream_of(rank, record), other = diagnosis_other_side(search, &mine);
    for (size_t i = theirs->n_records; i-- > 0 && theirs->n_records - i <= MOST_OPEN;) {
        const tess_record *at = &theirs->records[i];
        other.tag = at->tag;
        if (at->tag != record->tag && diagnosis_stream_has(&other, at) && at->state != TESS_TRACE_COMPLETED &&
            diagnosis_counterpart(search, peer, at) == NULL)
            return at;
    }
    return NULL;
}

static bool check(diagnosis_search *search, int rank, const tess_record *record)
{
    int peer = diagnosis_message_peer(search, record);
    if (peer < 0 || peer == rank)
        return false;
    const tess_record *other = diagnosis_counterpart(search, rank, record);
    if (other != NULL ? fits(record, other) : (other = other_tag(search, rank, record, peer)) == NULL)
        return false;
    blame_pair(search, rank, record, peer, other);
    return true;
}

bool diagnosis_find_message(diagnosis_search *search)
{
    for (int r = 0; r < search->history->world; r++) {
        const tess_rank_history *rank = &search->history->ranks[r];
        for (size_t i = rank->n_records; i-- > 0 && rank->n_records - i <= MOST_OPEN;) {
            const tess_record *record = &rank->records[i];
            if (tess_request_is_message(record) && record->state != TESS_TRACE_COMPLETED && check(search, r, record))
                return true;
        }
    }
    return false;
}
