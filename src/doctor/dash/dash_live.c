/* The section of the live page that says what the ranks of each job do now, and who waits for whom. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/dash/dash_impl.h"
#include "trace/label.h"

static const double long_wait_s = 0.25; /* shorter waits are normal in a collective */
enum { MOST_ROWS = 256, BAR = 160 };

/* Appends HTML. The first failure is kept. */
typedef struct live_pen {
    tess_buffer *out;
    tess_status status;
} live_pen;

/* Appends markup of this program, with numbers and constant words. */
__attribute__((format(printf, 2, 3))) static void put(live_pen *p, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (p->status == TESS_OK)
        p->status = tess_buffer_append(p->out, text, (size_t)(n < (int)sizeof(text) ? n : (int)sizeof(text) - 1));
}

/* Appends a text of a job, escaped. */
static void put_text(live_pen *p, const char *text)
{
    if (p->status == TESS_OK)
        p->status = tess_page_put_text(text, strlen(text), p->out);
}

static void put_cell(live_pen *p, const char *class, const char *text)
{
    put(p, class[0] != '\0' ? "<td class=\"%s\">" : "<td%s>", class);
    put_text(p, text);
}

/* ---- Above the ranks ---- */
static void put_progress(live_pen *p, const tess_top_snapshot *s, const tess_top_totals *t)
{
    char text[64];
    put(p, "<p>");
    put_text(p, s->command[0] != '\0' ? s->command : "a job");
    put(p, "<br>process %d, %d rank%s", s->pid, s->world, s->world > 1 ? "s" : "");
    if (s->n_hosts > 1)
        put(p, " on %d hosts", s->n_hosts);
    if (s->age_s > 0)
        put(p, ", started %s ago", tess_top_seconds(s->age_s, text, sizeof(text)));
    if (s->n_restarts > 0)
        put(p, ", restarted %lld time%s", (long long)s->n_restarts, s->n_restarts > 1 ? "s" : "");
    if (t->step > 0)
        put(p, "; <b>step %lld, loss %.4f</b>, %s tokens/s, %.3g s a step", (long long)t->step, t->loss,
            tess_format_count(t->tokens_per_s, text, sizeof(text)), t->step_s);
    put(p, "</p>\n");
}

static void put_wait(live_pen *p, const tess_top_snapshot *s, const tess_top_totals *t)
{
    char operation[160], waited[16], why[JOB_WHY_BYTES];
    if (t->is_halted) {
        put(p, "<p class=\"warn\"><b>All ranks are stopped.</b> kill -CONT with the pids below lets them go on.</p>\n");
        return;
    }
    if (t->culprit < 0 || t->waited_s < long_wait_s) {
        put(p, "<p class=\"note\">No rank keeps others waiting.</p>\n");
        return;
    }
    const tess_board_copy *waiter = &s->ranks[t->waiter].board;
    put(p, "<p class=\"warn\"><b>Rank %d keeps %d rank%s waiting for %s</b>: ", t->culprit, t->n_waiting,
        t->n_waiting > 1 ? "s" : "", tess_top_seconds(t->waited_s, waited, sizeof(waited)));
    put_text(p, tess_top_why(&s->ranks[t->culprit], why, sizeof(why)));
    put(p, "; in ");
    put_text(p, tess_top_operation(&waiter->wait_op, waiter->wait_team, operation, sizeof(operation)));
    put(p, "</p>\n");
}

static void put_state(live_pen *p, const dash_job *job, const tess_top_totals *t)
{
    char text[JOB_ERROR_BYTES + 512], age[16];
    const tess_top_snapshot *s = job->now;
    tess_top_ending(s, text, sizeof(text));
    if (text[0] == '\0') {
        put_wait(p, s, t);
    } else {
        put(p, "<p class=\"%s\"><b>", s->cause >= 0 ? "warn" : "note");
        put_text(p, text);
        put(p, "</b></p>\n");
    }
    if (s->health[0] != '\0') {
        put(p, "<p class=\"warn\">The host is ");
        put_text(p, s->health);
        put(p, "</p>\n");
    }
    if (s->reported.text[0] == '\0')
        return;
    put(p, "<p class=\"note\">%s ago", tess_top_seconds(s->reported_age_s, age, sizeof(age)));
    if (s->reported.step >= 0)
        put(p, ", step %lld", (long long)s->reported.step);
    put(p, ": ");
    put_text(p, s->reported.text);
    put(p, "</p>\n");
}

/* ---- The ranks ---- */
/* Puts a bar with a part for each phase; colours repeat in the legend. */
static void put_bar(live_pen *p, const tess_top_rank *now, const tess_top_rank *before)
{
    double share[TESS_PHASE_COUNT], at = 0;
    put(p, "<td>");
    if (!tess_top_shares(now, before, share))
        return;
    put(p, "<svg class=\"stack\" viewBox=\"0 0 %d 12\" width=\"%d\" height=\"12\" role=\"img\"><title>", BAR, BAR);
    for (int i = 0; i < TESS_PHASE_COUNT; i++)
        if (share[i] >= 0.005)
            put(p, "%s %.0f%% ", tess_phase_name((tess_phase)i), 100 * share[i]);
    put(p, "</title>");
    for (int i = 0; i < TESS_PHASE_COUNT; at += share[i++])
        put(p, "<rect class=\"f%d\" x=\"%.1f\" width=\"%.1f\" height=\"12\"/>", i, at * BAR, share[i] * BAR);
    put(p, "</svg>");
}

