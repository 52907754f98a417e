/* Formats the watchdog's lines for people, and stores them as notices (trace/notice.h). */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "diagnosis/sentence.h"
#include "job/call_sites.h"
#include "job/rank_end.h"
#include "control/launch/watchdog/watchdog_impl.h"
#include "trace/label.h"

static void say(const tess_watchdog *w, const char *line)
{
    tess_report_line(&w->options.reporter, "%s", line);
}

/* Formats an operation: "reduce_scatter #56730 'layers 12' of team 'world'". */
static void name_op(const tess_fingerprint *fp, const char *team, char *text, size_t size)
{
    char label[32];
    bool labelled = tess_label_text(fp->label, label, sizeof(label))[0] != '\0';
    snprintf(text, size, "%s #%llu%s%s%s of team '%s'", tess_trace_op_name(fp->kind), (unsigned long long)fp->sequence,
             labelled ? " '" : "", label, labelled ? "'" : "", team);
}

/* Writes the place that the rank itself reports, "in phase 'data' of step 812, ", or else its last operation. */
static size_t report_place(const tess_board_copy *row, char *text, size_t size)
{
    char last[160];
    if (row->phase[0] == '\0' && row->op.kind == TESS_TRACE_NONE)
        return tess_text_add(text, size, 0, "before its first operation, ");
    if (row->phase[0] == '\0') {
        name_op(&row->op, row->op_team, last, sizeof(last));
        return tess_text_add(text, size, 0, "%s %s, ", row->op_state == TESS_TRACE_COMPLETED ? "after" : "in", last);
    }
    return tess_text_add(text, size, tess_board_describe_phase(row, text, size), ", ");
}

static const char *host_of(const tess_watchdog *w, int rank)
{
    return w->job->header->hosts[w->job->rows[rank].host].name;
}

static void report_progress(const tess_watchdog *w, int rank, char *text, size_t size)
{
    char why[TESS_ENDING_PROGRESS];
    if (w->stalls[rank].finding.situation != TESS_RANK_IN_OTHER_COLLECTIVE)
        return; /* a rank that is not there yet may still be in an earlier step */
    if (tess_ending_report_progress(w->job, rank, why))
        tess_text_add(text, size, 0, "; %s", why);
}

/* Writes for which ranks it holds: "3 ranks", "rank 0", "the job". */
static void report_whom(const watchdog_stall *stall, int n_waiting, char *text, size_t size)
{
    if (n_waiting == 1 || (n_waiting == 0 && stall->waiter >= 0))
        snprintf(text, size, "rank %d", stall->waiter);
    else if (n_waiting == 0)
        snprintf(text, size, "the job");
    else
        snprintf(text, size, "%d ranks", n_waiting);
}

/* Writes where they wait: "in all_reduce #7 of team 'world'", at the start of the job, or later for a device. */
static void report_where(const tess_watchdog *w, int rank, char *text, size_t size)
{
    char op[256];
    tess_board_copy waiter;
    const watchdog_stall *stall = &w->stalls[rank];
    if (stall->waiter < 0) {
        bool has_joined = atomic_load(&w->job->rows[rank].state) != JOB_RANK_ABSENT;
        snprintf(text, size, has_joined ? "for its device" : "at the start of the job");
        return;
    }
    tess_board_export(&w->job->rows[stall->waiter], &waiter);
    name_op(&waiter.wait_op, waiter.wait_team, op, sizeof(op));
    snprintf(text, size, "in %s", op);
}

/* Writes what the rank is doing instead. */
static void report_doing(const tess_watchdog *w, int rank, char *text, size_t size)
{
    tess_board_copy row;
    tess_board_export(&w->job->rows[rank], &row);
    size_t at = row.state != JOB_RANK_ABSENT ? report_place(&row, text, size) : 0;
    at = tess_text_add(text, size, at, "%s", w->stalls[rank].finding.why);
    report_progress(w, rank, text + at, size - at);
    tess_call_sites_name(w->job, rank, text, size);
}

