/* The last rank to arrive at each collective: a table by team and sequence. */
#ifndef TESS_DOCTOR_PERFETTO_ARRIVALS_IMPL_H
#define TESS_DOCTOR_PERFETTO_ARRIVALS_IMPL_H

#include "diagnosis/history.h"

typedef struct arrival {
    uint64_t team, sequence;
    uint64_t last_ns; /* on the timeline */
    int n_ranks;      /* that arrived; 0: the slot is free */
    int rank;         /* the last of them */
    uint32_t tid;     /* the track with its slice, 0: not drawn */
} arrival;

typedef struct arrivals {
    tess_mem *mem;
    arrival *table; /* `room` is a power of two */
    size_t n, room;
} arrivals;

tess_status arrivals_add(arrivals *arrivals, uint64_t team, uint64_t sequence, int rank, uint64_t ns);
arrival *arrivals_find(const arrivals *arrivals, uint64_t team, uint64_t sequence); /* NULL: no rank arrived */
void arrivals_free(arrivals *arrivals);

#endif
