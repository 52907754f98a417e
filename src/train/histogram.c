#include "train/histogram.h"

#include <math.h>
#include <string.h>

enum {
    BINS_OF_SIGN = TESS_HISTOGRAM_BINS / 2,
    ZERO = 4,         /* the bins below this one hold zeros and values below 2^-126: one bucket of both signs */
    FINITE = 255 * 4, /* the bins from this one on hold infinities and NaN */
    N_PLACES = 2 * (FINITE - ZERO) + 1, /* number of buckets, from the most negative one on */
    DROPPED = 20                        /* bits of a squared mantissa */
};

void tess_histogram_clear(tess_histogram *h)
{
    *h = (tess_histogram){.ends = {INT64_MIN, INT64_MIN}};
}

/* Returns a number that has the order of the floats. */
static int64_t order_of(uint32_t bits)
{
    return bits >> 31 ? -(int64_t)(bits & 0x7fffffff) : (int64_t)bits;
}

static double value_of(int64_t order)
{
    const uint32_t bits = order < 0 ? 0x80000000u | (uint32_t)-order : (uint32_t)order;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Counts one value in `sums`, and returns its bits. */
static inline uint32_t count_value(int64_t *sums, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint32_t exponent = bits >> 23;
    const int64_t mantissa = (int64_t)(bits & 0x7fffff) | ((exponent & 0xff) != 0 ? 0x800000 : 0);
    sums[bits >> 21]++;
    sums[TESS_HISTOGRAM_MANTISSAS + exponent] += mantissa;
    sums[TESS_HISTOGRAM_SQUARES + exponent] += mantissa * mantissa >> DROPPED;
    return bits;
}

static inline void extend(uint32_t bits, int64_t *most, int64_t *least)
{
    const int64_t order = order_of(bits);
    if ((bits >> 23 & 0xff) == 0xff)
        return;
    *most = order > *most ? order : *most;
    *least = -order > *least ? -order : *least;
}

/* Neighbouring values often have the same bins. They are counted in different sums, so that no addition waits for the
 * one before. */
void tess_histogram_add(tess_histogram *h, const float *x, int64_t n, double scale)
{
    int64_t most = h->ends[0], least = h->ends[1], odd[TESS_HISTOGRAM_SUMS] = {0}, i = 0;
    for (; i + 1 < n; i += 2) {
        extend(count_value(h->sums, (float)(x[i] * scale)), &most, &least);
        extend(count_value(odd, (float)(x[i + 1] * scale)), &most, &least);
    }
    if (i < n)
        extend(count_value(odd, (float)(x[i] * scale)), &most, &least);
    for (int k = 0; k < TESS_HISTOGRAM_SUMS; k++)
        h->sums[k] += odd[k];
    h->ends[0] = most;
    h->ends[1] = least;
}

tess_histogram_summary tess_histogram_summarize(const tess_histogram *h)
{
    const int64_t *mantissas = h->sums + TESS_HISTOGRAM_MANTISSAS, *squares = h->sums + TESS_HISTOGRAM_SQUARES;
    tess_histogram_summary s = {0};
    for (int bin = 0; bin < TESS_HISTOGRAM_BINS; bin++)
        s.n += bin % BINS_OF_SIGN < FINITE ? h->sums[bin] : 0;
    if (s.n == 0)
        return s;
    for (int e = 0; e < 255; e++) {             /* small ones first */
        const int unit = (e > 0 ? e : 1) - 150; /* exponent of the mantissa's last bit */
        s.sum += ldexp((double)(mantissas[e] - mantissas[256 + e]), unit);
        s.squares += ldexp((double)(squares[e] + squares[256 + e]), 2 * unit + DROPPED);
    }
    s.most = value_of(h->ends[0]);
    s.least = value_of(-h->ends[1]);
    return s;
}

/* A bucket by its place, from the most negative values on. */
typedef struct place_of {
    double begin, end;
    int64_t count;
} place_of;

static double edge(int bin)
{
    return bin < FINITE ? value_of((int64_t)bin << 21) : ldexp(1, 128);
}

static place_of at_place(const tess_histogram *h, int place)
{
    const int zero = FINITE - ZERO;
    place_of p = {.begin = -edge(ZERO), .end = edge(ZERO)};
    if (place == zero) {
        for (int bin = 0; bin < ZERO; bin++)
            p.count += h->sums[bin] + h->sums[BINS_OF_SIGN + bin];
        return p;
    }
    const int bin = place > zero ? place - zero - 1 + ZERO : zero - place - 1 + ZERO;
    return place > zero ? (place_of){edge(bin), edge(bin + 1), h->sums[bin]}
                        : (place_of){-edge(bin + 1), -edge(bin), h->sums[BINS_OF_SIGN + bin]};
}

/* The next place is half of *at, which is odd if an empty bucket stood before it. */
bool tess_histogram_next(const tess_histogram *h, int *at, tess_histogram_bucket *bucket)
{
    const bool is_first = *at == 0, has_gap = *at % 2 == 1;
    int place = *at / 2;
    while (place < N_PLACES && at_place(h, place).count == 0)
        place++;
    if (place == N_PLACES)
        return false;
    const place_of p = at_place(h, place);
    if (!is_first && !has_gap && place > *at / 2) {
        *bucket = (tess_histogram_bucket){p.begin, 0};
        *at = 2 * place + 1;
        return true;
    }
    *bucket = (tess_histogram_bucket){p.end, p.count};
    *at = 2 * (place + 1);
    return true;
}
