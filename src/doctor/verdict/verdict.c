/* Implements tessera/diagnosis.h: a report on a job with plain values for other programs. */
#include <stdio.h>
#include <string.h>

#include "doctor/job/job_report.h"
#include "doctor/table/clean.h"
#include "doctor/verdict/open_history.h"
#include "tessera/diagnosis.h"

struct tess_job_report {
    tess_mem *mem;
    tess_history *history;
    tess_report report;
    tess_verdict verdict;
    const char *evidence[TESS_DIAGNOSIS_MAX_LINES];
};

static void clean_rank(tess_rank_history *rank)
{
    tess_clean_in_place(rank->host, sizeof(rank->host));
    tess_clean_in_place(rank->why, sizeof(rank->why));
    tess_clean_in_place(rank->error, sizeof(rank->error));
    if (rank->n_spans > 0)
        tess_clean_in_place(rank->spans[rank->n_spans - 1].phase, TESS_TRACE_PHASE_BYTES);
}

static void fill_verdict(tess_job_report *r)
{
    tess_diagnosis *d = &r->report.diagnosis;
    const tess_history *history = r->history;
    for (int i = 0; i < d->n_lines; i++) {
        tess_clean_in_place(d->lines[i], sizeof(d->lines[i]));
        r->evidence[i] = d->lines[i];
    }
    tess_clean_in_place(d->headline, sizeof(d->headline));
    tess_clean_in_place(d->fix, sizeof(d->fix));
    r->verdict = (tess_verdict){.kind = d->kind,
                                .tie = d->tie,
                                .n_ranks = d->n_ranks,
                                .n_waiting = d->n_waiting,
                                .n_evidence = d->n_lines,
                                .ranks = d->ranks,
                                .waiting = d->waiting,
                                .waited_s = d->waited_s,
                                .headline = d->headline,
                                .evidence = r->evidence,
                                .fix = d->fix,
                                .launcher_said = history->reported,
                                .source = tess_history_source_name(history->source),
                                .folder = history->folder,
                                .world = history->world};
}

static tess_status read_job(tess_job_report *r, const char *job, double patience_s)
{
    TESS_TRY(tess_history_open(r->mem, job, &r->history));
    for (int i = 0; i < r->history->world; i++)
        clean_rank(&r->history->ranks[i]);
    if (patience_s < 0)
        patience_s = tess_history_patience(r->history);
    tess_status status = tess_report_make(r->history, patience_s, &r->report);
    if (status == TESS_OK)
        fill_verdict(r);
    else
        tess_history_destroy(&r->history);
    return status;
}

tess_status tess_job_report_read(const char *job, double patience_s, tess_job_report **report)
{
    tess_mem *mem;
    tess_job_report *r;
    *report = NULL;
    TESS_CHECK(job != NULL && job[0] != '\0', TESS_E_INVALID, "no job is named: give its folder or process id");
    TESS_TRY(tess_mem_create(&mem));
    tess_status status = tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*r), "report", (void **)&r);
    if (status != TESS_OK) {
        tess_mem_destroy(&mem);
        return status;
    }
    r->mem = mem;
    status = read_job(r, job, patience_s);
    *report = r;
    if (status != TESS_OK)
        tess_job_report_destroy(report);
    return status;
}

void tess_job_report_destroy(tess_job_report **report)
{
    tess_job_report *r = *report;
    if (r == NULL)
        return;
    tess_mem *mem = r->mem;
    if (r->history != NULL)
        tess_report_free(&r->report);
    tess_history_destroy(&r->history);
    tess_mem_free(mem, r);
    tess_mem_destroy(&mem);
    *report = NULL;
}

const tess_verdict *tess_job_report_verdict(const tess_job_report *report)
{
    return &report->verdict;
}

tess_status tess_job_report_rank(const tess_job_report *report, int rank, tess_rank_report *described)
{
    const tess_history *history = report->history;
    TESS_CHECK(rank >= 0 && rank < history->world, TESS_E_INVALID, "the job has no rank %d: it has ranks 0 .. %d", rank,
               history->world - 1);
    const tess_rank_history *r = &history->ranks[rank];
    const tess_phase_span *span = r->n_spans > 0 ? &r->spans[r->n_spans - 1] : NULL;
    *described = (tess_rank_report){.present = r->present,
                                    .pid = r->pid,
                                    .host = r->host,
                                    .why = r->why,
                                    .error = r->error,
                                    .phase = span != NULL ? span->phase : "",
                                    .step = span != NULL ? span->step : -1,
                                    .waited_s = tess_report_waited_s(&report->report, rank)};
    tess_report_state(&report->report, rank, described->state, sizeof(described->state));
    return TESS_OK;
}

/* Copies the buffer to memory of malloc, and frees it. */
static tess_status hand_over(tess_status status, tess_buffer *buffer, char **text)
{
    *text = NULL;
    if (status == TESS_OK) {
        *text = strdup(buffer->data);
        if (*text == NULL)
            status = TESS_FAIL(TESS_E_NOMEM, "the report has %zu bytes", buffer->size);
    }
    tess_buffer_free(buffer);
    return status;
}

tess_status tess_job_report_json(const tess_job_report *report, char **text)
{
    tess_buffer buffer = {.mem = report->mem};
    return hand_over(tess_report_put(&report->report, TESS_FORM_JSON, &buffer), &buffer, text);
}

tess_status tess_job_report_text(const tess_job_report *report, char **text)
{
    tess_buffer buffer = {.mem = report->mem};
    return hand_over(tess_report_put(&report->report, TESS_FORM_TEXT, &buffer), &buffer, text);
}
