#include "doctor/top/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "doctor/top/top_facts.h"
#include "trace/label.h"

enum { BAR_LEAST = 10, BAR_MOST = 40, BAR_WITHOUT_LIMIT = 24, ALL_COLUMNS = 10000 };

static const double long_wait_s = 0.25; /* shorter waits are normal in a collective */
static const char phase_letters[TESS_PHASE_COUNT + 1] = "oDGFBRU.";

/* The state of drawing. A page is drawn line by line, and each line is cut at the terminal's width. */
typedef struct pen {
    const tess_top_canvas *canvas;
    const tess_top_snapshot *now, *before;
    tess_top_totals totals;
    int width, column;
} pen;

/* Returns the number of bytes of the first `columns` characters. */
static size_t cut(const char *text, int columns)
{
    size_t i = 0;
    for (; text[i] != '\0'; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80 && columns-- <= 0)
            break;
    return i;
}

__attribute__((format(printf, 3, 4))) static void put(pen *p, tess_top_style style, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    text[cut(text, p->width - p->column)] = '\0';
    if (text[0] == '\0')
        return;
    p->column += tess_utf8_count(text, strlen(text));
    p->canvas->put(p->canvas->self, style, text);
}

static void end_line(pen *p)
{
    p->canvas->end_line(p->canvas->self);
    p->column = 0;
}

/* ---- Columns ---- */
typedef tess_top_style fill_cell(const pen *p, int rank, char *text, size_t size);

static tess_top_style fill_rank(const pen *p, int rank, char *text, size_t size)
{
    snprintf(text, size, "%d", rank);
    return rank == p->totals.culprit && p->totals.waited_s >= long_wait_s ? TESS_TOP_BAD : TESS_TOP_STRONG;
}

static tess_top_style fill_host(const pen *p, int rank, char *text, size_t size)
{
    snprintf(text, size, "%s", p->now->ranks[rank].host);
    return TESS_TOP_PLAIN;
}

static tess_top_style fill_place(const pen *p, int rank, char *text, size_t size)
{
    tess_place_text(&p->now->places, rank, text, size);
    return TESS_TOP_PLAIN;
}

static tess_top_style fill_pid(const pen *p, int rank, char *text, size_t size)
{
    snprintf(text, size, "%d", p->now->ranks[rank].board.pid);
    return TESS_TOP_DIM;
}

static tess_top_style fill_state(const pen *p, int rank, char *text, size_t size)
{
    const tess_top_rank *r = &p->now->ranks[rank];
    tess_top_state(r, text, size);
    return r->board.state == JOB_RANK_LOST || tess_top_is_stopped(r) ? TESS_TOP_BAD
           : r->board.wait_age_ns > 0                                ? TESS_TOP_WARN
                                                                     : TESS_TOP_PLAIN;
}

static tess_top_style fill_phase(const pen *p, int rank, char *text, size_t size)
{
    tess_top_phase(&p->now->ranks[rank], text, size);
    return TESS_TOP_PLAIN;
}

static tess_top_style fill_step(const pen *p, int rank, char *text, size_t size)
{
    snprintf(text, size, "%lld", (long long)p->now->ranks[rank].board.step);
    return TESS_TOP_PLAIN;
}

static tess_top_style fill_wait(const pen *p, int rank, char *text, size_t size)
{
    const tess_board_copy *b = &p->now->ranks[rank].board;
    char label[32];
    int first, n = tess_top_missing(p->now, rank, &first);
    if (n == 0) {
        snprintf(text, size, "-");
        return TESS_TOP_DIM;
    }
    char others[16] = "";
    if (n > 1)
        snprintf(others, sizeof(others), "+%d", n - 1);
    tess_label_text(b->wait_op.label, label, sizeof(label));
    const char *name = tess_trace_op_name(b->wait_op.kind);
    int length = (int)(strstr(name, "_pieces") != NULL ? strstr(name, "_pieces") - name : (long)strlen(name));
    snprintf(text, size, "rank %d%s %.*s %s", first, others, length, name, label);
    return (double)b->wait_age_ns * 1e-9 >= long_wait_s ? TESS_TOP_WARN : TESS_TOP_PLAIN;
}

