/* Ranks that are slow in a phase, step after step. A pure function, for live and dead jobs.
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
    double ratio; /* its median to that of the others: 1.12 is 12% slow */
    double excess_s;
} tess_straggler;

/* seconds (n_ranks, TESS_STRAGGLER_STEPS): each rank's times in one phase without waits for others, newest last.
 * Writes the stragglers, slowest first, to out (n_ranks) and returns their number; 0 for fewer than two ranks. */
int tess_stragglers_find(const double *seconds, int n_ranks, tess_straggler *out);

/* Standard error of the median of times (TESS_STRAGGLER_STEPS), by their median absolute deviation. */
double tess_median_error(const double *times);

#endif
