/* Repeated timings of one thing, and what to say of them: the median, which noise moves little, and the best, which is
 * nearest to what the machine can do. */
#ifndef TESS_BENCH_SAMPLES_H
#define TESS_BENCH_SAMPLES_H

enum { TESS_BENCH_MAX_SAMPLES = 1000 };

typedef struct tess_bench_samples {
    int n;
    double value[TESS_BENCH_MAX_SAMPLES];
} tess_bench_samples;

void tess_bench_samples_add(tess_bench_samples *samples, double value); /* further ones than fit are dropped */

/* NAN of no samples. */
double tess_bench_samples_median(const tess_bench_samples *samples);
double tess_bench_samples_min(const tess_bench_samples *samples);
double tess_bench_samples_max(const tess_bench_samples *samples);

#endif
