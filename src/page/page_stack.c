/* Stacked columns, and time lines of rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "page/page_axis.h"
#include "page/page_plot.h"

enum { WIDTH = 400, HEIGHT = 210, LEFT = 58, RIGHT = 378, TOP = 8, BOTTOM = 172, Y_TICKS = 5, X_LABELS = 5 };

const char *page_measure(double value, const char *unit, char *text, size_t size)
{
    if (!isfinite(value))
        snprintf(text, size, "-");
    else if (strcmp(unit, "B") == 0)
        tess_format_bytes(value, text, size);
    else if (value != 0 && fabs(value) < 1e-3)
        snprintf(text, size, "%.3g us", value * 1e6);
    else if (value != 0 && fabs(value) < 1)
        snprintf(text, size, "%.3g ms", value * 1e3);
    else if (fabs(value) < 1e4)
        snprintf(text, size, "%.3g s", value);
    else
        snprintf(text, size, "%.4g h", value / 3600);
    return text;
}

static double height_of(const page_stack *s, int column)
{
    double sum = 0;
    for (int part = 0; part < s->n_parts; part++)
        sum += isfinite(s->value[column][part]) ? s->value[column][part] : 0;
    return sum;
}

static page_axis y_axis(const page_stack *s)
{
    double most = 0;
    for (int c = 0; c < s->n_columns; c++) {
        most = fmax(most, height_of(s, c));
        most = isfinite(s->reference[c]) && s->reference_name != NULL ? fmax(most, s->reference[c]) : most;
    }
    return (page_axis){0, most > 0 ? most * 1.05 : 1, false};
}

/* Bytes have ticks at powers of two. */
static int y_ticks(const page_stack *s, const page_axis *axis, double ticks[PAGE_TICKS])
{
    if (strcmp(s->unit, "B") != 0)
        return page_axis_ticks(axis, Y_TICKS, false, ticks);
    double unit = 1;
    while (axis->to / unit >= 1024)
        unit *= 1024;
    const page_axis in_units = {0, axis->to / unit, false};
    const int n = page_axis_ticks(&in_units, Y_TICKS, false, ticks);
    for (int i = 0; i < n; i++)
        ticks[i] *= unit;
    return n;
}

static double y_at(const page_axis *axis, double value)
{
    return BOTTOM - page_axis_place(axis, value) * (BOTTOM - TOP);
}

static void put_grid(page_out *out, const page_stack *s, const page_axis *axis)
{
    double ticks[PAGE_TICKS];
    char text[40];
    const int n = y_ticks(s, axis, ticks);
    page_put(out, "<g class=\"grid\">");
    for (int i = 0; i < n; i++)
        page_put(out, "<path d=\"M%d %.1fH%d\"/><text class=\"y\" x=\"%d\" y=\"%.1f\">%s</text>", LEFT,
                 y_at(axis, ticks[i]), RIGHT, LEFT - 5, y_at(axis, ticks[i]) + 4,
                 ticks[i] == 0 ? "0" : page_measure(ticks[i], s->unit, text, sizeof(text)));
    const int every = (s->n_columns + X_LABELS - 1) / X_LABELS;
    const double width = (double)(RIGHT - LEFT) / s->n_columns;
    for (int c = 0; c<s->n_columns; c += every> 0 ? every : 1) {
        char tick[PAGE_TICK_TEXT];
        page_put(out, "<text class=\"x\" x=\"%.1f\" y=\"%d\">%s</text>", LEFT + (c + 0.5) * width, BOTTOM + 17,
                 page_tick_text(s->first[c], 1, tick));
    }
    page_put(out, "</g><text class=\"x\" x=\"%d\" y=\"%d\">%s</text>\n", (LEFT + RIGHT) / 2, BOTTOM + 33, s->x_name);
}

static void put_column(page_out *out, const page_stack *s, const page_axis *axis, int c)
{
    char text[40];
    double at = 0;
    const double width = (double)(RIGHT - LEFT) / s->n_columns, gap = width > 6 ? 1 : 0;
    const double x = LEFT + c * width;
    for (int part = 0; part < s->n_parts; part++) {
        const double value = s->value[c][part];
        if (!(value > 0) || !isfinite(value))
            continue;
        const double y = y_at(axis, at + value);
        page_put(out, "<rect class=\"f%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>%s %.0f", part,
                 x + gap / 2, y, width - gap, y_at(axis, at) - y, s->x_name, s->first[c]);
        if (s->last[c] > s->first[c])
            page_put(out, " to %.0f", s->last[c]);
        page_put(out, ": ");
        page_put_some(out, s->parts[part], 40);
        page_put(out, " %s</title></rect>", page_measure(value, s->unit, text, sizeof(text)));
        at += value;
    }
    if (s->reference_name != NULL && isfinite(s->reference[c]))
        page_put(out, "<path class=\"mark\" d=\"M%.2f %.2fh%.2f\"/>", x, y_at(axis, s->reference[c]), width);
    page_put(out, "\n");
}

/* Mean of the columns that have the part. */
static double mean_of(const page_stack *s, int part)
{
    double sum = 0;
    int n = 0;
    for (int c = 0; c < s->n_columns; c++)
        if (isfinite(s->value[c][part])) {
            sum += s->value[c][part];
            n++;
        }
    return n > 0 ? sum / n : NAN;
}

