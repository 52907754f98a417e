/* Statistics of repeated measurements: the median, which noise moves little, and the extremes, which are nearest to
 * what the machine can do. All skip NAN (not measured) and are NAN of nothing. */
#ifndef TESS_BENCH_SAMPLES_H
#define TESS_BENCH_SAMPLES_H

enum { TESS_BENCH_MAX_SAMPLES = 1000 };

/* n <= TESS_BENCH_MAX_SAMPLES. */
double tess_bench_median(const double *values, int n);
/* The median of values[i] / by[i]: figures of one round are compared within that round. */
double tess_bench_median_ratio(const double *values, const double *by, int n);
double tess_bench_min(const double *values, int n);
double tess_bench_max(const double *values, int n);

#endif
