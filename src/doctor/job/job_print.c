/* Prints the report on one screen. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/json.h"
#include "doctor/job/job_impl.h"
#include "diagnosis/request.h"

enum { MOST_ROWS = 32, MOST_COLUMNS = 16, MOST_NOTICES = 10 };

static const double least_shown_s = 0.005; /* shorter waits are not shown: they would print as 0.00 */

static const tess_form_part form[] = {
    {.text =
         "{verdict.class}[{verdict.tie:!} (tie)]: {verdict.headline}\n{*verdict.evidence}  {}\n{/}"
         "[  what to do: {verdict.fix}\n][  the launcher said: {launcher_said:.400}\n]"
         "[  an earlier life of this job: {earlier_life:.400}; tessera trace {folder}.previous\n]"
         "{*damage}  damaged: {}\n{/}"
         "\n rank      pid[{has_places:!}\t  place\t  |  ]state            phase             step    waited  last "
         "operation\n"
         "{*shown}{rank:5} {pid:8}[\t  {where}\t  |  ]{state:-16} {doing:-14} {step:7} {waited:9}  "
         "[{last.text}|none]\n{/}"
         "[      and {n_hidden} more (--json has all)\n]"
         "[{told:!}\ntold while it ran[ (and {n_before} before; --json has {has_all:?all|more of them})]:\n]"
         "{*told}  {when}[{has_step:!}  step {step}]  {text}\n{/}"
         "[{total_s:!}\nin {n_collectives} collectives that all came to, ranks waited {total_s:.2f} s, {share:%} of it "
         "for rank {most}\n]"
         "[{matrix:!}seconds that the rank of the row waited for the rank of the column:\n"
         "      {*matrix} {row:7}{/}\n{*matrix}{row:5} {*seconds} {:7.3f}{/}\n{/}]"
         "[{stragglers:!}\n]"},
    {.list = "stragglers",
     .text = "rank {rank} is slow in {phase}: {over:%} over the others, {excess_ms:.2f} ms a step\n"},
    {NULL, NULL}};

/* ---- Members for people alone ---- */
static json_t *describe_rank(const tess_report *report, int rank, json_t *described)
{
    const tess_rank_history *r = &report->history->ranks[rank];
    const tess_phase_span *span = r->n_spans > 0 ? &r->spans[r->n_spans - 1] : NULL;
    const double waited_s = tess_report_waited_s(report, rank);
    char place[TESS_PLACE_TEXT], detail[24] = "";
    if (span != NULL && span->detail >= 0)
        snprintf(detail, sizeof(detail), " %lld", (long long)span->detail);
    const char *phase = json_string_value(json_object_get(described, "phase"));
    json_t *row = json_copy(described);
    json_object_update_new(
        row, json_pack("{s:s, s:o, s:o, s:o}", "where",
                       tess_place_text(&report->history->places, rank, place, sizeof(place)), "doing",
                       span != NULL && phase != NULL ? json_sprintf("%s%s", phase, detail) : json_null(), "step",
                       span != NULL && span->step >= 0 ? json_integer(span->step) : json_null(), "waited",
                       waited_s >= least_shown_s ? json_sprintf("%.2f s", waited_s) : json_string("")));
    return row;
}

/* Adds the ranks, culprits first. */
static void add_ranks(const tess_report *report, json_t *document)
{
    const tess_diagnosis *diagnosis = &report->diagnosis;
    const json_t *ranks = json_object_get(document, "ranks");
    const int world = report->history->world;
    json_t *shown = json_array();
    for (int i = 0; i < diagnosis->n_ranks + world && json_array_size(shown) < MOST_ROWS; i++) {
        const bool first = i < diagnosis->n_ranks;
        const int rank = first ? diagnosis->ranks[i] : i - diagnosis->n_ranks;
        bool is_culprit = false;
        for (int k = 0; k < diagnosis->n_ranks; k++)
            is_culprit = is_culprit || diagnosis->ranks[k] == rank;
        if (first || !is_culprit)
            json_array_append_new(shown, describe_rank(report, rank, json_array_get(ranks, (size_t)rank)));
    }
    json_object_update_new(document, json_pack("{s:b, s:i, s:o}", "has_places", report->history->places.n_axes > 0,
                                               "n_hidden", world - (int)json_array_size(shown), "shown", shown));
}

