/* Histograms of float32 values. A value's bin is given by its sign, its exponent and the first two bits of its
 * mantissa: four bins for each power of two. All members are integers, so ranks may add theirs in any order, and a
 * histogram does not depend on how the values are cut into shards. */
#ifndef TESS_TRAIN_HISTOGRAM_H
#define TESS_TRAIN_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum { TESS_HISTOGRAM_BINS = 2048, TESS_HISTOGRAM_EXPONENTS = 512 };

/* Ranks add numbers of values by their upper 11 bits; then by sign and exponent, sums of mantissas, and of their
 * squares without the lowest 20 bits. */
enum {
    TESS_HISTOGRAM_MANTISSAS = TESS_HISTOGRAM_BINS,
    TESS_HISTOGRAM_SQUARES = TESS_HISTOGRAM_MANTISSAS + TESS_HISTOGRAM_EXPONENTS,
    TESS_HISTOGRAM_SUMS = TESS_HISTOGRAM_SQUARES + TESS_HISTOGRAM_EXPONENTS
};

typedef struct tess_histogram {
    int64_t sums[TESS_HISTOGRAM_SUMS];
    /* ranks keep the maximum of these two: the order numbers of the largest value, and of the smallest, negated */
    int64_t ends[2];
} tess_histogram;

void tess_histogram_clear(tess_histogram *h);
/* Adds n values, each multiplied by `scale`. */
void tess_histogram_add(tess_histogram *h, const float *x, int64_t n, double scale);

/* The finite values. `sum` is exact up to its rounding, `squares` to 2^-27 of it. */
typedef struct tess_histogram_summary {
    int64_t n;
    double least, most, sum, squares;
} tess_histogram_summary;

tess_histogram_summary tess_histogram_summarize(const tess_histogram *h);

/* The number of values between the limit of the previous bucket and this limit. */
typedef struct tess_histogram_bucket {
    double limit;
    int64_t count;
} tess_histogram_bucket;

/* Lists buckets in the order of their limits. An empty one stands for all empty bins between two others. *at begins as
 * 0. Returns false after the last. */
bool tess_histogram_next(const tess_histogram *h, int *at, tess_histogram_bucket *bucket);

#endif
