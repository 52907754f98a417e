/* Formats a snapshot as lines of text: what `tessera top` shows, for a terminal of any size or for a script. Pure. */
#ifndef TESS_DOCTOR_TOP_PAGE_H
#define TESS_DOCTOR_TOP_PAGE_H

#include <stdio.h>

#include "base/os/phase_clock.h"
#include "doctor/top/snapshot.h"

typedef enum tess_top_style {
    TESS_TOP_PLAIN,
    TESS_TOP_DIM,
    TESS_TOP_STRONG,
    TESS_TOP_WARN,
    TESS_TOP_BAD,
    TESS_TOP_PHASE, /* + tess_phase: a piece of a bar */
    TESS_TOP_STYLES = TESS_TOP_PHASE + TESS_PHASE_COUNT
} tess_top_style;

/* Receives a page: the pieces of a line from left to right, line after line. */
typedef struct tess_top_canvas {
    void *self;
    void (*put)(void *self, tess_top_style style, const char *text);
    void (*end_line)(void *self);
} tess_top_canvas;

typedef struct tess_top_size {
    int width, height; /* 0: no limit */
    int first_rank;    /* the first one shown */
} tess_top_size;

/* Drops columns that do not fit, the least useful first. `before` (NULL: none) as for tess_top_sum. Returns the number
 * of rows that fit. */
int tess_top_draw(const tess_top_snapshot *now, const tess_top_snapshot *before, const tess_top_size *size,
                  const tess_top_canvas *canvas);

/* One line for a list of jobs: "4711  8 ranks  step 512  loss 3.2145  2 min 3 s  tessera train run.yaml". */
const char *tess_top_describe(const tess_top_snapshot *snapshot, char *text, size_t size);

/* One JSON line per job: version 1, documented in docs/debugging.md. `before` as above. */
tess_status tess_top_print_json(const tess_top_snapshot *now, const tess_top_snapshot *before, FILE *out);

#endif
