/* The time line of a replayed step: what each rank does when. A recorder for step_time.c. */
#ifndef TESS_PLAN_STEP_SPANS_H
#define TESS_PLAN_STEP_SPANS_H

#include "tessera/clock.h"
#include "tessera/memory.h"

/* The kind of a span is the phase of its kernels, or one of these. */
enum {
    TESS_SPAN_WAIT = TESS_PHASE_COUNT, /* communication that no kernel hides */
    TESS_SPAN_BUBBLE,
    TESS_SPAN_KINDS
};
enum { TESS_SPAN_ROWS = 64 };

typedef struct tess_step_span {
    int row, kind;
    double begin_s, end_s;
} tess_step_span;

typedef struct tess_step_spans {
    tess_mem *mem;
    tess_step_span *spans; /* (n) those of a row are in the order of time */
    size_t n, room;
    int n_rows, rank[TESS_SPAN_ROWS]; /* rank[row]: its number in the job; further ranks are left out */
    size_t last[TESS_SPAN_ROWS];      /* 1 + the index of the row's newest span; 0: none */
    int64_t n_micros, all_micros;     /* micro-batches of a rank that were replayed, and those of the step */
    /* waits of the step that no span shows: in contiguous context parallelism, for the rank whose phase takes longest
     */
    double waits_s;
    tess_status status; /* the first failure */
} tess_step_spans;

const char *tess_span_name(int kind);
/* Adds a span. One of the same kind as the row's newest, which ends where this one begins, makes that longer. */
void tess_step_spans_add(tess_step_spans *spans, const tess_step_span *span);
/* Returns the end of the last span. */
double tess_step_spans_end(const tess_step_spans *spans);
/* Divides a row's time until the end into TESS_SPAN_COLUMNS equal columns, and writes the kind that fills most of each.
 * Time without a span is bubble. */
enum { TESS_SPAN_COLUMNS = 480 };
void tess_step_spans_columns(const tess_step_spans *spans, int row, uint8_t kinds[TESS_SPAN_COLUMNS]);
/* Replaces the spans of rows by such columns, if any row has more spans than columns. */
tess_status tess_step_spans_coarsen(tess_step_spans *spans);
void tess_step_spans_free(tess_step_spans *spans);

#endif