static void put_legend(page_out *out, const page_stack *s)
{
    char text[40];
    page_put(out, "<ul class=\"legend\">");
    for (int part = 0; part < s->n_parts; part++) {
        page_put(out,
                 "<li><svg class=\"key\" viewBox=\"0 0 12 10\" aria-hidden=\"true\"><rect class=\"f%d\" width=\"12\" "
                 "height=\"10\"/></svg> ",
                 part);
        page_put_some(out, s->parts[part], 40);
        page_put(out, " <b>%s</b></li>", page_measure(mean_of(s, part), s->unit, text, sizeof(text)));
    }
    if (s->reference_name != NULL)
        page_put(out,
                 "<li><svg class=\"key\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"mark\" d=\"M1 "
                 "5H25\"/></svg> %s</li>",
                 s->reference_name);
    page_put(out, "</ul>");
}

void page_put_stack(page_out *out, const page_stack *s)
{
    const page_axis axis = y_axis(s);
    page_begin_figure(out, "plot", s->title);
    page_put(out,
             "<svg class=\"stack\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-%dt %s-%dd\">"
             "<title id=\"%s-%dt\">",
             WIDTH, HEIGHT, out->section, out->n_pictures, out->section, out->n_pictures, out->section,
             out->n_pictures);
    page_put_text(out, s->title);
    page_put(out, "</title><desc id=\"%s-%dd\">%d columns of %d parts; the list below has their means</desc>\n",
             out->section, out->n_pictures, s->n_columns, s->n_parts);
    put_grid(out, s, &axis);
    for (int c = 0; c < s->n_columns; c++)
        put_column(out, s, &axis, c);
    page_put(out, "</svg>\n");
    put_legend(out, s);
    page_put(out, "</figure>\n");
}

/* ---- Time lines ---- */
enum { T_WIDTH = 960, T_LEFT = 84, T_RIGHT = 924, T_TOP = 6, T_ROW = 24, T_BAR = 20, T_TICKS = 10 };

static void put_time_axis(page_out *out, const page_axis *axis, int bottom)
{
    double ticks[PAGE_TICKS];
    char text[40];
    const int n = page_axis_ticks(axis, T_TICKS, false, ticks);
    page_put(out, "<g class=\"grid\">");
    for (int i = 0; i < n; i++) {
        const double x = T_LEFT + page_axis_place(axis, ticks[i]) * (T_RIGHT - T_LEFT);
        page_put(out, "<path d=\"M%.1f %dV%d\"/><text class=\"x\" x=\"%.1f\" y=\"%d\">%s</text>", x, T_TOP, bottom, x,
                 bottom + 16, ticks[i] == 0 ? "0" : page_measure(ticks[i], "s", text, sizeof(text)));
    }
    page_put(out, "</g>\n");
}

static void put_bar(page_out *out, const page_timeline *t, const page_axis *axis, const page_bar *bar)
{
    char text[40], name[32];
    const double x = T_LEFT + page_axis_place(axis, bar->begin) * (T_RIGHT - T_LEFT);
    const double width = page_axis_place(axis, bar->end - bar->begin + axis->from) * (T_RIGHT - T_LEFT);
    const int y = T_TOP + bar->row * T_ROW, n = (int)strlen(bar->label);
    page_put(out, "<rect class=\"f%d\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>", bar->kind, x, y,
             width, T_BAR);
    page_put_text(out, t->row_name(bar->row, name));
    page_put(out, ": ");
    page_put_some(out, t->kinds[bar->kind], 40);
    page_put(out, bar->label[0] != '\0' ? " " : "");
    page_put_text(out, bar->label);
    page_put(out, " %s</title></rect>", page_measure(bar->end - bar->begin, "s", text, sizeof(text)));
    if (n == 0 || width < 8 + 7 * n)
        return;
    page_put(out, "<text class=\"in\" x=\"%.2f\" y=\"%d\">", x + width / 2, y + 14);
    page_put_text(out, bar->label);
    page_put(out, "</text>\n");
}

static bool has_kind(const page_timeline *t, int kind)
{
    for (int i = 0; i < t->n_bars; i++)
        if (t->bars[i].kind == kind)
            return true;
    return false;
}

void page_put_timeline_picture(page_out *out, const page_timeline *t)
{
    char name[32];
    double end = 0;
    const int bottom = T_TOP + t->n_rows * T_ROW;
    for (int i = 0; i < t->n_bars; i++)
        end = fmax(end, t->bars[i].end);
    const page_axis axis = {0, end > 0 ? end : 1, false};
    page_begin_figure(out, "timeline", t->title);
    page_put(out,
             "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"time line, scrolls sideways\">"
             "<svg class=\"stack\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-%dt\"><title id=\"%s-%dt\">",
             T_WIDTH, bottom + 24, out->section, out->n_pictures, out->section, out->n_pictures);
    page_put_text(out, t->title);
    page_put(out, "</title>\n");
    put_time_axis(out, &axis, bottom);
    for (int row = 0; row < t->n_rows; row++) {
        page_put(out, "<text class=\"y\" x=\"%d\" y=\"%d\">", T_LEFT - 6, T_TOP + row * T_ROW + 14);
        page_put_text(out, t->row_name(row, name));
        page_put(out, "</text>");
    }
    for (int i = 0; i < t->n_bars; i++)
        put_bar(out, t, &axis, &t->bars[i]);
    page_put(out, "</svg></div>\n<ul class=\"legend\">");
    for (int kind = 0; kind < t->n_kinds; kind++) {
        if (!has_kind(t, kind))
            continue;
        page_put(out,
                 "<li><svg class=\"key\" viewBox=\"0 0 12 10\" aria-hidden=\"true\"><rect class=\"f%d\" width=\"12\" "
                 "height=\"10\"/></svg> ",
                 kind);
        page_put_some(out, t->kinds[kind], 40);
        page_put(out, "</li>");
    }
    page_put(out, "</ul></figure>\n");
}
