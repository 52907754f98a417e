#include "diagnosis/request.h"

#include <stdio.h>
#include <string.h>

#include "trace/call_site.h"
#include "diagnosis/sentence.h"

enum { OP_NOT_KNOWN = 255 };

bool tess_request_is_message(const tess_record *record)
{
    return record->op == TESS_TRACE_SEND || record->op == TESS_TRACE_RECV;
}

static bool dtypes_fit(uint8_t a, uint8_t b)
{
    return a == b || a >= TESS_DTYPE_COUNT || b >= TESS_DTYPE_COUNT;
}

static bool has_pieces(const tess_record *record)
{
    return record->op == TESS_TRACE_ALL_GATHER_PIECES || record->op == TESS_TRACE_REDUCE_SCATTER_PIECES;
}

tess_diagnosis_kind tess_request_difference(const tess_record *a, const tess_record *b)
{
    if (a->op != b->op)
        return TESS_DIAGNOSIS_MISMATCH_OP;
    if (a->count != b->count && a->op != TESS_TRACE_ALL_TO_ALL_V)
        return TESS_DIAGNOSIS_MISMATCH_COUNT;
    if (!dtypes_fit(a->dtype, b->dtype) || !dtypes_fit(a->in_dtype, b->in_dtype))
        return TESS_DIAGNOSIS_MISMATCH_DTYPE;
    if (a->reduce_op != b->reduce_op && a->reduce_op != OP_NOT_KNOWN && b->reduce_op != OP_NOT_KNOWN)
        return TESS_DIAGNOSIS_MISMATCH_REDUCE_OP;
    if (a->root != b->root)
        return TESS_DIAGNOSIS_MISMATCH_ROOT;
    if (a->label != b->label)
        return TESS_DIAGNOSIS_MISMATCH_LABEL;
    if (a->tag == b->tag)
        return TESS_DIAGNOSIS_HEALTHY;
    if (a->op == TESS_TRACE_ALL_REDUCE && a->dtype < TESS_DTYPE_COUNT && b->dtype < TESS_DTYPE_COUNT)
        return TESS_DIAGNOSIS_MISMATCH_LABEL; /* a message's tag also shows its purpose */
    /* The tag is a hash of the pieces. In dumps of another framework, it is a hash of an operation or dtype that has
     * no number here. */
    if (has_pieces(a))
        return TESS_DIAGNOSIS_MISMATCH_COUNT;
    return a->op == TESS_TRACE_OTHER && strcmp(a->what, b->what) != 0 ? TESS_DIAGNOSIS_MISMATCH_OP
                                                                      : TESS_DIAGNOSIS_MISMATCH_DTYPE;
}

bool tess_request_same(const tess_record *a, const tess_record *b)
{
    return tess_request_difference(a, b) == TESS_DIAGNOSIS_HEALTHY;
}

/* Returns the rank of the job for record->root, or the index itself if the team is not known. */
static int rank_at(const tess_history *history, const tess_record *record)
{
    const tess_team_history *team = tess_history_team(history, record->team);
    int place = record->root;
    return team != NULL && place >= 0 && place < team->n_ranks ? team->ranks[place] : place;
}

const char *tess_request_format(const tess_history *history, const tess_record *record, char *text, size_t size)
{
    static const char *const ops[] = {"sum", "max", "min", "avg"};
    const tess_team_history *team = tess_history_team(history, record->team);
    tess_sentence words = tess_sentence_begin(text, size);
    bool own_name = record->op == TESS_TRACE_OTHER && record->what[0] != '\0';
    tess_sentence_add(&words, "%.32s #%llu", own_name ? record->what : tess_trace_op_name(record->op),
                      (unsigned long long)record->sequence);
    if (team != NULL)
        tess_sentence_add(&words, " of team '%.32s'", team->name);
    if (record->what[0] != '\0' && !own_name)
        tess_sentence_add(&words, " for %.32s", record->what);
    if (record->op >= TESS_TRACE_WINDOW_ALLOC && record->op <= TESS_TRACE_SHARED_FREE) {
        tess_sentence_add(&words, ": %llu bytes", (unsigned long long)record->count);
    } else if (record->op != TESS_TRACE_BARRIER && record->op != TESS_TRACE_TEAM_SPLIT) {
        bool known = record->dtype < TESS_DTYPE_COUNT;
        tess_sentence_add(&words, ": %llu %s", (unsigned long long)record->count,
                          known ? tess_dtype_name((tess_dtype)record->dtype) : "elements");
        if (has_pieces(record) && record->in_dtype != record->dtype && record->in_dtype < TESS_DTYPE_COUNT)
            tess_sentence_add(&words, " from %s", tess_dtype_name((tess_dtype)record->in_dtype));
    }
    bool reduces = record->op == TESS_TRACE_REDUCE_SCATTER || record->op == TESS_TRACE_ALL_REDUCE;
    if (reduces && record->reduce_op < 4)
        tess_sentence_add(&words, ", %s", ops[record->reduce_op]);
    if (tess_request_is_message(record)) {
        tess_sentence_add(&words, ", %s rank %d", record->op == TESS_TRACE_SEND ? "to" : "from",
                          rank_at(history, record));
        if (history->source != TESS_HISTORY_PYTORCH) /* PyTorch's dumps hold no tags */
            tess_sentence_add(&words, ", tag %llu", (unsigned long long)record->tag);
    } else if (record->root >= 0)
        tess_sentence_add(&words, ", root rank %d", rank_at(history, record));
    return text;
}

const char *tess_request_format_whole(const tess_history *history, const tess_record *record, char *text, size_t size)
{
    tess_sentence words = {.text = text, .size = size};
    words.at = strlen(tess_request_format(history, record, text, size));
    if (has_pieces(record))
        tess_sentence_add(&words, ", pieces %08llx", (unsigned long long)(record->tag & 0xffffffff));
    return text;
}

const char *tess_request_site(const tess_record *record, char *text, size_t size)
{
    if (record->site[0] != '\0')
        snprintf(text, size, "%.*s", TESS_HISTORY_TEXT, record->site);
    else if (record->call_site != 0)
        tess_call_site_format(record->call_site, "", text, size);
    else
        snprintf(text, size, "%s", "");
    return text;
}

bool tess_request_same_site(const tess_record *a, const tess_record *b)
{
    return a->call_site == b->call_site && strncmp(a->site, b->site, sizeof(a->site)) == 0;
}

const char *tess_request_phase(const tess_record *record, char *text, size_t size)
{
    tess_sentence words = tess_sentence_begin(text, size);
    if (record->phase[0] == '\0')
        return text;
    tess_sentence_add(&words, ", in %.*s", TESS_TRACE_PHASE_BYTES, record->phase);
    if (record->detail >= 0)
        tess_sentence_add(&words, " %lld", (long long)record->detail);
    if (record->step >= 0)
        tess_sentence_add(&words, " of step %lld", (long long)record->step);
    return text;
}
