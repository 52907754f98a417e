/* The content of the rings of a run's ranks: its newest collectives by axis and operation, and one step as phases of
 * each rank. */
#ifndef TESS_PAGE_PAGE_RINGS_H
#define TESS_PAGE_PAGE_RINGS_H

#include "base/mem/scoped.h"
#include "trace/ring.h"

enum { PAGE_COLLECTIVES = 64, PAGE_RINGS = 16, PAGE_SPANS = 400, PAGE_PHASES = 16 };

typedef struct page_collective {
    char team[TESS_TRACE_NAME_BYTES];
    int op; /* tess_trace_op */
    int64_t n;
    double bytes;             /* elements that ranks passed, times the bytes of one */
    double waited_s, moved_s; /* seconds from submission to the last rank's, and from there to the end */
} page_collective;

typedef struct page_span {
    int rank, phase;       /* phase: index into page_rings.phases */
    double begin_s, end_s; /* since the beginning of the step */
} page_span;

typedef struct page_rings {
    int n_collectives, n_ranks, world; /* n_ranks: rings that were read */
    page_collective collectives[PAGE_COLLECTIVES];
    int64_t first_step, last_step; /* steps of the collectives */
    int64_t step;                  /* step of the spans; -1: none */
    int n_phases, n_spans;
    char phases[PAGE_PHASES][TESS_TRACE_PHASE_BYTES];
    page_span *spans; /* (PAGE_RINGS * PAGE_SPANS) */
} page_rings;

/* Reads rank-*.ring in a trace folder: those of the first PAGE_RINGS ranks. Rings that are missing or damaged are left
 * out. TESS_E_NOMEM. */
tess_status page_rings_read(tess_mem *mem, const char *folder, page_rings *rings);
void page_rings_free(page_rings *rings);

#endif
