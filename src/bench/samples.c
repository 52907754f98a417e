#include "bench/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void tess_bench_samples_add(tess_bench_samples *samples, double value)
{
    if (samples->n < TESS_BENCH_MAX_SAMPLES)
        samples->value[samples->n++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tess_bench_samples_median(const tess_bench_samples *samples)
{
    double sorted[TESS_BENCH_MAX_SAMPLES];
    int n = samples->n;
    if (n == 0)
        return NAN;
    memcpy(sorted, samples->value, sizeof(sorted[0]) * (size_t)n);
    qsort(sorted, (size_t)n, sizeof(sorted[0]), by_value);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

double tess_bench_samples_min(const tess_bench_samples *samples)
{
    double best = NAN;
    for (int i = 0; i < samples->n; i++)
        best = fmin(best, samples->value[i]); /* fmin ignores the NAN */
    return best;
}

double tess_bench_samples_max(const tess_bench_samples *samples)
{
    double best = NAN;
    for (int i = 0; i < samples->n; i++)
        best = fmax(best, samples->value[i]);
    return best;
}
