/* Sections that show what ranks did: collectives, and time lines of a step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "page/page_impl.h"
#include "page/page_plot.h"
#include "tessera/clock.h"

/* ---- Collectives ---- */
bool page_has_collectives(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        if (page->runs[r].rings.n_collectives > 0)
            return true;
    return false;
}

static double most_of(const page_rings *rings, bool bytes)
{
    double most = 0;
    for (int i = 0; i < rings->n_collectives; i++)
        most = fmax(most, bytes ? rings->collectives[i].bytes
                                : rings->collectives[i].waited_s + rings->collectives[i].moved_s);
    return most;
}

/* Puts a cell with a bar of up to two parts, as fractions of the cell. */
static void put_bar(page_out *out, double first, double second, const char *text)
{
    page_put(out,
             "<td class=\"n\">%s<svg class=\"bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" "
             "aria-hidden=\"true\"><rect class=\"f0\" width=\"%.2f\" height=\"6\"/><rect class=\"f1\" x=\"%.2f\" "
             "width=\"%.2f\" height=\"6\"/></svg></td>",
             text, 100 * first, 100 * first, 100 * second);
}

static void put_collective(page_out *out, const page_rings *rings, const page_collective *c)
{
    char bytes[40], moved[40], waited[40], both[100];
    const double most_bytes = most_of(rings, true), most_s = most_of(rings, false);
    page_put(out, "<tr><th scope=\"row\">");
    page_put_some(out, c->team, 32);
    page_put(out, "</th><td class=\"t\">%s</td><td class=\"n\">%lld</td>", tess_trace_op_name(c->op), (long long)c->n);
    put_bar(out, most_bytes > 0 ? c->bytes / most_bytes : 0, 0, tess_format_bytes(c->bytes, bytes, sizeof(bytes)));
    snprintf(both, sizeof(both), "%s / %s", page_measure(c->moved_s, "s", moved, sizeof(moved)),
             page_measure(c->waited_s, "s", waited, sizeof(waited)));
    put_bar(out, most_s > 0 ? c->moved_s / most_s : 0, most_s > 0 ? c->waited_s / most_s : 0, both);
    page_put(out, "</tr>\n");
}

/* Puts the rows, those that took longest first. */
static void put_collectives(page_out *out, const page_rings *rings)
{
    bool done[PAGE_COLLECTIVES] = {false};
    page_put(out,
             "<p class=\"note\">newest operations of %d of %d rank%s, of steps %lld to %lld; waits are for the last "
             "rank to come</p>\n",
             rings->n_ranks, rings->world, rings->world == 1 ? "" : "s", (long long)rings->first_step,
             (long long)rings->last_step);
    page_put(out,
             "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">axis</th><th scope=\"col\">"
             "operation</th><th scope=\"col\">number</th><th scope=\"col\">bytes</th><th scope=\"col\">time: moving / "
             "waiting</th></tr></thead><tbody>\n");
    for (int i = 0; i < rings->n_collectives; i++) {
        int longest = -1;
        for (int k = 0; k < rings->n_collectives; k++) {
            const page_collective *c = &rings->collectives[k], *l = longest >= 0 ? &rings->collectives[longest] : NULL;
            if (!done[k] && (l == NULL || c->moved_s + c->waited_s > l->moved_s + l->waited_s))
                longest = k;
        }
        done[longest] = true;
        put_collective(out, rings, &rings->collectives[longest]);
    }
    page_put(out, "</tbody></table></div>\n");
}

void page_put_collectives(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++)
        if (page->runs[r].rings.n_collectives > 0) {
            page_put_run_name(page, &page->runs[r], out);
            put_collectives(out, &page->runs[r].rings);
        }
}

/* ---- Time lines ---- */
enum { MOST_ROWS = 32, MOST_BARS = 4000 };

static const char *rank_name(int row, char text[32])
{
    snprintf(text, 32, "rank %d", row);
    return text;
}

static int kind_of(page_timeline *t, const char *name)
{
    for (int i = 0; i < t->n_kinds; i++)
        if (strcmp(t->kinds[i], name) == 0)
            return i;
    if (t->n_kinds == PAGE_PARTS)
        return -1;
    t->kinds[t->n_kinds] = name;
    return t->n_kinds++;
}

/* Takes a computation of the pipeline's file: {"ph": "X", "pid": RANK, "name": "F 3", "ts": US, "dur": US}. The name
 * is cut in *kind (a text of `names`) and the number of the micro-batch. */
