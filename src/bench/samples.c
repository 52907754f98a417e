#include "bench/samples.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tess_bench_median(const double *values, int n)
{
    double sorted[TESS_BENCH_MAX_SAMPLES];
    int measured = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(values[i]))
            sorted[measured++] = values[i];
    qsort(sorted, (size_t)measured, sizeof(sorted[0]), by_value);
    return measured > 0 ? (sorted[(measured - 1) / 2] + sorted[measured / 2]) / 2 : NAN;
}

double tess_bench_median_ratio(const double *values, const double *by, int n)
{
    double ratios[TESS_BENCH_MAX_SAMPLES];
    for (int i = 0; i < n; i++)
        ratios[i] = values[i] / by[i];
    return tess_bench_median(ratios, n);
}

double tess_bench_min(const double *values, int n)
{
    double least = NAN;
    for (int i = 0; i < n; i++)
        least = fmin(least, values[i]); /* fmin ignores NAN */
    return least;
}

double tess_bench_max(const double *values, int n)
{
    double most = NAN;
    for (int i = 0; i < n; i++)
        most = fmax(most, values[i]);
    return most;
}
