/* Histograms: counts, sums and ends do not depend on how the values are cut. */
#include "support/test.h"

#include <float.h>
#include <math.h>

#include "train/histogram.h"

static float value_at(int i)
{
    const uint32_t bits = (uint32_t)i * 2654435761u;
    const float sign = bits >> 31 ? -1 : 1;
    return sign * ldexpf(1 + (float)(bits >> 9 & 0xffff) / 65536, (int)(bits >> 25 & 31) - 20);
}

enum { N = 10007 };

static void fill(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] = i % 100 == 0 ? 0 : value_at(i);
}

/* Adds what another rank has counted. */
static void add(tess_histogram *to, const tess_histogram *from)
{
    for (int i = 0; i < TESS_HISTOGRAM_SUMS; i++)
        to->sums[i] += from->sums[i];
    for (int i = 0; i < 2; i++)
        to->ends[i] = from->ends[i] > to->ends[i] ? from->ends[i] : to->ends[i];
}

static void histograms_do_not_depend_on_the_cut(void)
{
    static float x[N];
    static tess_histogram whole, sum, part;
    fill(x);
    tess_histogram_clear(&whole);
    tess_histogram_add(&whole, x, N, 0.3);
    for (int n_ranks = 1; n_ranks <= 8; n_ranks++) {
        tess_histogram_clear(&sum);
        for (int r = 0; r < n_ranks; r++) {
            const int begin = N * r / n_ranks, end = N * (r + 1) / n_ranks;
            tess_histogram_clear(&part);
            tess_histogram_add(&part, x + begin, end - begin, 0.3);
            add(&sum, &part);
        }
        EXPECT(memcmp(&sum, &whole, sizeof(sum)) == 0);
    }
}

static void summaries_are_those_of_the_values(void)
{
    static float x[N];
    static tess_histogram h;
    double sum = 0, squares = 0, least = DBL_MAX, most = -DBL_MAX;
    fill(x);
    tess_histogram_clear(&h);
    tess_histogram_add(&h, x, N, 1);
    for (int i = 0; i < N; i++) {
        sum += x[i]; /* all values have few bits, so doubles add them exactly */
        squares += (double)x[i] * x[i];
        least = fmin(least, x[i]);
        most = fmax(most, x[i]);
    }
    const tess_histogram_summary s = tess_histogram_summarize(&h);
    EXPECT_INT(s.n, N);
    EXPECT(s.sum == sum && s.least == least && s.most == most);
    EXPECT(fabs(s.squares - squares) < squares * 0x1p-26);
}

/* Each bucket has the values above the limit of the previous one and up to its own. */
static void buckets_hold_the_values_between_their_limits(void)
{
    static float x[N];
    static tess_histogram h;
    tess_histogram_bucket bucket;
    double before = -INFINITY;
    int64_t n = 0;
    int n_buckets = 0;
    fill(x);
    tess_histogram_clear(&h);
    tess_histogram_add(&h, x, N, 1);
    for (int at = 0; tess_histogram_next(&h, &at, &bucket); n_buckets++) {
        int64_t expected = 0;
        for (int i = 0; i < N; i++) /* a bin contains its end that is nearer to zero */
            expected +=
                bucket.limit > 0 ? x[i] >= before && x[i] < bucket.limit : x[i] > before && x[i] <= bucket.limit;
        EXPECT_INT(bucket.count, expected);
        EXPECT(bucket.limit > before);
        before = bucket.limit;
        n += bucket.count;
    }
    EXPECT_INT(n, N);
    EXPECT(n_buckets > 100);
}

static void awkward_values_have_a_place(void)
{
    static const float x[] = {0, -0.0f, FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45f, -1e-45f, INFINITY, -INFINITY, NAN};
    static tess_histogram h;
    tess_histogram_bucket bucket;
    int64_t n = 0;
    tess_histogram_clear(&h);
    EXPECT_INT(tess_histogram_summarize(&h).n, 0);
    int at = 0;
    EXPECT(!tess_histogram_next(&h, &at, &bucket));
    tess_histogram_add(&h, x, 10, 1);
    const tess_histogram_summary s = tess_histogram_summarize(&h);
    EXPECT_INT(s.n, 7);
    EXPECT(s.most == FLT_MAX && s.least == -FLT_MAX && s.sum == FLT_MIN);
    for (at = 0; tess_histogram_next(&h, &at, &bucket);) {
        EXPECT(isfinite(bucket.limit));
        n += bucket.count;
    }
    EXPECT_INT(n, 7);
}

static const test_case cases[] = {
    CASE(histograms_do_not_depend_on_the_cut),
    CASE(summaries_are_those_of_the_values),
    CASE(buckets_hold_the_values_between_their_limits),
    CASE(awkward_values_have_a_place),
};
TEST_MAIN(cases)
