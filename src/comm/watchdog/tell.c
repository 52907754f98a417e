/* The watchdog's lines. */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "comm/call_sites.h"
#include "comm/ending.h"
#include "comm/watchdog/watchdog_impl.h"
#include "trace/label.h"

static void say(const tess_watchdog *w, const char *line)
{
    if (w->options.notice != NULL)
        w->options.notice(w->options.self, line);
}

/* "reduce_scatter #56730 'layers 12' of team 'world'" */
static void name_op(const tess_fingerprint *fp, const char *team, char *text, size_t size)
{
    char label[32];
    bool labelled = tess_label_text(fp->label, label, sizeof(label))[0] != '\0';
    snprintf(text, size, "%s #%llu%s%s%s of team '%s'", tess_trace_op_name(fp->kind), (unsigned long long)fp->sequence,
             labelled ? " '" : "", label, labelled ? "'" : "", team);
}

static size_t list_ranks(const int *ranks, int n, char *text, size_t size)
{
    enum { MOST = 8 };
    size_t at = tess_text_add(text, size, 0, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < n && i < MOST; i++)
        at = tess_text_add(text, size, at, " %d", ranks[i]);
    if (n > MOST)
        at = tess_text_add(text, size, at, " and %d more", n - MOST);
    return at;
}

/* "in phase 'data' of step 812, ": where it is by its own word. */
static size_t tell_phase(const tess_board_copy *row, char *text, size_t size)
{
    char last[160];
    if (row->phase[0] == '\0' && row->op.kind == TESS_TRACE_NONE)
        return tess_text_add(text, size, 0, "before its first operation, ");
    if (row->phase[0] == '\0') {
        name_op(&row->op, row->op_team, last, sizeof(last));
        return tess_text_add(text, size, 0, "%s %s, ", row->op_state == TESS_TRACE_COMPLETED ? "after" : "in", last);
    }
    size_t at = tess_text_add(text, size, 0, "in phase '%s'", row->phase);
    if (row->step >= 0)
        at = tess_text_add(text, size, at, " of step %lld", (long long)row->step);
    if (row->detail >= 0)
        at = tess_text_add(text, size, at, " (%lld)", (long long)row->detail);
    return at + (tess_text_add(text, size, at, ", ") - at);
}

static const char *host_of(const tess_watchdog *w, int rank)
{
    return w->job->header->hosts[w->job->rows[rank].host].name;
}

static size_t tell_progress(const tess_watchdog *w, int rank, char *text, size_t size)
{
    char why[TESS_ENDING_PROGRESS];
    if (w->stalls[rank].finding.situation != TESS_RANK_IN_OTHER_COLLECTIVE)
        return 0; /* one that is on its way may still be in an older step */
    return tess_ending_tell_progress(w->job, rank, why) ? tess_text_add(text, size, 0, "; %s", why) : 0;
}

void watchdog_tell_stall(const tess_watchdog *w, const int *ranks, int n, double waited_s)
{
    char line[1024], op[256] = "the start of the job";
    tess_board_copy row, waiter;
    const watchdog_stall *stall = &w->stalls[ranks[0]];
    tess_board_export(&w->job->rows[ranks[0]], &row);
    int n_waiting = stall->waiter >= 0 ? watchdog_count_waiters(w->job, ranks[0]) : 0;
    if (stall->waiter >= 0) {
        tess_board_export(&w->job->rows[stall->waiter], &waiter);
        name_op(&waiter.wait_op, waiter.wait_team, op, sizeof(op));
    }
    size_t at = list_ranks(ranks, n, line, sizeof(line));
    if (w->job->header->n_hosts > 1)
        at = tess_text_add(line, sizeof(line), at, " on host %s", host_of(w, ranks[0]));
    at = tess_text_add(line, sizeof(line), at, n == 1 ? " has kept " : " have kept ");
    if (n_waiting == 1 || (n_waiting == 0 && stall->waiter >= 0))
        at = tess_text_add(line, sizeof(line), at, "rank %d", stall->waiter);
    else if (n_waiting == 0)
        at = tess_text_add(line, sizeof(line), at, "the job");
    else
        at = tess_text_add(line, sizeof(line), at, "%d ranks", n_waiting);
    at = tess_text_add(line, sizeof(line), at, " waiting for %.1f s %s %s; ", waited_s,
                       stall->waiter >= 0 ? "in" : "at", op);
    if (n == 1)
        at = tess_text_add(line, sizeof(line), at, "it is ");
    else
        at = tess_text_add(line, sizeof(line), at, "rank %d is ", ranks[0]);
    if (row.state != JOB_RANK_ABSENT)
        at += tell_phase(&row, line + at, sizeof(line) - at);
    at = tess_text_add(line, sizeof(line), at, "%s", stall->finding.why);
    at += tell_progress(w, ranks[0], line + at, sizeof(line) - at);
    if (stall->deadline_told)
        snprintf(line + at, sizeof(line) - at, "; the deadline of %g s has passed (comm.on_timeout=report): waiting on",
                 w->options.timeout_s);
    tess_call_sites_name(tess_job_ring(w->job, ranks[0])->owner.program, line, sizeof(line));
    say(w, line);
}

void watchdog_tell_stack(const tess_watchdog *w, int rank, const tess_stack *stack)
{
    enum { FRAMES = 3 };
    char line[512];
    if (stack->n_lines == 0)
        return;
    int begin = stack->first_own < stack->n_lines ? stack->first_own : 0;
    size_t at = tess_text_add(line, sizeof(line), 0, "rank %d's stack: ", rank);
    for (int i = begin; i < stack->n_lines && i < begin + FRAMES; i++)
        at = tess_text_add(line, sizeof(line), at, "%s%s", i > begin ? " < " : "", stack->lines[i]);
    say(w, line);
}

void watchdog_tell_came(const tess_watchdog *w, int rank, double waited_s)
{
    char line[128];
    snprintf(line, sizeof(line), "rank %d has come after %.1f s", rank, waited_s);
    say(w, line);
}
