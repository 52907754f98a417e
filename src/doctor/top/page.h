/* Formats a snapshot as lines of text: the output of `tessera top`, for a terminal of any size or for a script. Pure
 * functions. */
#ifndef TESS_DOCTOR_TOP_PAGE_H
#define TESS_DOCTOR_TOP_PAGE_H

#include "tessera/clock.h"
#include "base/report/form.h"
#include "doctor/top/snapshot.h"

typedef enum tess_top_style {
    TESS_TOP_PLAIN,
    TESS_TOP_DIM,
    TESS_TOP_STRONG,
    TESS_TOP_WARN,
    TESS_TOP_BAD,
    TESS_TOP_PHASE, /* plus a tess_phase: style of that phase's part of a bar */
    TESS_TOP_STYLES = TESS_TOP_PHASE + TESS_PHASE_COUNT
} tess_top_style;

/* Receives the drawn page: the pieces of each line from left to right, line by line. */
typedef struct tess_top_canvas {
    void *self;
    void (*put)(void *self, tess_top_style style, const char *text);
    void (*end_line)(void *self);
} tess_top_canvas;

typedef struct tess_top_size {
    int width, height; /* 0: no limit */
    int first_rank;    /* first rank to show */
} tess_top_size;

/* Draws a page. Drops columns that do not fit, the least useful first. `before` (NULL: none) as for tess_top_sum.
 * Returns the number of rows that fit. */
int tess_top_draw(const tess_top_snapshot *now, const tess_top_snapshot *before, const tess_top_size *size,
                  const tess_top_canvas *canvas);

/* Writes one line for a list of jobs: "4711  8 ranks  step 512  loss 3.2145  2 min 3 s  tessera train run.yaml". */
const char *tess_top_describe(const tess_top_snapshot *snapshot, char *text, size_t size);

/* Appends the snapshot in a style that is not text. JSON is one line: version 1, documented in docs/debugging.md.
 * `before` as for tess_top_sum. */
tess_status tess_top_put(const tess_top_snapshot *now, const tess_top_snapshot *before, tess_form_style style,
                         tess_buffer *out);

#endif
