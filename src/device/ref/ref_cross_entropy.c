/* Cross-entropy of a row, the definition: nll = log sum exp(z / t) - z[target] / t, the entropy, and the gradient p -
 * onehot(target) times dz/dx, where z are the logits x, scaled and soft-capped. */
#include <math.h>
#include <string.h>

#include "device/ref/ref_impl.h"
#include "device/ref/vec_ref.h"
#include "device/stream_impl.h"
#include "device/vmath.h"

/* Sums over a chunk. Exponentials are relative to the chunk's own largest element. */
typedef struct ref_softmax_chunk {
    /* e: sum of e = exp(d), d = (x - largest) / T; ex: sum of e d, which is 0 where e is 0 (a masked logit) */
    float largest, e, ex;
} ref_softmax_chunk;

/* Sums over the row, relative to its largest element. */
typedef struct ref_softmax_sums {
    double e, ex;
    float largest;
} ref_softmax_sums;

static int64_t end_of_chunk(int64_t begin, int64_t V)
{
    return begin + TESS_SOFTMAX_CHUNK < V ? begin + TESS_SOFTMAX_CHUNK : V;
}

static float largest_of(const float *x, int64_t n)
{
    float largest = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        largest = v_max(largest, x[i]);
    return largest;
}

/* Returns the number that is subtracted from a chunk's elements: its largest, or 0 if all are masked. */
static float base_of(float largest)
{
    return largest == -INFINITY ? 0 : largest;
}

static ref_softmax_chunk sum_chunk(const float *x, int64_t n, float inv_temperature)
{
    float e_lane[TESS_ROW_LANES] = {0}, ex_lane[TESS_ROW_LANES] = {0};
    float largest = largest_of(x, n);
    for (int64_t i = 0; i < n; i++) {
        float d = (x[i] - base_of(largest)) * inv_temperature, e = v_exp(d);
        e_lane[i % TESS_ROW_LANES] += e;
        ex_lane[i % TESS_ROW_LANES] += e == 0 ? 0 : e * d;
    }
    return (ref_softmax_chunk){largest, ref_fold(e_lane), ref_fold(ex_lane)};
}

static ref_softmax_sums sum_row(const float *x, int64_t V, float inv_temperature)
{
    ref_softmax_sums sums = {0, 0, largest_of(x, V)};
    for (int64_t begin = 0; begin < V; begin += TESS_SOFTMAX_CHUNK) {
        ref_softmax_chunk chunk = sum_chunk(x + begin, end_of_chunk(begin, V) - begin, inv_temperature);
        float distance = (chunk.largest - sums.largest) * inv_temperature;
        double factor = (double)v_exp(distance);
        sums.e += factor * (double)chunk.e;
        if (factor > 0)
            sums.ex += factor * ((double)chunk.ex + (double)distance * (double)chunk.e);
    }
    return sums;
}

/* The values that a row's gradient needs: log p[v] + entropy = d[v] - mean, where d is relative to the row's
 * largest. */
typedef struct ref_softmax_gradient {
    const float *x;
    float largest, inverse, mean;       /* inverse: 1 / sum of e */
    float inv_temperature, inverse_cap; /* inverse_cap: 1 / soft cap, or 0 */
    float weight, dentropy;             /* -g / T and h / T, each times the logits' factor */
} ref_softmax_gradient;

/* Returns the soft cap's derivative; 1 without a cap. */
static float slope_at(const ref_softmax_gradient *g, int64_t i)
{
    return g->inverse_cap != 0 ? v_soft_cap_slope(g->x[i], g->inverse_cap) : 1;
}

/* Writes p (weight - dentropy (d - mean)), with p computed relative to the chunk's own largest. Without `dentropy` it
 * takes fewer roundings. */
