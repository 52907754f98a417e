/* Prints the report on one screen. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "doctor/job/job_report.h"
#include "doctor/table/place_table.h"
#include "diagnosis/request.h"
#include "diagnosis/sentence.h"

enum { MOST_ROWS = 32, MOST_COLUMNS = 16, MOST_NOTICES = 10 };

static const double least_shown_s = 0.005; /* shorter waits are not shown: they would print as 0.00 */

static tess_status print_diagnosis(const tess_report *report, tess_buffer *out)
{
    const tess_diagnosis *diagnosis = &report->diagnosis;
    TESS_TRY(tess_buffer_printf(out, "%s%s: %s\n", tess_diagnosis_name(diagnosis->kind), diagnosis->tie ? " (tie)" : "",
                                diagnosis->headline));
    for (int i = 0; i < diagnosis->n_lines; i++)
        TESS_TRY(tess_buffer_printf(out, "  %s\n", diagnosis->lines[i]));
    if (diagnosis->fix[0] != '\0')
        TESS_TRY(tess_buffer_printf(out, "  what to do: %s\n", diagnosis->fix));
    if (report->history->reported[0] != '\0')
        TESS_TRY(tess_buffer_printf(out, "  the launcher said: %.400s\n", report->history->reported));
    if (report->history->before[0] != '\0')
        TESS_TRY(tess_buffer_printf(out, "  an earlier life of this job: %.400s; tessera trace %s.previous\n",
                                    report->history->before, report->history->folder));
    for (const char *line = report->history->damage; *line != '\0'; line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        TESS_TRY(tess_buffer_printf(out, "  damaged: %.*s\n", (int)n, line));
        line += n;
    }
    return TESS_OK;
}

/* ---- Ranks ---- */
static void describe_phase(const tess_rank_history *rank, char *text, size_t size, int64_t *step)
{
    const tess_phase_span *span = rank->n_spans > 0 ? &rank->spans[rank->n_spans - 1] : NULL;
    *step = span != NULL ? span->step : -1;
    if (span == NULL)
        snprintf(text, size, "-");
    else if (span->detail >= 0)
        snprintf(text, size, "%.*s %lld", TESS_TRACE_PHASE_BYTES, span->phase, (long long)span->detail);
    else
        snprintf(text, size, "%.*s", TESS_TRACE_PHASE_BYTES, span->phase);
}

/* width: columns for the rank's place in the mesh; 0: ranks have no places. */
static tess_status print_rank(const tess_report *report, int rank, int width, tess_buffer *out)
{
    const tess_rank_history *r = &report->history->ranks[rank];
    char state[32], phase[48], step_text[24], waited[24] = "", last[192] = "none", place[TESS_PLACE_TEXT];
    int64_t step;
    describe_phase(r, phase, sizeof(phase), &step);
    snprintf(step_text, sizeof(step_text), step >= 0 ? "%lld" : "-", (long long)step);
    if (tess_report_waited_s(report, rank) >= least_shown_s)
        snprintf(waited, sizeof(waited), "%.2f s", tess_report_waited_s(report, rank));
    if (r->n_records > 0)
        tess_request_format(report->history, &r->records[r->n_records - 1], last, sizeof(last));
    TESS_TRY(tess_buffer_printf(out, "%5d %8d  ", rank, r->pid));
    if (width > 0)
        TESS_TRY(tess_buffer_printf(out, "%-*s  ", width,
                                    tess_place_text(&report->history->places, rank, place, sizeof(place))));
    return tess_buffer_printf(out, "%-16s %-14s %7s %9s  %s\n", tess_report_state(report, rank, state, sizeof(state)),
                              phase, step_text, waited, last);
}

/* Prints the ranks, culprits first. */
static tess_status print_ranks(const tess_report *report, tess_buffer *out)
{
    const tess_diagnosis *diagnosis = &report->diagnosis;
    int n = 0, world = report->history->world, width = tess_place_width(&report->history->places, world);
    TESS_TRY(tess_buffer_printf(out, "\n%5s %8s  ", "rank", "pid"));
    if (width > 0)
        TESS_TRY(tess_buffer_printf(out, "%-*s  ", width, "place"));
    TESS_TRY(
        tess_buffer_printf(out, "%-16s %-14s %7s %9s  %s\n", "state", "phase", "step", "waited", "last operation"));
    for (int i = 0; i < diagnosis->n_ranks && n < MOST_ROWS; i++, n++)
        TESS_TRY(print_rank(report, diagnosis->ranks[i], width, out));
    for (int r = 0; r < world && n < MOST_ROWS; r++) {
        bool is_culprit = false;
        for (int i = 0; i < diagnosis->n_ranks; i++)
            is_culprit = is_culprit || diagnosis->ranks[i] == r;
        if (is_culprit)
            continue;
        TESS_TRY(print_rank(report, r, width, out));
        n++;
    }
    return n < world ? tess_buffer_printf(out, "      and %d more (--json has all)\n", world - n) : TESS_OK;
}

