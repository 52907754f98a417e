/* Pictures as SVG: line plots, stacked columns and time lines. They can be read without a script; the page's script
 * lets line plots zoom. */
#ifndef TESS_PAGE_PAGE_PLOT_H
#define TESS_PAGE_PAGE_PLOT_H

#include "page/page_out.h"
#include "page/page_series.h"

enum { PAGE_LINES = 24, PAGE_PARTS = 16, PAGE_COLUMNS = 64, PAGE_COLOURS = 8 };

/* The dash of curve `at` of a page, next to colour `at`: curves with the same colour differ in it. */
static inline int page_dash(int at)
{
    return (at + at / PAGE_COLOURS) % 4;
}

typedef struct page_line {
    const page_series *series;
    const char *label;
    int colour, dash;
    bool marks; /* few values: each gets a mark */
} page_line;

typedef struct page_plot {
    const char *title;
    const char *x_name; /* NULL: "step" */
    bool may_be_log;    /* a logarithm is taken if values differ by more than a factor of a thousand */
    page_line lines[PAGE_LINES];
    int n;
} page_plot;

/* Puts a figure with axes over steps. Values that are not finite are gaps, with a mark at the axis. */
void page_put_plot(page_out *out, const page_plot *plot);

/* Columns of parts on top of each other. */
typedef struct page_stack {
    const char *title, *unit, *x_name; /* unit: "s" or "B" */
    const char *parts[PAGE_PARTS];     /* (n_parts) names */
    int n_parts, n_columns;
    double first[PAGE_COLUMNS], last[PAGE_COLUMNS]; /* steps, or ranks, that a column covers */
    double value[PAGE_COLUMNS][PAGE_PARTS];         /* NaN: not known */
    double reference[PAGE_COLUMNS];                 /* a mark across each column; NaN: none */
    const char *reference_name;                     /* NULL: no column has a mark */
} page_stack;

void page_put_stack(page_out *out, const page_stack *stack);

/* Spans of time in rows. */
typedef struct page_bar {
    int row, kind;
    double begin, end; /* seconds */
    char label[12];    /* shown inside if there is room */
} page_bar;

typedef struct page_timeline {
    const char *title;
    const char *(*row_name)(int row, char text[32]);
    int n_rows;
    const char *kinds[PAGE_PARTS];
    int n_kinds;
    const page_bar *bars;
    int n_bars;
} page_timeline;

void page_put_timeline_picture(page_out *out, const page_timeline *timeline);

/* ---- Parts of pictures ---- */
/* Begins a figure: <figure class="..."><figcaption>title</figcaption>. Gives the picture a new id. */
void page_begin_figure(page_out *out, const char *class, const char *title);
/* Writes "1.5 GiB" or "12 ms" for a value in "B" or "s". Returns text. */
const char *page_measure(double value, const char *unit, char *text, size_t size);

#endif