static void add_notices(const tess_history *history, json_t *document)
{
    const int first = history->n_notices > MOST_NOTICES ? history->n_notices - MOST_NOTICES : 0;
    json_t *told = json_array();
    for (int i = first; i < history->n_notices; i++) {
        const tess_notice *notice = &history->notices[i];
        char when[24] = "";
        time_t seconds = (time_t)(notice->wall_ns / 1000000000u);
        struct tm broken;
        if (localtime_r(&seconds, &broken) != NULL)
            strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &broken);
        json_array_append_new(told, json_pack("{s:s, s:b, s:I, s:s}", "when", when, "has_step", notice->step >= 0,
                                              "step", (json_int_t)notice->step, "text", notice->text));
    }
    json_object_update_new(document,
                           json_pack("{s:I, s:b, s:o}", "n_before",
                                     (json_int_t)history->n_reported - (history->n_notices - first), "has_all",
                                     history->n_reported <= (uint64_t)history->n_notices, "told", told));
}

/* Adds nothing if no wait was noticeable. */
static void add_waits(const tess_waits *waits, json_t *document)
{
    static const uint64_t least_ns = 50000000;
    const uint64_t total = waits->ns != NULL ? tess_waits_for(waits, -1) : 0;
    json_t *matrix = json_array();
    int most = 0;
    const int world = total >= least_ns ? waits->world : 0;
    for (int r = 0; r < world; r++) {
        most = tess_waits_for(waits, r) > tess_waits_for(waits, most) ? r : most;
        if (world <= MOST_COLUMNS)
            json_array_append_new(matrix, json_pack("{s:i, s:O}", "row", r, "seconds",
                                                    json_array_get(json_object_get(document, "waits_s"), (size_t)r)));
    }
    if (world > 0)
        json_object_update_new(document, json_pack("{s:f, s:I, s:f, s:i}", "total_s", (double)total * 1e-9,
                                                   "n_collectives", (json_int_t)waits->n_collectives, "share",
                                                   (double)tess_waits_for(waits, most) / (double)total, "most", most));
    json_object_set_new(document, "matrix", matrix);
}

tess_status tess_report_put(const tess_report *report, tess_form_style style, tess_buffer *out)
{
    json_t *document = job_report_describe(report);
    for (int i = 0; i < report->n_stragglers && style == TESS_FORM_TEXT; i++) {
        const tess_straggler *who = &report->stragglers[i].who;
        json_object_update_new(json_array_get(json_object_get(document, "stragglers"), (size_t)i),
                               json_pack("{s:f, s:f}", "over", who->ratio - 1, "excess_ms", who->excess_s * 1e3));
    }
    if (style == TESS_FORM_TEXT) {
        add_ranks(report, document);
        add_notices(report->history, document);
        add_waits(&report->waits, document);
    }
    return tess_form_put(document, form, style, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9), out);
}

tess_status tess_report_last(const tess_report *report, int rank, size_t n, tess_buffer *out)
{
    const tess_rank_history *r = &report->history->ranks[rank];
    for (size_t i = r->n_records > n ? r->n_records - n : 0; i < r->n_records; i++) {
        const tess_record *record = &r->records[i];
        char what[192], phase[96], site[TESS_HISTORY_TEXT + 8];
        uint64_t end = record->completed_ns != 0 ? record->completed_ns : r->last_ns;
        double took_s =
            record->enqueued_ns != 0 && end > record->enqueued_ns ? (double)(end - record->enqueued_ns) * 1e-9 : 0;
        double ago_s = r->last_ns > record->enqueued_ns ? (double)(r->last_ns - record->enqueued_ns) * 1e-9 : 0;
        tess_request_site(record, site, sizeof(site));
        TESS_TRY(
            tess_buffer_printf(out, "-%.6f s  %-9s %10.6f s  %s%s%s%s\n", ago_s, tess_trace_state_name(record->state),
                               took_s, tess_request_format(report->history, record, what, sizeof(what)),
                               tess_request_phase(record, phase, sizeof(phase)), site[0] != '\0' ? ", at " : "", site));
    }
    return TESS_OK;
}
