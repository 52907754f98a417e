/* Reports that all ranks of a job are stopped. In that case no rank waits for another, so no other report would
 * appear. */
#include <stdio.h>

#include "diagnosis/sentence.h"
#include "control/launch/watchdog/watchdog_impl.h"
#include "job/board_waits.h"

static const uint64_t between_ns = 100000000; /* pause between looks */
static const uint64_t least_ns = 1000000000;  /* a shorter stop is not reported */

static bool is_here(const tess_job *job, int rank)
{
    return job->rows[rank].host == (int32_t)job->header->host;
}

static bool is_stopped(const tess_watchdog *w, int rank)
{
    return tess_board_process_state(w->job, rank, watchdog_pid_of(w, rank)) == 'T';
}

/* Lists the stopped ranks, and returns their number. *all: no rank runs. If the first rank runs and `any` is false,
 * the other ranks are not checked. */
static int find_stopped(const tess_watchdog *w, bool any, int *ranks, bool *all)
{
    int n = 0, n_run = 0;
    for (int r = 0; r < (int)w->job->header->world && (any || n_run == 0); r++) {
        if (atomic_load(&w->job->rows[r].ended) != 0)
            continue;
        if (is_stopped(w, r))
            ranks[n++] = r;
        else
            n_run++;
    }
    *all = n > 0 && n_run == 0;
    return n;
}

/* Reports a line. In a job of several hosts, each has a watchdog; only that of rank 0's host reports. */
static void report_line(const tess_watchdog *w, const char *line)
{
    if (is_here(w->job, 0))
        tess_report_line(&w->options.reporter, "%s", line);
}

static void note(tess_watchdog *w, const char *text)
{
    watchdog_halt *halt = &w->halt;
    tess_notices *notices = &w->job->header->notices;
    if (!is_here(w->job, 0))
        return;
    if (halt->notice != 0)
        tess_notices_replace(notices, halt->notice - 1, text);
    else
        halt->notice = 1 + tess_notices_add(notices, TESS_NOTICE_WAIT, -1, atomic_load(&w->job->rows[0].step), text);
}

static void begin(tess_watchdog *w, const int *ranks, int n)
{
    char line[1024];
    const char *last = NULL;
    bool several = w->job->header->n_hosts > 1;
    tess_sentence text = tess_sentence_begin(line, sizeof(line));
    tess_sentence_add(&text, n == 1 ? "the only rank left is %s" : "all ranks are %s", WATCHDOG_STOPPED "; to go on: ");
    for (int i = 0; i < n; i++) {
        tess_job_row *row = &w->job->rows[ranks[i]];
        tess_sentence_continue(&text, watchdog_pid_of(w, ranks[i]),
                               several ? w->job->header->hosts[row->host].name : "", &last);
        if (is_here(w->job, ranks[i]))
            tess_board_situation(row, TESS_RANK_STOPPED, WATCHDOG_STOPPED);
    }
    report_line(w, line);
    note(w, line);
    w->halt.is_said = true;
}

static void end(tess_watchdog *w, uint64_t now_ns)
{
    char line[128];
    for (int r = 0; r < (int)w->job->header->world; r++) {
        tess_job_row *row = &w->job->rows[r];
        if (is_here(w->job, r) && atomic_load(&row->situation) == TESS_RANK_STOPPED)
            tess_board_situation(row, TESS_RANK_WELL, "");
    }
    snprintf(line, sizeof(line), "the ranks were stopped for %.1f s and go on",
             (double)(now_ns - w->halt.since_ns) * 1e-9);
    report_line(w, line);
    note(w, line);
}

void watchdog_look_at_halt(tess_watchdog *w, uint64_t now_ns)
{
    watchdog_halt *halt = &w->halt;
    if (now_ns - halt->looked_ns < between_ns)
        return;
    halt->looked_ns = now_ns;
    int n = find_stopped(w, halt->is_said, w->stopped, &halt->is_on);
    if (atomic_load(&w->job->header->first_lost) >= 0 || (!halt->is_on && !halt->is_said)) {
        *halt = (watchdog_halt){.looked_ns = now_ns};
        return;
    }
    if (halt->since_ns == 0)
        halt->since_ns = now_ns;
    if (!halt->is_said && now_ns - halt->since_ns >= least_ns)
        begin(w, w->stopped, n);
    if (halt->is_said && n == 0) {
        end(w, now_ns);
        *halt = (watchdog_halt){.looked_ns = now_ns};
    }
}
