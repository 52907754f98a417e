/* The pace of a running job: what each rank's steps took, phase by phase, as they are done, and who is slow. Plain
 * data in, a finding out; whoever reads the board (launch/watchdog) feeds it.
 *
 * A rank that is slow and a rank that is not let run look alike on a clock. The system knows the difference: the time
 * that a thread was ready and waited for a core. With that time taken out, a rank must still be slow to be named slow;
 * when it is not, it is told that it does not get its core - unless all ranks wait for cores, which says nothing of any
 * one of them. */
#ifndef TESS_DIAGNOSIS_PACE_H
#define TESS_DIAGNOSIS_PACE_H

#include "base/os/phase_clock.h"
#include "tessera/memory.h"

typedef struct tess_pace tess_pace;

/* A rank's counters since it began. */
typedef struct tess_pace_counters {
    uint64_t n_steps;
    uint64_t phase_ns[TESS_PHASE_COUNT];
    uint64_t starved_ns; /* ready to run, without a core; 0 where nobody knows */
} tess_pace_counters;

typedef struct tess_pace_finding {
    int rank;
    tess_phase phase;
    bool starved;    /* slow because it does not get a core */
    double ratio;    /* its median to that of the others: 1.12 is 12% slow */
    double excess_s; /* a step */
    double starved_s;
    uint64_t n_steps; /* that the rank has done by now */
} tess_pace_finding;

tess_status tess_pace_create(tess_mem *mem, int n_ranks, tess_pace **pace);
void tess_pace_destroy(tess_pace **pace);

/* Whether tess_pace_add would take a sample of a rank that has done n_steps. */
bool tess_pace_is_new(const tess_pace *pace, int rank, uint64_t n_steps);
/* Counters of `rank` as they are now: a sample, once it has done a step more. True: it was one. */
bool tess_pace_add(tess_pace *pace, int rank, const tess_pace_counters *counters);

/* The rank whose excess over the others is the largest share of a step, by the rule of straggler.h over the newest
 * TESS_STRAGGLER_STEPS samples, in a phase in which ranks do not wait for each other; the others must wait for it for
 * half of that at least. False: all are alike, or there
 * are not as many samples yet. Of very many ranks, the slowest of a phase is compared with some of the others. */
bool tess_pace_find(const tess_pace *pace, tess_pace_finding *finding);

#endif
