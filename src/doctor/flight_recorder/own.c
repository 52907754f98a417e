/* Writes and reads Tessera's own members of a dump. They hold what the format lacks, so that a dump gives back the
 * whole history. */
#include "doctor/flight_recorder/flight_recorder_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "doctor/table/clean.h"

enum { OWN_VERSION = 1 };

/* ---- Writing ---- */
json_t *fr_own_record_json(const tess_record *record, int64_t clock_offset_ns)
{
    uint64_t completed_ns = record->completed_ns != 0 ? record->completed_ns + (uint64_t)clock_offset_ns : 0;
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:o, s:o}", "op",
                     tess_trace_op_name(record->op), "root", record->root, "reduce_op", (int)record->reduce_op,
                     "in_dtype", (int)record->in_dtype, "count", (json_int_t)record->count, "tag",
                     (json_int_t)record->tag, "label", (json_int_t)record->label, "call_site",
                     (json_int_t)record->call_site, "step", (json_int_t)record->step, "detail",
                     (json_int_t)record->detail, "state", (int)record->state, "completed_ns", (json_int_t)completed_ns,
                     "phase", tess_json_text(record->phase), "what", tess_json_text(record->what));
}

static json_t *spans_json(const tess_rank_history *rank)
{
    json_t *spans = json_array();
    for (size_t i = 0; i < rank->n_spans; i++) {
        const tess_phase_span *span = &rank->spans[i];
        json_array_append_new(spans,
                              json_pack("[I, I, I, o]", (json_int_t)(span->begin_ns + (uint64_t)rank->clock_offset_ns),
                                        (json_int_t)span->step, (json_int_t)span->detail, tess_json_text(span->phase)));
    }
    return spans;
}

json_t *fr_own_rank_json(const tess_history *history, int number)
{
    const tess_rank_history *rank = &history->ranks[number];
    return json_pack("{s:i, s:i, s:I, s:b, s:b, s:b, s:b, s:b, s:i, s:i, s:i, s:i, s:I, s:s, s:o, s:o, s:o, s:o}",
                     "version", OWN_VERSION, "source", (int)history->source, "now_ns", (json_int_t)history->now_ns,
                     "present", rank->present, "lost_any", rank->lost_any, "lost_newest", rank->lost_newest, "ended",
                     rank->ended, "asked", rank->asked, "pid", rank->pid, "signal", rank->signal, "exit_code",
                     rank->exit_code, "first_error", rank->first_error, "ended_ns", (json_int_t)rank->ended_ns,
                     "situation", tess_situation_name(rank->situation), "host", tess_json_text(rank->host), "why",
                     tess_json_text(rank->why), "error", tess_json_text(rank->error), "spans", spans_json(rank));
}

/* ---- Reading ---- */
static tess_status need_int(dump_value own, const char *key, int64_t *number)
{
    TESS_CHECK(dump_int(dump_get(own, key), number), TESS_E_FORMAT, "'" FR_OWN_KEY "' has no number '%s'", key);
    return TESS_OK;
}

static tess_status need_between(dump_value own, const char *key, int64_t least, int64_t most, int64_t *number)
{
    TESS_TRY(need_int(own, key, number));
    TESS_CHECK(*number >= least && *number <= most, TESS_E_FORMAT, "'" FR_OWN_KEY "': '%s' is %lld", key,
               (long long)*number);
    return TESS_OK;
}

static void take_text(dump_value own, const char *key, char *text, size_t size)
{
    const char *value = dump_text(dump_get(own, key));
    tess_clean(value != NULL ? value : "", value != NULL ? strlen(value) : 0, text, size);
}

static tess_status read_numbers(dump_value own, tess_record *record)
{
    const struct {
        const char *key;
        uint64_t *to;
    } numbers[] = {{"count", &record->count},
                   {"tag", &record->tag},
                   {"label", &record->label},
                   {"call_site", &record->call_site},
                   {"completed_ns", &record->completed_ns}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        int64_t number;
        TESS_TRY(need_int(own, numbers[i].key, &number));
        *numbers[i].to = (uint64_t)number;
    }
    TESS_TRY(need_int(own, "step", &record->step));
    return need_int(own, "detail", &record->detail);
}

tess_status fr_own_read_record(dump_value entry, tess_record *record)
{
    dump_value own = dump_get(entry, FR_OWN_KEY);
    int64_t root, reduce_op, in_dtype, state;
    if (!dump_is_dict(own))
        return TESS_OK;
    TESS_TRY(need_between(own, "root", -1, TESS_HISTORY_MAX_RANKS, &root));
    TESS_TRY(need_between(own, "reduce_op", 0, 255, &reduce_op));
    TESS_TRY(need_between(own, "in_dtype", 0, 255, &in_dtype));
    TESS_TRY(need_between(own, "state", TESS_TRACE_ENQUEUED, TESS_TRACE_FAILED, &state));
    TESS_TRY(read_numbers(own, record));
    const char *name = dump_text(dump_get(own, "op"));
    record->op = TESS_TRACE_NONE;
    for (int op = 0; name != NULL && op < TESS_TRACE_OP_COUNT; op++)
        if (strcmp(tess_trace_op_name(op), name) == 0)
            record->op = (uint8_t)op;
    record->root = (int32_t)root;
    record->reduce_op = (uint8_t)reduce_op;
    record->in_dtype = (uint8_t)in_dtype;
    record->state = (uint8_t)state;
    take_text(own, "phase", record->phase, sizeof(record->phase));
    take_text(own, "what", record->what, sizeof(record->what));
    return TESS_OK;
}