static tess_top_style fill_waited(const pen *p, int rank, char *text, size_t size)
{
    double seconds = (double)p->now->ranks[rank].board.wait_age_ns * 1e-9;
    if (seconds > 0)
        tess_top_seconds(seconds, text, size);
    else
        snprintf(text, size, "-");
    return seconds >= long_wait_s ? TESS_TOP_WARN : TESS_TOP_DIM;
}

/* Writes the rank's tokens per second: its share of the job's tokens, over its own time per step. */
static tess_top_style fill_tokens(const pen *p, int rank, char *text, size_t size)
{
    const tess_board_copy *b = &p->now->ranks[rank].board;
    double step_s = (double)b->step_ns * 1e-9;
    if (b->n_steps > 0 && step_s > 0)
        tess_format_count((double)b->n_tokens / (double)b->n_steps / p->now->world / step_s, text, size);
    else
        snprintf(text, size, "-");
    return TESS_TOP_PLAIN;
}

static tess_top_style fill_rss(const pen *p, int rank, char *text, size_t size)
{
    if (p->now->ranks[rank].rss_bytes >= 0)
        tess_top_bytes((double)p->now->ranks[rank].rss_bytes, text, size);
    else
        snprintf(text, size, "-");
    return TESS_TOP_PLAIN;
}

static tess_top_style fill_pools(const pen *p, int rank, char *text, size_t size)
{
    tess_top_pools(&p->now->ranks[rank], text, size);
    return TESS_TOP_PLAIN;
}

typedef struct column {
    const char *title;
    int width;
    int leaves; /* position in the order in which narrow pages drop columns; 0: never dropped */
    bool right;
    fill_cell *fill; /* NULL: the column shows the bar */
} column;

static const column columns[] = {{"rank", 4, 0, true, fill_rank},        {"host", 10, 4, false, fill_host},
                                 {"place", 23, 6, false, fill_place},    {"pid", 7, 2, true, fill_pid},
                                 {"state", 8, 0, false, fill_state},     {"phase", 13, 9, false, fill_phase},
                                 {"step", 7, 8, true, fill_step},        {"waits for", 31, 10, false, fill_wait},
                                 {"for", 6, 0, true, fill_waited},       {"tokens/s", 8, 3, true, fill_tokens},
                                 {"rss", 5, 5, true, fill_rss},          {"memory by pool", 53, 1, false, fill_pools},
                                 {"the step", BAR_LEAST, 7, false, NULL}};
enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

typedef struct page_layout {
    bool shown[N_COLUMNS];
    int bar; /* width of the bar */
} page_layout;

static int width_of(const page_layout *l)
{
    int width = -1;
    for (int c = 0; c < N_COLUMNS; c++)
        width += l->shown[c] ? columns[c].width + 1 : 0;
    return width;
}

static page_layout lay_out(const pen *p, bool limited)
{
    page_layout l;
    for (int c = 0; c < N_COLUMNS; c++)
        l.shown[c] = columns[c].fill == fill_host    ? p->now->n_hosts > 1
                     : columns[c].fill == fill_place ? p->now->places.n_axes > 0
                                                     : true;
    for (int turn = 1; limited && turn < N_COLUMNS && width_of(&l) > p->width; turn++)
        for (int c = 0; c < N_COLUMNS; c++)
            if (columns[c].leaves == turn)
                l.shown[c] = false;
    int rest = p->width - width_of(&l);
    l.bar = !limited ? BAR_WITHOUT_LIMIT : BAR_LEAST + (rest > 0 ? rest : 0);
    l.bar = l.bar < BAR_MOST ? l.bar : BAR_MOST;
    return l;
}

static void draw_bar(pen *p, int rank, int width)
{
    double share[TESS_PHASE_COUNT];
    int cells[TESS_PHASE_COUNT];
    if (!tess_top_shares(&p->now->ranks[rank], p->before != NULL ? &p->before->ranks[rank] : NULL, share)) {
        put(p, TESS_TOP_DIM, "-");
        return;
    }
    tess_top_cells(share, width, cells);
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
        char text[BAR_MOST + 1];
        memset(text, phase_letters[phase], (size_t)cells[phase]);
        text[cells[phase]] = '\0';
        put(p, (tess_top_style)(TESS_TOP_PHASE + phase), "%s", text);
    }
}

