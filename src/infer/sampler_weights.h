/* Computes weights of logits, exp((logit - top) / temperature) in double, and the sums of them that the sampler
 * needs. Every addition and multiplication is rounded separately, in an order that does not depend on the width of
 * vector registers. So the bits are the same on every machine. sampler_weights_avx2.c compiles this file a second
 * time; AVX-512 would hardly be faster. */
#ifndef TESS_INFER_SAMPLER_WEIGHTS_H
#define TESS_INFER_SAMPLER_WEIGHTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { TESS_WEIGHT_LANES = 8, TESS_WEIGHT_PIECE = 256 };

/* The sum over a run of logits. Weights are relative to the run's own largest logit, so that a row is read once. */
typedef struct tess_weight_sum {
    float largest;
    double sum; /* 0 if there is no weight, or no sum is wanted */
} tess_weight_sum;

/* Sums a run. Sets *broken if some logit is NaN or +inf; otherwise leaves it unchanged. */
typedef tess_weight_sum (*tess_weight_sum_fn)(const float *logits, int64_t n, double inv_temperature, bool want_sum,
                                              bool *broken);

/* Returns the fastest version for this machine. */
tess_weight_sum_fn tess_weight_sum_select(void);
tess_weight_sum tess_weight_sum_avx2(const float *logits, int64_t n, double inv_temperature, bool want_sum,
                                     bool *broken);
/* Computes exp(x), x <= 0, with a relative error below 1e-12; 0 below -700. That bound is tested on the bits, since
 * compilers do not vectorise a choice between floats. */
static inline double tess_weight_exp(double x)
{
    const double magic = 0x1.8p52; /* adding it rounds to an integer, which is then in the lowest bits */
    const double lowest = -700;
    int64_t least, at, power, bits;
    memcpy(&least, &lowest, sizeof(least));
    memcpy(&at, &x, sizeof(at));
    at |= INT64_MIN; /* the bits of negative doubles, as an integer, grow as the value falls */
    int64_t keep = at > least ? 0 : -1;
    at = at > least ? least : at;
    memcpy(&x, &at, sizeof(x));
    double shifted = x * 0x1.71547652b82fep0 + magic, n = shifted - magic;
    double r = x - n * 0x1.62e42fefa0000p-1 - n * 0x1.cf79abc9e3b3ap-40;
    double p = 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    memcpy(&bits, &p, sizeof(bits));
    memcpy(&power, &shifted, sizeof(power));
    bits = (int64_t)((uint64_t)bits + ((uint64_t)power << 52)) & keep;
    memcpy(&p, &bits, sizeof(p));
    return p;
}

/* The weight of a logit relative to `top`, which must not be smaller. */
static inline double tess_weight(float logit, float top, double inv_temperature)
{
    return tess_weight_exp(((double)logit - (double)top) * inv_temperature);
}

static inline float tess_weight_largest(const float *x, int64_t n, bool *broken)
{
    float largest[TESS_WEIGHT_LANES];
    int bad[TESS_WEIGHT_LANES] = {0}, any = 0;
    for (int k = 0; k < TESS_WEIGHT_LANES; k++)
        largest[k] = -INFINITY;
    int64_t i = 0;
    for (; i + TESS_WEIGHT_LANES <= n; i += TESS_WEIGHT_LANES)
        for (int k = 0; k < TESS_WEIGHT_LANES; k++) {
            largest[k] = x[i + k] > largest[k] ? x[i + k] : largest[k];
            bad[k] |= !(x[i + k] < INFINITY);
        }
    for (; i < n; i++) {
        largest[0] = x[i] > largest[0] ? x[i] : largest[0];
        bad[0] |= !(x[i] < INFINITY);
    }
    for (int k = 0; k < TESS_WEIGHT_LANES; k++) {
        largest[0] = largest[k] > largest[0] ? largest[k] : largest[0];
        any |= bad[k];
    }
    *broken |= any != 0;
    return largest[0];
}

/* Adds element i to partial sum i % TESS_WEIGHT_LANES, then adds the partial sums in order. */
static inline double tess_weight_add_up(const float *x, int64_t n, float top, double inv_temperature)
{
    double sum[TESS_WEIGHT_LANES] = {0}, total = 0, weights[TESS_WEIGHT_PIECE];
    for (int64_t begin = 0; begin < n; begin += TESS_WEIGHT_PIECE) {
        int64_t m = n - begin < TESS_WEIGHT_PIECE ? n - begin : TESS_WEIGHT_PIECE;
        for (int64_t i = 0; i < m; i++) /* a separate loop, which compilers vectorise */
            weights[i] = tess_weight(x[begin + i], top, inv_temperature);
        for (int64_t i = 0; i < m; i++)
            sum[i % TESS_WEIGHT_LANES] += weights[i];
    }
    for (int k = 0; k < TESS_WEIGHT_LANES; k++)
        total += sum[k];
    return total;
}

static inline tess_weight_sum tess_weight_sum_of(const float *logits, int64_t n, double inv_temperature, bool want_sum,
                                                 bool *broken)
{
    tess_weight_sum w = {.largest = tess_weight_largest(logits, n, broken)};
    if (want_sum && w.largest != -INFINITY)
        w.sum = tess_weight_add_up(logits, n, w.largest, inv_temperature);
    return w;
}

#endif