/* ---- Notices ---- */
static tess_status print_notice(const tess_notice *notice, tess_buffer *out)
{
    char when[24] = "", step[32] = "";
    time_t seconds = (time_t)(notice->wall_ns / 1000000000u);
    struct tm broken;
    if (localtime_r(&seconds, &broken) != NULL)
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &broken);
    if (notice->step >= 0)
        snprintf(step, sizeof(step), "  step %lld", (long long)notice->step);
    return tess_buffer_printf(out, "  %s%s  %s\n", when, step, notice->text);
}

static tess_status print_notices(const tess_history *history, tess_buffer *out)
{
    int first = history->n_notices > MOST_NOTICES ? history->n_notices - MOST_NOTICES : 0;
    uint64_t n_more = history->n_reported - (uint64_t)(history->n_notices - first);
    if (history->n_notices == 0)
        return TESS_OK;
    TESS_TRY(tess_buffer_printf(out, "\ntold while it ran"));
    if (n_more > 0)
        TESS_TRY(tess_buffer_printf(out, " (and %llu before; --json has %s)", (unsigned long long)n_more,
                                    history->n_reported > (uint64_t)history->n_notices ? "more of them" : "all"));
    TESS_TRY(tess_buffer_printf(out, ":\n"));
    for (int i = first; i < history->n_notices; i++)
        TESS_TRY(print_notice(&history->notices[i], out));
    return TESS_OK;
}

/* ---- Waits and stragglers ---- */
static tess_status print_matrix(const tess_waits *waits, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out, "      "));
    for (int c = 0; c < waits->world; c++)
        TESS_TRY(tess_buffer_printf(out, " %7d", c));
    for (int r = 0; r < waits->world; r++) {
        TESS_TRY(tess_buffer_printf(out, "\n%5d ", r));
        for (int c = 0; c < waits->world; c++)
            TESS_TRY(tess_buffer_printf(out, " %7.3f",
                                        (double)waits->ns[(size_t)r * (size_t)waits->world + (size_t)c] * 1e-9));
    }
    return tess_buffer_printf(out, "\n");
}

/* Prints nothing if no wait was noticeable. */
static tess_status print_waits(const tess_report *report, tess_buffer *out)
{
    static const uint64_t least_ns = 50000000;
    const tess_waits *waits = &report->waits;
    int most = 0;
    if (waits->ns == NULL)
        return TESS_OK;
    uint64_t total = tess_waits_for(waits, -1);
    if (total < least_ns)
        return TESS_OK;
    for (int c = 1; c < waits->world; c++)
        most = tess_waits_for(waits, c) > tess_waits_for(waits, most) ? c : most;
    TESS_TRY(tess_buffer_printf(
        out, "\nin %llu collectives that all came to, ranks waited %.2f s, %.0f%% of it for rank %d\n",
        (unsigned long long)waits->n_collectives, (double)total * 1e-9,
        100.0 * (double)tess_waits_for(waits, most) / (double)total, most));
    if (waits->world > MOST_COLUMNS)
        return TESS_OK;
    TESS_TRY(tess_buffer_printf(out, "seconds that the rank of the row waited for the rank of the column:\n"));
    return print_matrix(waits, out);
}

static tess_status print_stragglers(const tess_report *report, tess_buffer *out)
{
    for (int i = 0; i < report->n_stragglers; i++) {
        const tess_report_straggler *s = &report->stragglers[i];
        TESS_TRY(tess_buffer_printf(out, "%srank %d is slow in %s: %.0f%% over the others, %.2f ms a step\n",
                                    i == 0 ? "\n" : "", s->who.rank, s->phase, 100 * (s->who.ratio - 1),
                                    s->who.excess_s * 1e3));
    }
    return TESS_OK;
}

tess_status tess_report_print(const tess_report *report, tess_buffer *out)
{
    TESS_TRY(print_diagnosis(report, out));
    TESS_TRY(print_ranks(report, out));
    TESS_TRY(print_notices(report->history, out));
    TESS_TRY(print_waits(report, out));
    return print_stragglers(report, out);
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
