/* Axes of pictures: ranges, ticks and their labels. Pure functions. */
#ifndef TESS_PAGE_PAGE_AXIS_H
#define TESS_PAGE_PAGE_AXIS_H

#include <stdbool.h>
#include <stddef.h>

enum { PAGE_TICKS = 12, PAGE_TICK_TEXT = 24 };

typedef struct page_axis {
    double from, to; /* values at both ends; from < to */
    bool is_log;     /* requires from > 0 */
} page_axis;

/* Returns an axis from `low` to `high` with some room at both ends. Equal or missing (NaN) values get a range. */
page_axis page_axis_around(double low, double high, bool is_log);
/* Returns an axis without room at its ends, but never an empty one. */
page_axis page_axis_between(double low, double high);

/* Returns the place of a value as a fraction of the axis, 0 .. 1 inside. NaN: a logarithm has no place for it. */
double page_axis_place(const page_axis *axis, double value);

/* Finds about `most` (< PAGE_TICKS) round values on the axis, one more at most, and returns their number. `whole`:
 * integers only. */
int page_axis_ticks(const page_axis *axis, int most, bool whole, double ticks[PAGE_TICKS]);
/* Writes the label of a tick, in at most 8 columns. `step`: distance of ticks, which decides on the digits; 0: those
 * of a logarithm. Returns text. */
const char *page_tick_text(double value, double step, char text[PAGE_TICK_TEXT]);

#endif
