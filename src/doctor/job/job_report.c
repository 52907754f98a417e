#include "doctor/job/job_report.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Returns the mean seconds per step, from the rank's spans; 0: they do not show it. */
static double step_seconds(const tess_rank_history *rank)
{
    if (rank->n_spans < 2)
        return 0;
    const tess_phase_span *first = &rank->spans[0], *last = &rank->spans[rank->n_spans - 1];
    if (last->step <= first->step || last->begin_ns <= first->begin_ns)
        return 0;
    return (double)(last->begin_ns - first->begin_ns) * 1e-9 / (double)(last->step - first->step);
}

/* Whether a straggler is worth reporting. A short phase may be much slower at no cost. A rank does no harm either if
 * the others wait no longer for it than for any other rank. Where ranks share cores, the running rank looks slow,
 * and that changes all the time. */
static bool matters(const tess_report *report, const tess_straggler *straggler)
{
    /* fractions: of the seconds per step, and of the mean wait for a rank */
    static const double least_of_step = 0.01, least_of_waiting = 1.5;
    const tess_waits *waits = &report->waits;
    double fair = waits->ns != NULL ? (double)tess_waits_for(waits, -1) / waits->world : 0;
    if (waits->ns != NULL && (double)tess_waits_for(waits, straggler->rank) < least_of_waiting * fair)
        return false;
    return straggler->excess_s >= least_of_step * step_seconds(&report->history->ranks[straggler->rank]);
}

static tess_status find_stragglers(tess_report *report)
{
    const tess_history *history = report->history;
    size_t world = (size_t)history->world;
    TESS_AUTO(tess_mem_drop) double *seconds = NULL;
    TESS_AUTO(tess_mem_drop) tess_straggler *found = NULL;
    TESS_TRY(TESS_NEW(history->mem, world * TESS_STRAGGLER_STEPS, "report", &seconds));
    TESS_TRY(TESS_NEW(history->mem, world, "report", &found));
    for (const char *const *phase = tess_phase_names(); *phase != NULL; phase++) {
        int n = tess_phase_seconds(history, *phase, seconds) ? tess_stragglers_find(seconds, history->world, found) : 0;
        for (int i = 0; i < n && report->n_stragglers < TESS_REPORT_STRAGGLERS; i++)
            if (matters(report, &found[i]))
                report->stragglers[report->n_stragglers++] = (tess_report_straggler){.phase = *phase, .who = found[i]};
    }
    return TESS_OK;
}

tess_status tess_report_make(const tess_history *history, double patience_s, tess_report *report)
{
    *report = (tess_report){.history = history};
    TESS_TRY(tess_diagnosis_find(history, patience_s, &report->diagnosis));
    tess_status status = history->world <= TESS_WAITS_MAX_RANKS ? tess_waits_find(history, &report->waits) : TESS_OK;
    if (status == TESS_OK)
        status = find_stragglers(report);
    if (status != TESS_OK)
        tess_report_free(report);
    return status;
}

void tess_report_free(tess_report *report)
{
    tess_diagnosis_free(report->history, &report->diagnosis);
    tess_mem_drop(&report->waits.ns);
}

static const tess_record *newest(const tess_rank_history *rank)
{
    return rank->n_records > 0 ? &rank->records[rank->n_records - 1] : NULL;
}

const char *tess_report_state(const tess_report *report, int rank, char *text, size_t size)
{
    const tess_rank_history *r = &report->history->ranks[rank];
    const tess_record *last = newest(r);
    const char *name = r->signal > 0 ? sigabbrev_np(r->signal) : NULL;
    if (r->situation != TESS_RANK_WELL && r->situation != TESS_RANK_UNKNOWN)
        snprintf(text, size, "%s", tess_situation_name(r->situation));
    else if (r->ended && r->signal != 0)
        snprintf(text, size, "SIG%s%s", name != NULL ? name : "?", r->asked ? " (asked)" : "");
    else if (r->ended)
        snprintf(text, size, "exited %d", r->exit_code);
    else if (!r->present)
        snprintf(text, size, "no record");
    else if (last != NULL && last->state == TESS_TRACE_FAILED)
        snprintf(text, size, "failed");
    else if (last != NULL && last->state != TESS_TRACE_COMPLETED)
        snprintf(text, size, "waits");
    else
        snprintf(text, size, report->history->source == TESS_HISTORY_LIVE ? "runs" : "-");
    return text;
}

double tess_report_waited_s(const tess_report *report, int rank)
{
    const tess_rank_history *r = &report->history->ranks[rank];
    const tess_record *last = newest(r);
    if (last == NULL || last->enqueued_ns == 0 || last->state == TESS_TRACE_COMPLETED)
        return 0;
    uint64_t begin = last->enqueued_ns + (uint64_t)r->clock_offset_ns, end = report->history->now_ns;
    if (last->completed_ns != 0)
        end = last->completed_ns + (uint64_t)r->clock_offset_ns;
    return end > begin ? (double)(end - begin) * 1e-9 : 0;
}
