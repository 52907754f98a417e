/* Horizontal bars of parts, one row for each name: pictures that compare alternatives. */
#ifndef TESS_PAGE_PAGE_BARS_H
#define TESS_PAGE_PAGE_BARS_H

#include "page/page_plot.h"

enum { PAGE_BAR_ROWS = 32 };

typedef struct page_bars {
    const char *title, *unit;      /* unit: "s" or "B" */
    const char *parts[PAGE_PARTS]; /* (n_parts) */
    int n_parts, n_rows;
    const char *name[PAGE_BAR_ROWS];
    double value[PAGE_BAR_ROWS][PAGE_PARTS];
    double limit;           /* a line across all rows; 0: none */
    const char *limit_name; /* names the limit, if it is not 0 */
} page_bars;

void page_put_bars(page_out *out, const page_bars *bars);

#endif