static void draw_cell(pen *p, const column *column, tess_top_style style, char *text)
{
    text[cut(text, column->width)] = '\0';
    int pad = column->width - tess_utf8_count(text, strlen(text));
    put(p, style, "%*s%s%*s ", column->right ? pad : 0, "", text, column->right ? 0 : pad, "");
}

static void draw_titles(pen *p, const page_layout *l)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        char title[32];
        if (!l->shown[c])
            continue;
        snprintf(title, sizeof(title), "%s", columns[c].title);
        draw_cell(p, &columns[c], TESS_TOP_DIM, title);
    }
    end_line(p);
}

static void draw_rank(pen *p, int rank, const page_layout *l)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        char text[256];
        if (!l->shown[c])
            continue;
        if (columns[c].fill == NULL) {
            draw_bar(p, rank, l->bar);
            continue;
        }
        tess_top_style style = columns[c].fill(p, rank, text, sizeof(text));
        draw_cell(p, &columns[c], style, text);
    }
    end_line(p);
}

/* ---- Above and below the ranks ---- */
static void draw_job(pen *p)
{
    char age[16], count[32];
    const tess_top_totals *t = &p->totals;
    put(p, TESS_TOP_STRONG, "%s", p->now->command[0] != '\0' ? p->now->command : "a job");
    end_line(p);
    put(p, TESS_TOP_PLAIN, "process %d, %d rank%s", p->now->pid, p->now->world, p->now->world > 1 ? "s" : "");
    if (p->now->n_hosts > 1)
        put(p, TESS_TOP_PLAIN, " on %d hosts", p->now->n_hosts);
    if (p->now->age_s > 0)
        put(p, TESS_TOP_PLAIN, ", started %s ago", tess_top_seconds(p->now->age_s, age, sizeof(age)));
    if (t->step > 0)
        put(p, TESS_TOP_PLAIN, "; step %lld, loss %.4f, %s tokens/s, %.3g s a step", (long long)t->step, t->loss,
            tess_format_count(t->tokens_per_s, count, sizeof(count)), t->step_s);
    if (p->now->health[0] != '\0')
        put(p, TESS_TOP_BAD, "; %s", p->now->health);
    end_line(p);
}

static void draw_wait(pen *p)
{
    char operation[160], waited[16], why[JOB_WHY_BYTES];
    const tess_top_totals *t = &p->totals;
    if (t->is_halted) {
        put(p, TESS_TOP_BAD, "all ranks are stopped: kill -CONT with the pids below lets them go on");
        end_line(p);
        return;
    }
    if (t->culprit < 0 || t->waited_s < long_wait_s) {
        put(p, TESS_TOP_DIM, "no rank keeps others waiting");
        end_line(p);
        return;
    }
    const tess_board_copy *waiter = &p->now->ranks[t->waiter].board;
    put(p, TESS_TOP_BAD, "rank %d keeps %d rank%s waiting for %s", t->culprit, t->n_waiting,
        t->n_waiting > 1 ? "s" : "", tess_top_seconds(t->waited_s, waited, sizeof(waited)));
    put(p, TESS_TOP_BAD, ": %s", tess_top_why(&p->now->ranks[t->culprit], why, sizeof(why)));
    put(p, TESS_TOP_WARN, "; in %s",
        tess_top_operation(&waiter->wait_op, waiter->wait_team, operation, sizeof(operation)));
    end_line(p);
}

/* Draws the newest report. Draws nothing if the report is about the wait shown above, or if the page has too few
 * lines. */
static bool draw_reported(pen *p, int height)
{
    enum { LOW = 6 };
    char age[16];
    const tess_notice *reported = &p->now->reported;
    bool is_shown = p->totals.waited_s >= long_wait_s && reported->rank == p->totals.culprit;
    if (reported->text[0] == '\0' || (height != 0 && height <= LOW) || (reported->kind == TESS_NOTICE_WAIT && is_shown))
        return false;
    put(p, TESS_TOP_DIM, "%s ago", tess_top_seconds(p->now->reported_age_s, age, sizeof(age)));
    if (reported->step >= 0)
        put(p, TESS_TOP_DIM, ", step %lld", (long long)reported->step);
    put(p, TESS_TOP_DIM, ": %s", reported->text);
    end_line(p);
    return true;
}

