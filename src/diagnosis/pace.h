/* Measures the pace of a running job: the times of each rank's steps by phase, and which rank is slow. The functions
 * work on plain data; the watchdog of the launcher reads the board and passes the data on.
 *
 * A clock does not distinguish a slow rank from one that does not get a core. The system does: it counts the time
 * that a thread was runnable without a core. A rank is slow if it is still slow after that time is subtracted.
 * Otherwise it is starved, unless all ranks wait for cores. */
#ifndef TESS_DIAGNOSIS_PACE_H
#define TESS_DIAGNOSIS_PACE_H

#include "tessera/clock.h"
#include "tessera/memory.h"

typedef struct tess_pace tess_pace;

/* A rank's counters since its start. */
typedef struct tess_pace_counters {
    uint64_t n_steps;
    uint64_t phase_ns[TESS_PHASE_COUNT];
    uint64_t starved_ns; /* time without a core although runnable; 0: not known */
} tess_pace_counters;

typedef struct tess_pace_finding {
    int rank;
    tess_phase phase;
    bool starved;    /* it is slow because it does not get a core */
    double ratio;    /* ratio of its median to the median of the others: 1.12 means 12% slower */
    double excess_s; /* seconds per step */
    double starved_s;
    uint64_t n_steps; /* number of steps that the rank has done so far */
} tess_pace_finding;

tess_status tess_pace_create(tess_mem *mem, int n_ranks, tess_pace **pace);
void tess_pace_destroy(tess_pace **pace);

/* Whether tess_pace_add would take a sample of a rank that has done n_steps steps. */
bool tess_pace_is_new(const tess_pace *pace, int rank, uint64_t n_steps);
/* Takes a sample of `rank` from its present counters, if it has done a step since the previous sample. Returns
 * whether it took one. */
bool tess_pace_add(tess_pace *pace, int rank, const tess_pace_counters *counters);

/* Finds the rank with the largest excess over the others, in a phase without waits for other ranks. Applies the rule
 * of straggler.h to the newest TESS_STRAGGLER_STEPS samples. The others must wait for at least half of the excess.
 * If there are many ranks, the slowest is compared with some of the others. Returns false if none is slow, or if
 * there are too few samples. */
bool tess_pace_find(const tess_pace *pace, tess_pace_finding *finding);

#endif