/* Stores a stall as one notice, however often it was reported. It says how long the stall lasted, or had lasted at
 * the last report. */
static void note_stall(const tess_watchdog *w, int rank, double waited_s, bool has_come)
{
    char text[3 * TESS_NOTICE_TEXT];
    watchdog_stall *stall = &w->stalls[rank];
    tess_notices *notices = &w->job->header->notices;
    snprintf(text, sizeof(text), "%s for %.1f s%s %s%s%s", stall->who, waited_s, has_come ? "" : " and more", stall->in,
             stall->stack[0] != '\0' ? "; its stack: " : "", stall->stack);
    if (stall->notice != 0)
        tess_notices_replace(notices, stall->notice - 1, text);
    else
        stall->notice =
            1 + tess_notices_add(notices, TESS_NOTICE_WAIT, rank, atomic_load(&w->job->rows[rank].step), text);
}

void watchdog_report_stall(tess_watchdog *w, const int *ranks, int n, double waited_s)
{
    char line[1024], who[128], whom[32], where[288], doing[512], whose[16] = "it";
    watchdog_stall *stall = &w->stalls[ranks[0]];
    tess_fields fields = {.n = 0};
    tess_sentence names = tess_sentence_begin(who, sizeof(who)), text = tess_sentence_begin(line, sizeof(line));
    tess_sentence_ranks(&names, ranks, n);
    if (w->job->header->n_hosts > 1)
        tess_sentence_add(&names, " on host %s", host_of(w, ranks[0]));
    report_whom(stall, stall->waiter >= 0 ? watchdog_count_waiters(w->job, ranks[0], &w->waits) : 0, whom,
                sizeof(whom));
    report_where(w, ranks[0], where, sizeof(where));
    report_doing(w, ranks[0], doing, sizeof(doing));
    if (n > 1)
        snprintf(whose, sizeof(whose), "rank %d", ranks[0]);
    tess_fields_put(&fields, "who", n, "%s", who);
    tess_fields_put(&fields, "whom", 1, "%s", whom);
    tess_fields_put(&fields, "waited", 1, "%.1f", waited_s);
    tess_fields_put(&fields, "where", 1, "%s", where);
    tess_fields_put(&fields, "whose", 1, "%s", whose);
    tess_fields_put(&fields, "doing", 1, "%s", doing);
    if (stall->deadline_reported)
        tess_fields_put(&fields, "deadline", 1, "%g", w->options.timeout_s);
    tess_sentence_report(&text, TESS_REPORT_STALL, &fields);
    say(w, line);
    tess_text_add(stall->who, sizeof(stall->who), 0, "%s kept %s waiting", who, whom);
    tess_text_add(stall->in, sizeof(stall->in), 0, "%s; %s was %s", where, whose, doing);
    note_stall(w, ranks[0], waited_s, false);
}

void watchdog_report_stack(const tess_watchdog *w, int rank, double waited_s, const tess_stack *stack)
{
    enum { FRAMES = 3 };
    char line[512], *frames = w->stalls[rank].stack;
    size_t size = sizeof(w->stalls[rank].stack), at = 0;
    if (stack->n_lines == 0)
        return;
    int begin = stack->first_own < stack->n_lines ? stack->first_own : 0;
    for (int i = begin; i < stack->n_lines && i < begin + FRAMES; i++)
        at = tess_text_add(frames, size, at, "%s%s", i > begin ? " < " : "", stack->lines[i]);
    snprintf(line, sizeof(line), "rank %d's stack: %s", rank, frames);
    say(w, line);
    note_stall(w, rank, waited_s, false);
}

void watchdog_report_came(const tess_watchdog *w, int rank, double waited_s)
{
    char line[128];
    snprintf(line, sizeof(line), "rank %d has come after %.1f s", rank, waited_s);
    say(w, line);
    if (w->stalls[rank].notice != 0)
        note_stall(w, rank, waited_s, true);
}
