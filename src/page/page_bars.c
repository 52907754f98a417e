#include "page/page_bars.h"

#include <math.h>

#include "page/page_axis.h"

enum { WIDTH = 400, LEFT = 116, RIGHT = 384, TOP = 6, ROW = 24, BAR = 18, TICKS = 3, NAME = 15 };

static double length_of(const page_bars *b, int row)
{
    double sum = 0;
    for (int part = 0; part < b->n_parts; part++)
        sum += b->value[row][part];
    return sum;
}

static page_axis axis_of(const page_bars *b)
{
    double most = 0;
    for (int row = 0; row < b->n_rows; row++)
        most = fmax(most, length_of(b, row));
    if (b->limit < 8 * most) /* a far limit would leave no room for the bars */
        most = fmax(most, b->limit);
    return (page_axis){0, most > 0 ? most * 1.04 : 1, false};
}

static double x_at(const page_axis *axis, double value)
{
    return LEFT + page_axis_place(axis, value) * (RIGHT - LEFT);
}

static void put_grid(page_out *out, const page_bars *b, const page_axis *axis, int bottom)
{
    char text[40];
    double ticks[PAGE_TICKS];
    double unit = 1;
    while (b->unit[0] == 'B' && axis->to / unit >= 1024)
        unit *= 1024;
    const page_axis in_units = {0, axis->to / unit, false};
    const int n = page_axis_ticks(&in_units, TICKS, false, ticks);
    page_put(out, "<g class=\"grid\">");
    for (int i = 0; i < n; i++) {
        const double x = x_at(axis, ticks[i] * unit);
        page_put(out, "<path d=\"M%.1f %dV%d\"/><text class=\"x\" x=\"%.1f\" y=\"%d\">%s</text>", x, TOP, bottom, x,
                 bottom + 16, ticks[i] == 0 ? "0" : page_measure(ticks[i] * unit, b->unit, text, sizeof(text)));
    }
    page_put(out, "</g>\n");
}

static void put_row(page_out *out, const page_bars *b, const page_axis *axis, int row)
{
    char text[40];
    const int y = TOP + row * ROW + 2;
    double at = 0;
    page_put(out, "<text class=\"y\" x=\"%d\" y=\"%d\">", LEFT - 6, y + 13);
    page_put_some(out, b->name[row], NAME);
    page_put(out, "</text>");
    for (int part = 0; part < b->n_parts; part++) {
        const double value = b->value[row][part];
        if (!(value > 0))
            continue;
        page_put(out, "<rect class=\"f%d\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>", part,
                 x_at(axis, at), y, x_at(axis, at + value) - x_at(axis, at), BAR);
        page_put_text(out, b->name[row]);
        page_put(out, ": ");
        page_put_text(out, b->parts[part]);
        page_put(out, " %s</title></rect>", page_measure(value, b->unit, text, sizeof(text)));
        at += value;
    }
    page_put(out, "\n");
}

static void put_legend(page_out *out, const page_bars *b)
{
    char text[40];
    page_put(out, "<ul class=\"legend\">");
    for (int part = 0; part < b->n_parts; part++) {
        bool any = false;
        for (int row = 0; row < b->n_rows; row++)
            any |= b->value[row][part] > 0;
        if (!any)
            continue;
        page_put(out,
                 "<li><svg class=\"key\" viewBox=\"0 0 12 10\" aria-hidden=\"true\"><rect class=\"f%d\" width=\"12\" "
                 "height=\"10\"/></svg> ",
                 part);
        page_put_text(out, b->parts[part]);
        page_put(out, "</li>");
    }
    if (b->limit > 0) {
        page_put(out, "<li>");
        page_put_text(out, b->limit_name);
        page_put(out, " <b>%s</b></li>", page_measure(b->limit, b->unit, text, sizeof(text)));
    }
    page_put(out, "</ul>");
}

void page_put_bars(page_out *out, const page_bars *b)
{
    const page_axis axis = axis_of(b);
    const int bottom = TOP + b->n_rows * ROW;
    page_begin_figure(out, "plot", b->title);
    page_put(out,
             "<svg class=\"stack\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-%dt\"><title id=\"%s-%dt\">",
             WIDTH, bottom + 22, out->section, out->n_pictures, out->section, out->n_pictures);
    page_put_text(out, b->title);
    page_put(out, "</title>\n");
    put_grid(out, b, &axis, bottom);
    for (int row = 0; row < b->n_rows; row++)
        put_row(out, b, &axis, row);
    if (b->limit > 0 && b->limit <= axis.to)
        page_put(out, "<path class=\"mark\" d=\"M%.1f %dV%d\"/>", x_at(&axis, b->limit), TOP, bottom);
    page_put(out, "</svg>\n");
    put_legend(out, b);
    page_put(out, "</figure>\n");
}