static tess_status read_span(dump *dump, dump_value value, tess_phase_span *span)
{
    int64_t begin_ns;
    const char *phase = dump_text(dump_at(dump, value, 3));
    TESS_CHECK(dump_length(value) == 4 && phase != NULL && dump_int(dump_at(dump, value, 0), &begin_ns) &&
                   dump_int(dump_at(dump, value, 1), &span->step) && dump_int(dump_at(dump, value, 2), &span->detail),
               TESS_E_FORMAT, "'" FR_OWN_KEY "': a span is not [time, step, detail, phase]");
    span->begin_ns = (uint64_t)begin_ns;
    tess_clean(phase, strlen(phase), span->phase, sizeof(span->phase));
    return TESS_OK;
}

static tess_status read_spans(tess_mem *mem, dump *dump, dump_value spans, tess_rank_history *own)
{
    size_t n = dump_length(spans), room = 1;
    TESS_CHECK(n <= FR_MOST_ENTRIES, TESS_E_FORMAT, "'" FR_OWN_KEY "': %zu spans; up to %d are read", n,
               FR_MOST_ENTRIES);
    while (room < n) /* a power of two, because history.c requires it */
        room *= 2;
    TESS_TRY(TESS_NEW(mem, room, "flight recorder", &own->spans));
    for (; own->n_spans < n; own->n_spans++)
        TESS_TRY(read_span(dump, dump_at(dump, spans, own->n_spans), &own->spans[own->n_spans]));
    return TESS_OK;
}

static tess_status read_ending(dump_value own, tess_rank_history *to)
{
    const struct {
        const char *key;
        int *to;
    } numbers[] = {{"pid", &to->pid}, {"signal", &to->signal}, {"exit_code", &to->exit_code}};
    int64_t number;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        TESS_TRY(need_between(own, numbers[i].key, INT32_MIN, INT32_MAX, &number));
        *numbers[i].to = (int)number;
    }
    TESS_TRY(need_between(own, "first_error", 0, TESS_HISTORY_MAX_RANKS, &number));
    to->first_error = (int)number;
    TESS_TRY(need_between(own, "ended_ns", 0, INT64_MAX, &number));
    to->ended_ns = (uint64_t)number;
    to->ended = dump_true(dump_get(own, "ended"));
    to->asked = dump_true(dump_get(own, "asked"));
    return TESS_OK;
}

tess_status fr_own_read_rank(tess_mem *mem, dump *dump, fr_rank *rank)
{
    dump_value own = dump_get(dump->root, FR_OWN_KEY);
    tess_rank_history *to = &rank->own;
    int64_t version, source, now_ns;
    if (!dump_is_dict(own))
        return TESS_OK;
    TESS_TRY(need_between(own, "version", OWN_VERSION, OWN_VERSION, &version));
    TESS_TRY(need_between(own, "source", TESS_HISTORY_RINGS, TESS_HISTORY_PYTORCH, &source));
    TESS_TRY(need_between(own, "now_ns", 0, INT64_MAX, &now_ns));
    TESS_TRY(read_ending(own, to));
    to->present = dump_true(dump_get(own, "present"));
    to->lost_any = dump_true(dump_get(own, "lost_any"));
    to->lost_newest = dump_true(dump_get(own, "lost_newest"));
    const char *situation = dump_text(dump_get(own, "situation"));
    to->situation = tess_situation_find(situation != NULL ? situation : "", TESS_RANK_UNKNOWN);
    take_text(own, "host", to->host, sizeof(to->host));
    take_text(own, "why", to->why, sizeof(to->why));
    take_text(own, "error", to->error, sizeof(to->error));
    TESS_TRY(read_spans(mem, dump, dump_get(own, "spans"), to));
    rank->has_own = true;
    rank->own_source = (tess_history_source)source;
    rank->own_now_ns = (uint64_t)now_ns;
    return TESS_OK;
}

void fr_own_fill(tess_rank_history *to, fr_rank *from)
{
    tess_rank_history own = from->own;
    if (!from->has_own)
        return;
    own.lost_any |= to->lost_any;
    own.last_ns = to->last_ns;
    own.records = to->records;
    own.n_records = to->n_records;
    if (own.why[0] == '\0')
        memcpy(own.why, to->why, sizeof(own.why));
    for (size_t i = 0; i < own.n_spans; i++)
        own.last_ns = own.spans[i].begin_ns > own.last_ns ? own.spans[i].begin_ns : own.last_ns;
    *to = own;
    from->own.spans = NULL;
    from->own.n_spans = 0;
}
