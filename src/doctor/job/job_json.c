/* Formats the report as JSON: {"version": 1, "verdict": {...}, "notices": [...], "ranks": [...], "waits_s": [...],
 * ...}. */
#include <string.h>

#include "base/text/json.h"
#include "doctor/job/job_impl.h"
#include "doctor/table/clean.h"
#include "doctor/table/place_table.h"
#include "diagnosis/request.h"

/* Returns null if no operation is involved. */
static json_t *json_of_record(const tess_history *history, const tess_record *record)
{
    char text[256];
    const tess_team_history *team = tess_history_team(history, record->team);
    if (record->op == TESS_TRACE_NONE)
        return json_null();
    char site[TESS_REQUEST_SITE_BYTES];
    return json_pack(
        "{s:s, s:s, s:o, s:I, s:I, s:s, s:i, s:o, s:o, s:I, s:o, s:o}", "operation", tess_trace_op_name(record->op),
        "state", tess_trace_state_name(record->state), "team", tess_clean_json(team != NULL ? team->name : ""),
        "sequence", (json_int_t)record->sequence, "count", (json_int_t)record->count, "dtype",
        record->dtype < TESS_DTYPE_COUNT ? tess_dtype_name((tess_dtype)record->dtype) : "", "root", (int)record->root,
        "label", tess_clean_json(record->what), "phase", tess_clean_json(record->phase), "step",
        (json_int_t)record->step, "call_site", tess_clean_json(tess_request_site(record, site, sizeof(site))), "text",
        tess_clean_json(tess_request_format(history, record, text, sizeof(text))));
}

static json_t *json_of_diagnosis(const tess_report *report)
{
    const tess_diagnosis *diagnosis = &report->diagnosis;
    json_t *lines = json_array();
    for (int i = 0; i < diagnosis->n_lines; i++)
        json_array_append_new(lines, tess_clean_json(diagnosis->lines[i]));
    return json_pack(
        "{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "class", tess_diagnosis_name(diagnosis->kind), "tie",
        (int)diagnosis->tie, "guilty", tess_json_ints(diagnosis->ranks, diagnosis->n_ranks), "waiting",
        tess_json_ints(diagnosis->waiting, diagnosis->n_waiting), "headline", tess_clean_json(diagnosis->headline),
        "evidence", lines, "fix", tess_clean_json(diagnosis->fix), "waited_s", tess_json_number(diagnosis->waited_s),
        "operation", json_of_record(report->history, &diagnosis->record), "odd_operation",
        json_of_record(report->history, &diagnosis->odd));
}

static json_t *json_of_rank(const tess_report *report, int rank)
{
    const tess_rank_history *r = &report->history->ranks[rank];
    const tess_record none = {0};
    char state[32];
    const tess_phase_span *span = r->n_spans > 0 ? &r->spans[r->n_spans - 1] : NULL;
    json_t *object = json_pack(
        "{s:i, s:I, s:o, s:b, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "rank", rank, "pid", (json_int_t)r->pid, "host",
        tess_clean_json(r->host), "present", (int)r->present, "state",
        tess_clean_json(tess_report_state(report, rank, state, sizeof(state))), "why", tess_clean_json(r->why), "error",
        tess_clean_json(r->error), "phase", tess_clean_json(span != NULL ? span->phase : ""), "step",
        (json_int_t)(span != NULL ? span->step : -1), "waited_s", tess_json_number(tess_report_waited_s(report, rank)),
        "last", json_of_record(report->history, r->n_records > 0 ? &r->records[r->n_records - 1] : &none));
    tess_place_put(object, &report->history->places, rank);
    return object;
}

/* Returns the matrix of waits in seconds, one array per row. */
static json_t *json_of_waits(const tess_waits *waits)
{
    json_t *rows = json_array();
    for (int r = 0; waits->ns != NULL && r < waits->world; r++) {
        json_t *row = json_array();
        for (int c = 0; c < waits->world; c++)
            json_array_append_new(row,
                                  json_real((double)waits->ns[(size_t)r * (size_t)waits->world + (size_t)c] * 1e-9));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *json_of_stragglers(const tess_report *report)
{
    json_t *list = json_array();
    for (int i = 0; i < report->n_stragglers; i++) {
        const tess_report_straggler *straggler = &report->stragglers[i];
        json_array_append_new(list, json_pack("{s:i, s:o, s:o, s:o}", "rank", straggler->who.rank, "phase",
                                              tess_clean_json(straggler->phase), "ratio",
                                              tess_json_number(straggler->who.ratio), "excess_s",
                                              tess_json_number(straggler->who.excess_s)));
    }
    return list;
}

static json_t *json_of_notices(const tess_history *history)
{
    json_t *list = json_array();
    for (int i = 0; i < history->n_notices; i++) {
        const tess_notice *notice = &history->notices[i];
        json_array_append_new(list, json_pack("{s:I, s:s, s:i, s:I, s:o}", "wall_ns", (json_int_t)notice->wall_ns,
                                              "kind", tess_notice_name(notice->kind), "rank", (int)notice->rank, "step",
                                              (json_int_t)notice->step, "text", tess_clean_json(notice->text)));
    }
    return list;
}

static json_t *json_of_lines(const char *text)
{
    json_t *lines = json_array();
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        char clean[512 + 8];
        json_array_append_new(lines, json_string(tess_clean(line, n, clean, sizeof(clean))));
        line += n;
    }
    return lines;
}

json_t *job_report_describe(const tess_report *report)
{
    const tess_history *history = report->history;
    json_t *ranks = json_array();
    for (int r = 0; r < history->world; r++)
        json_array_append_new(ranks, json_of_rank(report, r));
    return json_pack("{s:i, s:s, s:o, s:i, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "version",
                     TESS_REPORT_VERSION, "source", tess_history_source_name(history->source), "folder",
                     tess_clean_json(history->folder), "world", history->world, "verdict", json_of_diagnosis(report),
                     "launcher_said", tess_clean_json(history->reported), "earlier_life",
                     tess_clean_json(history->before), "damage", json_of_lines(history->damage), "n_told",
                     (json_int_t)history->n_reported, "notices", json_of_notices(history), "ranks", ranks, "waits_s",
                     json_of_waits(&report->waits), "stragglers", json_of_stragglers(report));
}