static bool take_event(const json_t *event, char names[PAGE_PARTS][16], page_timeline *t, page_bar *bar)
{
    const double rank = page_member(event, "pid"), begin = page_member(event, "ts"), length = page_member(event, "dur");
    const char *name = page_string(event, "name"), *space = strchr(name, ' ');
    char kind[16];
    if (strcmp(page_string(event, "ph"), "X") != 0 || !(rank >= 0 && rank < MOST_ROWS) || !(begin >= 0) ||
        !(length >= 0) || begin > 1e15 || length > 1e15)
        return false;
    snprintf(kind, sizeof(kind), "%.*s", space != NULL ? (int)(space - name) : 15, name);
    if (t->n_kinds < PAGE_PARTS)
        memcpy(names[t->n_kinds], kind, sizeof(kind));
    *bar = (page_bar){.row = (int)rank, .begin = begin * 1e-6, .end = (begin + length) * 1e-6};
    for (bar->kind = 0; bar->kind < t->n_kinds && strcmp(names[bar->kind], kind) != 0;)
        bar->kind++;
    if (bar->kind == PAGE_PARTS)
        return false;
    if (bar->kind == t->n_kinds)
        t->kinds[t->n_kinds] = names[t->n_kinds], t->n_kinds++;
    snprintf(bar->label, sizeof(bar->label), "%s", space != NULL ? space + 1 : "");
    return true;
}

static tess_status put_pipeline(const tess_run_page *page, const page_run *run, page_out *out)
{
    size_t i;
    json_t *event;
    char names[PAGE_PARTS][16], title[128];
    TESS_AUTO(tess_mem_drop) page_bar *bars = NULL;
    page_timeline t = {.title = title, .row_name = rank_name};
    TESS_TRY(TESS_NEW(page->mem, MOST_BARS, "bars of a time line", &bars));
    json_array_foreach (json_object_get(run->pipeline, "traceEvents"), i, event)
        if (t.n_bars < MOST_BARS && take_event(event, names, &t, &bars[t.n_bars])) {
            t.n_rows = bars[t.n_bars].row >= t.n_rows ? bars[t.n_bars].row + 1 : t.n_rows;
            t.n_bars++;
        }
    long long step = 0;
    sscanf(run->pipeline_name, "pipeline/step-%lld", &step);
    snprintf(title, sizeof(title), "pipeline of step %lld: computations with the numbers of their micro-batches", step);
    t.bars = bars;
    if (t.n_bars > 0)
        page_put_timeline_picture(out, &t);
    return TESS_OK;
}

static tess_status put_phases(const tess_run_page *page, const page_rings *rings, page_out *out)
{
    char title[128];
    TESS_AUTO(tess_mem_drop) page_bar *bars = NULL;
    page_timeline t = {.title = title, .row_name = rank_name};
    TESS_TRY(TESS_NEW(page->mem, rings->n_spans, "bars of a time line", &bars));
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) /* each has the same colour as in the times of steps */
        kind_of(&t, tess_phase_name((tess_phase)phase));
    for (int i = 0; i < rings->n_spans; i++) {
        const page_span *span = &rings->spans[i];
        const int kind = kind_of(&t, rings->phases[span->phase]);
        if (kind < 0)
            continue;
        bars[t.n_bars++] = (page_bar){.row = span->rank, .kind = kind, .begin = span->begin_s, .end = span->end_s};
        t.n_rows = span->rank >= t.n_rows ? span->rank + 1 : t.n_rows;
    }
    t.bars = bars;
    snprintf(title, sizeof(title), "phases of step %lld on %s", (long long)rings->step,
             rings->n_ranks < rings->world ? "the first ranks" : "each rank");
    page_put_timeline_picture(out, &t);
    return TESS_OK;
}

static bool has_timeline(const page_run *run)
{
    return run->rings.n_spans > 0 || json_array_size(json_object_get(run->pipeline, "traceEvents")) > 0;
}

bool page_has_timeline(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        if (has_timeline(&page->runs[r]))
            return true;
    return false;
}

void page_put_timeline(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++) {
        const page_run *run = &page->runs[r];
        if (!has_timeline(run))
            continue;
        page_put_run_name(page, run, out);
        tess_status status = put_pipeline(page, run, out);
        if (status == TESS_OK && run->rings.n_spans > 0)
            status = put_phases(page, &run->rings, out);
        if (out->status == TESS_OK)
            out->status = status;
    }
}
