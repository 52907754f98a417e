/* Line plots. */
#include <math.h>
#include <string.h>

#include "page/page_axis.h"
#include "page/page_plot.h"

/* The area of the curves inside a picture of WIDTH x HEIGHT. The page's script has the same numbers in data-box. */
enum {
    WIDTH = 400,
    HEIGHT = 210,
    LEFT = 54,
    LEFT_MOST = 110,
    RIGHT = 378,
    TOP = 8,
    BOTTOM = 172,
    X_TICKS = 5,
    Y_TICKS = 5
};

static const double log_from = 1e3;

typedef struct axes {
    page_axis x, y;
    int left; /* left end of the curves' area: labels of the y axis stand before it */
} axes;

void page_begin_figure(page_out *out, const char *class, const char *title)
{
    out->n_pictures++;
    page_put(out, "<figure class=\"%s\"><figcaption>", class);
    page_put_text(out, title);
    page_put(out, "</figcaption>\n");
}

/* Writes the label of tick i of n. */
static const char *label(const page_axis *axis, const double *ticks, int n, int i, char text[PAGE_TICK_TEXT])
{
    return page_tick_text(ticks[i], axis->is_log ? 0 : n > 1 ? ticks[1] - ticks[0] : 0, text);
}

/* Makes room for the widest label. */
static int left_of(const page_axis *axis)
{
    double ticks[PAGE_TICKS];
    char text[PAGE_TICK_TEXT];
    size_t most = 0;
    const int n = page_axis_ticks(axis, Y_TICKS, false, ticks);
    for (int i = 0; i < n; i++) {
        const size_t size = strlen(label(axis, ticks, n, i, text));
        most = size > most ? size : most;
    }
    const int room = 12 + 8 * (int)most;
    return room < LEFT ? LEFT : room < LEFT_MOST ? room : LEFT_MOST;
}

static const char *x_name_of(const page_plot *plot)
{
    return plot->x_name != NULL ? plot->x_name : "step";
}

/* Finds the ranges of all lines. Returns false if no line has a finite value. */
static bool find_axes(const page_plot *plot, axes *a)
{
    bool any = false;
    double low = 0, high = 0;
    int64_t first = 0, last = 0;
    for (int i = 0; i < plot->n; i++) {
        double l, h;
        int64_t f, t;
        if (!page_series_range(plot->lines[i].series, &l, &h, &f, &t))
            continue;
        low = !any || l < low ? l : low;
        high = !any || h > high ? h : high;
        first = !any || f < first ? f : first;
        last = !any || t > last ? t : last;
        any = true;
    }
    a->x = page_axis_between((double)first, (double)last);
    a->y = page_axis_around(low, high, plot->may_be_log && low > 0 && high / low > log_from);
    a->left = left_of(&a->y);
    return any;
}

static double x_at(const axes *a, double step)
{
    return a->left + page_axis_place(&a->x, step) * (RIGHT - a->left);
}

static double y_at(const axes *a, double value)
{
    return BOTTOM - page_axis_place(&a->y, value) * (BOTTOM - TOP);
}

static void put_grid(page_out *out, const axes *a, const char *x_name)
{
    double ticks[PAGE_TICKS];
    char text[PAGE_TICK_TEXT];
    page_put(out, "<g class=\"grid\">");
    int n = page_axis_ticks(&a->y, Y_TICKS, false, ticks);
    for (int i = 0; i < n; i++) {
        const double y = y_at(a, ticks[i]);
        page_put(out, "<path d=\"M%d %.1fH%d\"/><text class=\"y\" x=\"%d\" y=\"%.1f\">%s</text>", a->left, y, RIGHT,
                 a->left - 5, y + 4,
                 page_tick_text(ticks[i],
                                a->y.is_log ? 0
                                : n > 1     ? ticks[1] - ticks[0]
                                            : 0,
                                text));
    }
    n = page_axis_ticks(&a->x, X_TICKS, true, ticks);
    for (int i = 0; i < n; i++)
        page_put(out, "<path d=\"M%.1f %dV%d\"/><text class=\"x\" x=\"%.1f\" y=\"%d\">%s</text>", x_at(a, ticks[i]),
                 BOTTOM, BOTTOM + 4, x_at(a, ticks[i]), BOTTOM + 17,
                 page_tick_text(ticks[i], n > 1 ? ticks[1] - ticks[0] : 1, text));
    page_put(out, "</g><text class=\"x\" x=\"%d\" y=\"%d\">%s</text>\n", (a->left + RIGHT) / 2, BOTTOM + 33, x_name);
}

/* ---- Curves ---- */
/* A curve as a polyline between gaps. A lone value is a mark. */
typedef struct plot_pen {
    page_out *out;
    const axes *axes;
    bool marks;
    int n; /* points of the open polyline */
    double x, y;
} plot_pen;

static void lift(plot_pen *p)
{
    if (p->n > 1)
        page_put(p->out, "\"/>");
    if (p->n == 1 && !p->marks)
        page_put(p->out, "<circle r=\"3\" cx=\"%.2f\" cy=\"%.2f\"/>", p->x, p->y);
    p->n = 0;
}

static void draw(plot_pen *p, double step, double value)
{
    const double x = x_at(p->axes, step), y = y_at(p->axes, value);
    if (!isfinite(x) || !isfinite(y))
        return lift(p);
    if (p->n == 1) {
        page_put(p->out, "<polyline points=\"");
        page_put_at(p->out, p->x);
        page_put(p->out, ",");
        page_put_at(p->out, p->y);
    }
    if (p->n > 0) {
        page_put(p->out, " ");
        page_put_at(p->out, x);
        page_put(p->out, ",");
        page_put_at(p->out, y);
    }
    p->n++;
    p->x = x;
    p->y = y;
}

