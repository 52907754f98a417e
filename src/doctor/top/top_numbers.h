/* Rates, shares of the step and the rank being waited for, from one snapshot or two of the same job. Pure. */
#ifndef TESS_DOCTOR_TOP_TOP_NUMBERS_H
#define TESS_DOCTOR_TOP_TOP_NUMBERS_H

#include "doctor/top/snapshot.h"

typedef struct tess_top_totals {
    int64_t step; /* of the rank that is furthest; 0: none */
    double loss;  /* of that step; NaN: unknown */
    double step_s, tokens_per_s;
    int culprit;   /* the rank that most wait for, preferably one that waits for none itself; -1: none */
    int n_waiting; /* for it */
    int waiter;    /* the rank that has waited longest */
    double waited_s;
} tess_top_totals;

/* `before`: an earlier snapshot of the job, NULL: none. With it, rates cover the steps in between. */
tess_top_totals tess_top_sum(const tess_top_snapshot *now, const tess_top_snapshot *before);

/* A rank's time by tess_phase, as fractions of 1; false: it has not finished a step yet. `before` may be NULL. */
bool tess_top_shares(const tess_top_rank *now, const tess_top_rank *before, double share[TESS_PHASE_COUNT]);

/* Divides `width` cells among the phases by largest remainder; they add up to `width`. */
void tess_top_cells(const double share[TESS_PHASE_COUNT], int width, int cells[TESS_PHASE_COUNT]);

/* Number of ranks of the job that `rank` waits for; *first is the lowest (-1: it waits for none). */
int tess_top_missing(const tess_top_snapshot *snapshot, int rank, int *first);

#endif