static void put_waited(live_pen *p, const tess_top_snapshot *s, int rank)
{
    char text[128], label[32], seconds[16];
    const tess_board_copy *b = &s->ranks[rank].board;
    int first;
    const int n = tess_top_missing(s, rank, &first);
    if (n == 0) {
        put(p, "<td><td class=\"n\">");
        return;
    }
    put(p, "<td>rank %d", first);
    if (n > 1)
        put(p, " and %d other%s", n - 1, n > 2 ? "s" : "");
    tess_label_text(b->wait_op.label, label, sizeof(label));
    snprintf(text, sizeof(text), ", %s %s", tess_trace_op_name(b->wait_op.kind), label);
    put_text(p, text);
    put_cell(p, "n", tess_top_seconds((double)b->wait_age_ns * 1e-9, seconds, sizeof(seconds)));
}

static void put_rank(live_pen *p, const dash_job *job, int rank, bool is_culprit)
{
    char text[256];
    const tess_top_snapshot *s = job->now;
    const tess_top_rank *r = &s->ranks[rank];
    put(p, is_culprit ? "<tr class=\"late\"><th>%d" : "<tr><th>%d", rank);
    if (s->n_hosts > 1)
        put_cell(p, "", r->host);
    if (s->places.n_axes > 0)
        put_cell(p, "", tess_place_text(&s->places, rank, text, sizeof(text)));
    put(p, "<td class=\"n\">%d", r->board.pid);
    put_cell(p, "", tess_top_state(r, text, sizeof(text)));
    put_cell(p, "", tess_top_phase(r, text, sizeof(text)));
    put(p, "<td class=\"n\">%lld", (long long)r->board.step);
    put_waited(p, s, rank);
    put_cell(p, "n", r->rss_bytes >= 0 ? tess_top_bytes((double)r->rss_bytes, text, sizeof(text)) : "");
    put_cell(p, "", tess_top_pools(r, text, sizeof(text)));
    put_bar(p, r, job->before != NULL && job->before->world == s->world ? &job->before->ranks[rank] : NULL);
    put(p, "\n");
}

static void put_ranks(live_pen *p, const dash_job *job, const tess_top_totals *t)
{
    const tess_top_snapshot *s = job->now;
    put(p, "<div class=\"scroll\"><table class=\"now\"><thead><tr><th>rank");
    if (s->n_hosts > 1)
        put(p, "<th>host");
    if (s->places.n_axes > 0)
        put(p, "<th>place");
    put(p, "<th>process<th>state<th>phase<th>step<th>waits for<th>since<th>resident<th>memory by pool<th>the "
           "step</thead><tbody>\n");
    for (int r = 0; r < s->world && r < MOST_ROWS; r++)
        put_rank(p, job, r, r == t->culprit && t->waited_s >= long_wait_s);
    put(p, "</tbody></table></div>\n");
    if (s->world > MOST_ROWS)
        put(p, "<p class=\"note\">%d more ranks are not shown: `tessera top` shows them.</p>\n", s->world - MOST_ROWS);
}

static void put_legend(live_pen *p)
{
    put(p, "<ul class=\"legend\">");
    for (int i = 0; i < TESS_PHASE_COUNT; i++)
        put(p, "<li><svg class=\"key\" viewBox=\"0 0 12 10\"><rect class=\"f%d\" width=\"12\" height=\"10\"/></svg> %s",
            i, tess_phase_name((tess_phase)i));
    put(p, "</ul>\n");
}

static void put_job(live_pen *p, const dash_job *job)
{
    char age[16];
    put(p, "<h3>");
    put_text(p, job->folder);
    put(p, "</h3>\n");
    if (!job->has_folder)
        put(p, "<p class=\"warn\">The folder does not exist any more.</p>\n");
    if (job->now == NULL) {
        put(p, "<p class=\"note\">No job that runs on this machine writes here.</p>\n");
        return;
    }
    const tess_top_totals t = tess_top_sum(job->now, job->before);
    if (job->gone_s > 0)
        put(p, "<p class=\"note\">The job ended %s ago. This is what its ranks did last:</p>\n",
            tess_top_seconds(tess_os_now_s() - job->gone_s, age, sizeof(age)));
    put_progress(p, job->now, &t);
    put_state(p, job, &t);
    put_ranks(p, job, &t);
}

tess_status dash_put_live(const tess_dash *dash, tess_buffer *out)
{
    live_pen p = {.out = out};
    bool has_ranks = false;
    put(&p, "<section id=\"live\"><h2>Now</h2>\n");
    for (int i = 0; i < dash->n; i++) {
        put_job(&p, &dash->jobs[i]);
        has_ranks = has_ranks || dash->jobs[i].now != NULL;
    }
    if (has_ranks)
        put_legend(&p);
    put(&p, "</section>\n");
    return p.status;
}
