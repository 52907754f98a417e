#include "diagnosis/straggler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/median.h"

enum { STEPS = TESS_STRAGGLER_STEPS, WINDOW = STEPS / 2, MOST_OTHERS = 4096 };

static const double over_in_window = 1.05, over_in_all = 1.07, standard_errors = 3;
static const double error_of_median = 1.2533; /* ratio of the standard errors of median and mean, for normal noise */
/* ratio of standard deviation to median absolute deviation, for normal noise */
static const double mad_to_sigma = 1.4826;

static double typical(const double *times, int n)
{
    double copy[STEPS];
    memcpy(copy, times, (size_t)n * sizeof(copy[0]));
    return tess_median(copy, n);
}

/* Returns the median over the other ranks. If there are very many ranks, only the first MOST_OTHERS are taken. */
static double others(const double *seconds, int n_ranks, int rank, int first, int n)
{
    double values[MOST_OTHERS];
    int n_values = 0;
    for (int r = 0; r < n_ranks && n_values < MOST_OTHERS; r++)
        if (r != rank)
            values[n_values++] = typical(seconds + (size_t)r * STEPS + first, n);
    return tess_median(values, n_values);
}

double tess_median_error(const double *times)
{
    double deviations[STEPS], middle = typical(times, STEPS);
    for (int i = 0; i < STEPS; i++)
        deviations[i] = fabs(times[i] - middle);
    return error_of_median * mad_to_sigma * tess_median(deviations, STEPS) / sqrt(STEPS);
}

static int is_straggler(const double *seconds, int n_ranks, int rank, tess_straggler *out)
{
    const double *own = seconds + (size_t)rank * STEPS;
    double mine = typical(own, STEPS), theirs = others(seconds, n_ranks, rank, 0, STEPS);
    *out = (tess_straggler){.rank = rank, .ratio = theirs > 0 ? mine / theirs : 1, .excess_s = mine - theirs};
    if (out->ratio < over_in_all || out->excess_s < standard_errors * tess_median_error(own))
        return 0;
    for (int first = 0; first < STEPS; first += WINDOW)
        if (typical(own + first, WINDOW) < over_in_window * others(seconds, n_ranks, rank, first, WINDOW))
            return 0;
    return 1;
}

static int slowest_first(const void *a, const void *b)
{
    double x = ((const tess_straggler *)a)->ratio, y = ((const tess_straggler *)b)->ratio;
    return (x < y) - (x > y);
}

int tess_stragglers_find(const double *seconds, int n_ranks, tess_straggler *out)
{
    int n = 0;
    for (int r = 0; r < n_ranks && n_ranks > 1; r++)
        n += is_straggler(seconds, n_ranks, r, &out[n]);
    if (n > 0)
        qsort(out, (size_t)n, sizeof(out[0]), slowest_first);
    return n;
}