/* Returns the number of lines drawn. */
static int draw_head(pen *p, int height)
{
    char ending[JOB_ERROR_BYTES + 512];
    draw_job(p);
    tess_top_ending(p->now, ending, sizeof(ending));
    if (ending[0] == '\0') {
        draw_wait(p);
    } else {
        put(p, p->now->cause >= 0 ? TESS_TOP_BAD : TESS_TOP_STRONG, "%s", ending);
        end_line(p);
    }
    return draw_reported(p, height) ? 4 : 3;
}

static void draw_legend(pen *p)
{
    put(p, TESS_TOP_DIM, "the step: ");
    for (int phase = 1; phase <= TESS_PHASE_COUNT; phase++) {
        int i = phase % TESS_PHASE_COUNT; /* "other" comes last */
        put(p, (tess_top_style)(TESS_TOP_PHASE + i), "%c", phase_letters[i]);
        put(p, TESS_TOP_DIM, " %s ", tess_phase_name((tess_phase)i));
    }
    end_line(p);
}

/* Draws the numbers of the newest step, as metrics.jsonl names them. */
static void draw_metrics(pen *p)
{
    const char *key, *separator = "";
    json_t *value;
    put(p, TESS_TOP_DIM, "metrics: ");
    json_object_foreach (p->now->metrics, key, value) {
        put(p, TESS_TOP_PLAIN, "%s%s %.6g", separator, key, json_number_value(value));
        separator = ", ";
    }
    end_line(p);
}

static int count_pools(const tess_top_memory *m)
{
    int n = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT && m->n > 1; pool++)
        n += m->bytes[pool][m->n - 1] > 0;
    return n;
}

/* Draws one line per pool, from the newest lines of memory.jsonl. */
static void draw_memory(pen *p)
{
    const tess_top_memory *m = &p->now->memory;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        char spark[TESS_TOP_SPARK], bytes[16];
        double now = m->bytes[pool][m->n - 1];
        if (now == 0)
            continue;
        put(p, TESS_TOP_DIM, "%-12s", tess_pool_name((tess_pool)pool));
        put(p, TESS_TOP_PLAIN, "%5s ", tess_top_bytes(now, bytes, sizeof(bytes)));
        put(p, TESS_TOP_PLAIN, "%s", tess_top_spark(m->bytes[pool], m->n, spark));
        end_line(p);
    }
}

int tess_top_draw(const tess_top_snapshot *now, const tess_top_snapshot *before, const tess_top_size *size,
                  const tess_top_canvas *canvas)
{
    bool limited = size->width > 0;
    pen p = {.canvas = canvas,
             .now = now,
             .before = before,
             .totals = tess_top_sum(now, before),
             .width = limited ? size->width : ALL_COLUMNS};
    page_layout l = lay_out(&p, limited);
    int rest = now->world;
    int head = draw_head(&p, size->height) + 1;
    bool legend = l.shown[N_COLUMNS - 1] && (size->height == 0 || size->height > head + 2);
    const int pools = count_pools(&now->memory);
    int below = pools + (now->metrics != NULL);
    if (size->height > 0) {
        rest = size->height - head - legend;
        below = rest - below >= now->world ? below : 0; /* these lines are left out unless all ranks fit */
        rest -= below;
    }
    draw_titles(&p, &l);
    for (int r = size->first_rank; r < now->world && r < size->first_rank + rest; r++)
        draw_rank(&p, r, &l);
    if (legend)
        draw_legend(&p);
    if (below > pools)
        draw_metrics(&p);
    if (below > 0 && pools > 0)
        draw_memory(&p);
    return rest > 0 ? rest : 0;
}

const char *tess_top_describe(const tess_top_snapshot *s, char *text, size_t size)
{
    char age[16], loss[32] = "";
    tess_top_totals t = tess_top_sum(s, NULL);
    if (t.step > 0)
        snprintf(loss, sizeof(loss), "loss %.4f", t.loss);
    snprintf(text, size, "%7d  %3d rank%s  %6s  step %-8lld %-12s  %s", s->pid, s->world, s->world > 1 ? "s" : " ",
             tess_top_seconds(s->age_s, age, sizeof(age)), (long long)t.step, loss, s->command);
    return text;
}