static void draw_bucket(plot_pen *p, const page_bucket *b)
{
    if (b->n == 0)
        return lift(p);
    const bool low_first = b->low_at <= b->high_at;
    draw(p, (double)(low_first ? b->low_at : b->high_at), low_first ? b->low : b->high);
    if (b->low_at != b->high_at)
        draw(p, (double)(low_first ? b->high_at : b->low_at), low_first ? b->high : b->low);
}

static void put_marks(page_out *out, const axes *a, const page_line *line)
{
    for (size_t i = 0; i < line->series->n && line->series->n <= 64; i++) {
        const page_bucket *b = &line->series->buckets[i];
        if (b->n > 0 && isfinite(y_at(a, b->low)))
            page_put(out, "<circle r=\"3\" cx=\"%.2f\" cy=\"%.2f\"/>", x_at(a, (double)b->low_at), y_at(a, b->low));
    }
}

/* Marks at the axis, where values are not finite. */
static void put_gaps(page_out *out, const axes *a, const page_series *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const double x = s->buckets[i].n_bad > 0 ? x_at(a, (double)s->buckets[i].first) : NAN;
        if (x >= a->left && x <= RIGHT)
            page_put(out, "<path class=\"bad\" d=\"M%.1f %dl-3 6h6z\"/>", x, BOTTOM - 6);
    }
}

static void put_line(page_out *out, const axes *a, const page_line *line)
{
    plot_pen p = {out, a, line->marks && line->series->n <= 64, 0, 0, 0};
    page_put(out, "<g class=\"c%d d%d\" data-label=\"", line->colour % PAGE_COLOURS, line->dash % 4);
    page_put_some(out, line->label, 80);
    page_put(out, "\">");
    for (size_t i = 0; i < line->series->n; i++)
        draw_bucket(&p, &line->series->buckets[i]);
    if (p.n > 0 && x_at(a, (double)line->series->last_at) > p.x)
        draw(&p, (double)line->series->last_at, line->series->last);
    lift(&p);
    if (p.marks)
        put_marks(out, a, line);
    if (line->series->n_bad > 0)
        put_gaps(out, a, line->series);
    page_put(out, "</g>\n");
}

static void put_legend(page_out *out, const page_plot *plot)
{
    char text[40];
    int64_t n_bad = 0;
    page_put(out, "<ul class=\"legend\">");
    for (int i = 0; i < plot->n; i++) {
        const page_line *line = &plot->lines[i];
        page_put(out,
                 "<li><svg class=\"key c%d d%d\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">"
                 "<path d=\"M1 5H25\"/>%s</svg> ",
                 line->colour % PAGE_COLOURS, line->dash % 4,
                 line->marks ? "<circle r=\"3\" cx=\"13\" cy=\"5\"/>" : "");
        page_put_some(out, line->label, 80);
        page_put(out, " <b>%s</b></li>", page_number(line->series->last, text, sizeof(text)));
        n_bad += line->series->n_bad;
    }
    page_put(out, "</ul>");
    if (n_bad > 0)
        page_put(out, "<p class=\"note\">%lld value%s not finite (NaN or infinite): triangles at the axis</p>",
                 (long long)n_bad, n_bad == 1 ? " is" : "s are");
}

static void put_description(page_out *out, const page_plot *plot, const axes *a)
{
    char first[40], last[40], value[40];
    page_put(out, "<title id=\"%s-%dt\">", out->section, out->n_pictures);
    page_put_text(out, plot->title);
    page_put(out, "</title><desc id=\"%s-%dd\">%s %s to %s. Newest values: ", out->section, out->n_pictures,
             x_name_of(plot), page_number(a->x.from, first, sizeof(first)), page_number(a->x.to, last, sizeof(last)));
    for (int i = 0; i < plot->n; i++) {
        page_put(out, i > 0 ? ", " : "");
        page_put_some(out, plot->lines[i].label, 80);
        page_put(out, " %s", page_number(plot->lines[i].series->last, value, sizeof(value)));
    }
    page_put(out, "</desc>");
}

void page_put_plot(page_out *out, const page_plot *plot)
{
    axes a;
    const bool any = find_axes(plot, &a);
    page_begin_figure(out, "plot", plot->title);
    if (any) {
        page_put(
            out,
            "<svg class=\"plot\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-%dt %s-%dd\" "
            "data-box=\"%d %d %d %d\" data-x=\"%.17g %.17g\" data-y=\"%.17g %.17g\" data-log=\"%d\" data-of=\"%s\">",
            WIDTH, HEIGHT, out->section, out->n_pictures, out->section, out->n_pictures, a.left, TOP, RIGHT, BOTTOM,
            a.x.from, a.x.to, a.y.from, a.y.to, a.y.is_log, x_name_of(plot));
        put_description(out, plot, &a);
        page_put(out, "<clipPath id=\"%s-%dc\"><path d=\"M%d %dH%dV%dH%dz\"/></clipPath>\n", out->section,
                 out->n_pictures, a.left - 4, TOP - 4, RIGHT + 4, BOTTOM + 4, a.left - 4);
        put_grid(out, &a, x_name_of(plot));
        page_put(out, "<g class=\"lines\" clip-path=\"url(#%s-%dc)\">\n", out->section, out->n_pictures);
        for (int i = 0; i < plot->n; i++)
            put_line(out, &a, &plot->lines[i]);
        page_put(out, "</g></svg>\n");
    }
    put_legend(out, plot);
    page_put(out, "</figure>\n");
}