static void write_gradient(const ref_softmax_gradient *g, int64_t V, void *dlogits, int64_t at, tess_dtype dtype)
{
    for (int64_t begin = 0; begin < V; begin += TESS_SOFTMAX_CHUNK) {
        int64_t end = end_of_chunk(begin, V);
        float chunk_largest = largest_of(g->x + begin, end - begin);
        float scale = v_exp((chunk_largest - g->largest) * g->inv_temperature) * g->inverse;
        for (int64_t i = begin; i < end; i++) {
            float e = v_exp((g->x[i] - base_of(chunk_largest)) * g->inv_temperature) * slope_at(g, i);
            float d = (g->x[i] - g->largest) * g->inv_temperature;
            if (g->dentropy == 0)
                ref_put(dlogits, at + i, e * (scale * g->weight), dtype);
            else
                ref_put(dlogits, at + i, e == 0 ? 0 : e * scale * fmaf(-g->dentropy, d - g->mean, g->weight), dtype);
        }
    }
}

static float gradient_at_target(const ref_softmax_gradient *g, float d)
{
    float p = v_exp(d) * g->inverse, gradient = (p - 1.0f) * g->weight;
    return g->dentropy == 0 || p == 0 ? gradient : fmaf(-g->dentropy, p * (d - g->mean), gradient);
}

/* z: (V) work space */
static void cross_entropy_row(const tess_cross_entropy *a, int64_t r, float *z, float *logprob, float *entropy)
{
    const float *logits = a->logits + r * a->ld, *x = logits, factor = tess_factor_of(a->factor);
    const float inverse_cap = a->soft_cap != 0 ? 1 / a->soft_cap : 0;
    for (int64_t i = 0; tess_bends_logits(a) && i < a->V; i++) {
        z[i] = factor * logits[i];
        z[i] = a->soft_cap != 0 ? v_soft_cap(z[i], a->soft_cap, inverse_cap) : z[i];
        x = z;
    }
    ref_softmax_sums sums = sum_row(x, a->V, a->inv_temperature);
    float log_sum = v_log((float)sums.e), mean = (float)(sums.ex / sums.e);
    float at_target = (x[a->targets[r]] - sums.largest) * a->inv_temperature;
    *logprob = at_target - log_sum;
    *entropy = log_sum - mean;
    if (a->dlogits == NULL)
        return;
    ref_softmax_gradient g = {
        .x = x,
        .largest = sums.largest,
        .inverse = 1.0f / (float)sums.e,
        .mean = mean,
        .inv_temperature = a->inv_temperature,
        .inverse_cap = inverse_cap,
        .weight = (a->dlogprob != NULL ? -a->dlogprob[r] : 1.0f) * a->inv_temperature * factor,
        .dentropy = a->dentropy != NULL ? a->dentropy[r] * a->inv_temperature * factor : 0,
    };
    write_gradient(&g, a->V, a->dlogits, r * a->ldd, a->dtype);
    ref_put(a->dlogits, r * a->ldd + a->targets[r], gradient_at_target(&g, at_target) * slope_at(&g, a->targets[r]),
            a->dtype);
}

tess_status tess_ref_cross_entropy(tess_stream *s, const tess_cross_entropy *a)
{
    void *z;
    TESS_TRY(tess_check_cross_entropy(a));
    TESS_TRY(tess_stream_scratch(s, (size_t)a->V * sizeof(float), &z));
    for (int64_t r = 0; r < a->n; r++) {
        float logprob = 0, entropy = 0;
        if (a->targets[r] >= 0)
            cross_entropy_row(a, r, z, &logprob, &entropy);
        else if (a->dlogits != NULL)
            memset((char *)a->dlogits + (size_t)(r * a->ldd) * tess_dtype_size(a->dtype), 0,
                   (size_t)a->V * tess_dtype_size(a->dtype));
        if (a->logprob != NULL)
            a->logprob[r] = logprob;
        if (a->entropy != NULL)
            a->entropy[r] = entropy;
    }
    return TESS_OK;
}
