#include "bench/samples.h"

#include <math.h>

#include "base/core/median.h"

double tess_bench_median(const double *values, int n)
{
    double sorted[TESS_BENCH_MAX_SAMPLES];
    int measured = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(values[i]))
            sorted[measured++] = values[i];
    return measured > 0 ? tess_median(sorted, measured) : NAN;
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
        least = fmin(least, values[i]); /* fmin and fmax ignore NAN */
    return least;
}

double tess_bench_max(const double *values, int n)
{
    double most = NAN;
    for (int i = 0; i < n; i++)
        most = fmax(most, values[i]);
    return most;
}
