/* What follows from a snapshot, or from two of the same job: rates, shares of the step, who is waited for. Pure. */
#ifndef TESS_DOCTOR_TOP_TOP_NUMBERS_H
#define TESS_DOCTOR_TOP_TOP_NUMBERS_H

#include "doctor/top/snapshot.h"

typedef struct tess_top_totals {
    int64_t step; /* done by the rank that is furthest; 0: none */
    double loss;  /* of that step; NaN: not known */
    double step_s, tokens_per_s;
    int culprit;   /* the rank that most wait for, and that waits for nobody where there is such a one; -1: none */
    int n_waiting; /* for it */
    int waiter;    /* who has waited longest */
    double waited_s;
} tess_top_totals;

/* `before`: an earlier snapshot of the job, NULL: none. With it rates are those of the steps in between. */
tess_top_totals tess_top_sum(const tess_top_snapshot *now, const tess_top_snapshot *before);

/* Where a rank's time goes, as shares of 1 by tess_phase; false when it has done no step yet. `before` may be NULL. */
bool tess_top_shares(const tess_top_rank *now, const tess_top_rank *before, double share[TESS_PHASE_COUNT]);

/* How many of `width` cells each phase gets, by largest remainder; they add up to `width`. */
void tess_top_cells(const double share[TESS_PHASE_COUNT], int width, int cells[TESS_PHASE_COUNT]);

/* Ranks of the job that `rank` waits for: their number, the lowest in *first (-1: it waits for nobody). */
int tess_top_missing(const tess_top_snapshot *snapshot, int rank, int *first);

#endif
