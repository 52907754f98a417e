/* Finds ranks that are slow in a phase, step after step. Pure functions, for live and dead jobs.
 *
 * The rule, over the last TESS_STRAGGLER_STEPS steps in two windows of equal length: a rank is a straggler when the
 * median of its times lies above the median of the other ranks' medians
 *   - by 5% in each window, so that it lasts,
 *   - by 7% over all steps, which a rank that is 10% slow reaches in spite of noise,
 *   - and by three standard errors of that median, estimated from the scatter of the rank's own times. */
#ifndef TESS_DIAGNOSIS_STRAGGLER_H
#define TESS_DIAGNOSIS_STRAGGLER_H

#include <stddef.h>

enum { TESS_STRAGGLER_STEPS = 20 };

typedef struct tess_straggler {
    int rank;
    double ratio; /* ratio of its median to the median of the others: 1.12 means 12% slower */
    double excess_s;
} tess_straggler;

/* Finds the stragglers in one phase. seconds (n_ranks, TESS_STRAGGLER_STEPS): each rank's times without waits for
 * others, newest last. Writes the stragglers to out (n_ranks), slowest first. Returns their number; 0 if there are
 * fewer than two ranks. */
int tess_stragglers_find(const double *seconds, int n_ranks, tess_straggler *out);

/* Returns the standard error of the median of times (TESS_STRAGGLER_STEPS), estimated from their median absolute
 * deviation. */
double tess_median_error(const double *times);

#endif
