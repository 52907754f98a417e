/* Statistics of repeated measurements: the median, which noise changes little, and the extremes, which are closest
 * to what the machine can do. All skip NAN (not measured), and return NAN if there are no values. */
#ifndef TESS_BENCH_SAMPLES_H
#define TESS_BENCH_SAMPLES_H

enum { TESS_BENCH_MAX_SAMPLES = 1000 };

/* Returns the median. n <= TESS_BENCH_MAX_SAMPLES. */
double tess_bench_median(const double *values, int n);
/* Returns the median of values[i] / by[i], so that figures are compared within their round. */
double tess_bench_median_ratio(const double *values, const double *by, int n);
double tess_bench_min(const double *values, int n);
double tess_bench_max(const double *values, int n);

#endif
