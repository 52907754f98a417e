/* The report as JSON: {"version": 1, "verdict": {...}, "notices": [...], "ranks": [...], "waits_s": [...], ...}. */
#include <string.h>

#include "base/text/json.h"
#include "doctor/job/job_report.h"
#include "doctor/table/clean.h"
#include "diagnosis/request.h"

static void put_text(json_t *object, const char *key, const char *text)
{
    char clean[2048 + 8];
    json_object_set_new(object, key, json_string(tess_clean(text, strlen(text), clean, sizeof(clean))));
}

/* null where no operation is involved. */
static json_t *json_of_record(const tess_history *history, const tess_record *record)
{
    char text[256];
    const tess_team_history *team = tess_history_team(history, record->team);
    if (record->op == TESS_TRACE_NONE)
        return json_null();
    json_t *object = json_object();
    put_text(object, "operation", tess_trace_op_name(record->op));
    put_text(object, "state", tess_trace_state_name(record->state));
    put_text(object, "team", team != NULL ? team->name : "");
    tess_json_put_int(object, "sequence", (int64_t)record->sequence);
    tess_json_put_int(object, "count", (int64_t)record->count);
    put_text(object, "dtype", record->dtype < TESS_DTYPE_COUNT ? tess_dtype_name((tess_dtype)record->dtype) : "");
    tess_json_put_int(object, "root", record->root);
    put_text(object, "label", record->what);
    put_text(object, "phase", record->phase);
    tess_json_put_int(object, "step", record->step);
    put_text(object, "call_site", tess_request_site(record, text, sizeof(text)));
    put_text(object, "text", tess_request_format(history, record, text, sizeof(text)));
    return object;
}

static json_t *json_of_diagnosis(const tess_report *report)
{
    const tess_diagnosis *diagnosis = &report->diagnosis;
    json_t *object = json_object(), *lines = json_array();
    put_text(object, "class", tess_diagnosis_name(diagnosis->kind));
    json_object_set_new(object, "tie", json_boolean(diagnosis->tie));
    json_object_set_new(object, "guilty", tess_json_ints(diagnosis->ranks, diagnosis->n_ranks));
    json_object_set_new(object, "waiting", tess_json_ints(diagnosis->waiting, diagnosis->n_waiting));
    put_text(object, "headline", diagnosis->headline);
    for (int i = 0; i < diagnosis->n_lines; i++) {
        char clean[sizeof(diagnosis->lines[0]) + 8];
        const char *line = diagnosis->lines[i];
        json_array_append_new(lines, json_string(tess_clean(line, strlen(line), clean, sizeof(clean))));
    }
    json_object_set_new(object, "evidence", lines);
    put_text(object, "fix", diagnosis->fix);
    json_object_set_new(object, "waited_s", json_real(diagnosis->waited_s));
    json_object_set_new(object, "operation", json_of_record(report->history, &diagnosis->record));
    json_object_set_new(object, "odd_operation", json_of_record(report->history, &diagnosis->odd));
    return object;
}

static json_t *json_of_rank(const tess_report *report, int rank)
{
    const tess_rank_history *r = &report->history->ranks[rank];
    const tess_record none = {0};
    char state[32];
    json_t *object = json_object();
    tess_json_put_int(object, "rank", rank);
    tess_json_put_int(object, "pid", r->pid);
    put_text(object, "host", r->host);
    json_object_set_new(object, "present", json_boolean(r->present));
    put_text(object, "state", tess_report_state(report, rank, state, sizeof(state)));
    put_text(object, "why", r->why);
    put_text(object, "error", r->error);
    put_text(object, "phase", r->n_spans > 0 ? r->spans[r->n_spans - 1].phase : "");
    tess_json_put_int(object, "step", r->n_spans > 0 ? r->spans[r->n_spans - 1].step : -1);
    json_object_set_new(object, "waited_s", json_real(tess_report_waited_s(report, rank)));
    json_object_set_new(object, "last",
                        json_of_record(report->history, r->n_records > 0 ? &r->records[r->n_records - 1] : &none));
    return object;
}

/* Seconds, as rows. */
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
        json_t *object = json_object();
        tess_json_put_int(object, "rank", straggler->who.rank);
        put_text(object, "phase", straggler->phase);
        json_object_set_new(object, "ratio", json_real(straggler->who.ratio));
        json_object_set_new(object, "excess_s", json_real(straggler->who.excess_s));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *json_of_notices(const tess_history *history)
{
    json_t *list = json_array();
    for (int i = 0; i < history->n_notices; i++) {
        const tess_notice *notice = &history->notices[i];
        json_t *object = json_object();
        tess_json_put_int(object, "wall_ns", (int64_t)notice->wall_ns);
        put_text(object, "kind", tess_notice_name(notice->kind));
        tess_json_put_int(object, "rank", notice->rank);
        tess_json_put_int(object, "step", notice->step);
        put_text(object, "text", notice->text);
        json_array_append_new(list, object);
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

tess_status tess_report_json(const tess_report *report, tess_buffer *out)
{
    static const char *const sources[] = {
        [TESS_HISTORY_RINGS] = "rings", [TESS_HISTORY_LIVE] = "live", [TESS_HISTORY_PYTORCH] = "pytorch"};
    json_t *document = json_object(), *ranks = json_array();
    tess_json_put_int(document, "version", TESS_REPORT_VERSION);
    put_text(document, "source", sources[report->history->source]);
    put_text(document, "folder", report->history->folder);
    tess_json_put_int(document, "world", report->history->world);
    json_object_set_new(document, "verdict", json_of_diagnosis(report));
    put_text(document, "launcher_said", report->history->reported);
    put_text(document, "earlier_life", report->history->before);
    json_object_set_new(document, "damage", json_of_lines(report->history->damage));
    tess_json_put_int(document, "n_told", (int64_t)report->history->n_reported);
    json_object_set_new(document, "notices", json_of_notices(report->history));
    for (int r = 0; r < report->history->world; r++)
        json_array_append_new(ranks, json_of_rank(report, r));
    json_object_set_new(document, "ranks", ranks);
    json_object_set_new(document, "waits_s", json_of_waits(&report->waits));
    json_object_set_new(document, "stragglers", json_of_stragglers(report));
    return tess_json_print(document, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9), out);
}
