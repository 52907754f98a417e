#include <math.h>

#include "device/ref/ref_impl.h"
#include "device/ref/vec_ref.h"
#include "device/vmath.h"

/* Exponentials of a chunk are relative to its own largest element. */
typedef struct ref_softmax_chunk {
    float largest, e, ex; /* sums of e = exp(x - largest) and of e (x - largest), 0 where e is 0 (a masked logit) */
} ref_softmax_chunk;

/* Of the row, relative to its largest element. */
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

/* What is taken from a chunk's elements: its largest, but 0 where all are masked. */
static float base_of(float largest)
{
    return largest == -INFINITY ? 0 : largest;
}

static ref_softmax_chunk sum_chunk(const float *x, int64_t n)
{
    float e_lane[TESS_ROW_LANES] = {0}, ex_lane[TESS_ROW_LANES] = {0};
    float largest = largest_of(x, n);
    for (int64_t i = 0; i < n; i++) {
        float d = x[i] - base_of(largest), e = v_exp(d);
        e_lane[i % TESS_ROW_LANES] += e;
        ex_lane[i % TESS_ROW_LANES] += e == 0 ? 0 : e * d;
    }
    return (ref_softmax_chunk){largest, ref_fold(e_lane), ref_fold(ex_lane)};
}

static ref_softmax_sums sum_row(const float *x, int64_t V)
{
    ref_softmax_sums sums = {0, 0, largest_of(x, V)};
    for (int64_t begin = 0; begin < V; begin += TESS_SOFTMAX_CHUNK) {
        ref_softmax_chunk chunk = sum_chunk(x + begin, end_of_chunk(begin, V) - begin);
        float distance = chunk.largest - sums.largest;
        double factor = (double)v_exp(distance);
        sums.e += factor * (double)chunk.e;
        if (factor > 0)
            sums.ex += factor * ((double)chunk.ex + (double)distance * (double)chunk.e);
    }
    return sums;
}

/* dlogits[at + i] = exp(x[i] - largest) / sum, by way of the chunk's own largest; `inverse` is 1 / sum. */
static void write_gradient(const float *x, int64_t V, float largest, float inverse, void *dlogits, int64_t at,
                           tess_dtype dtype)
{
    for (int64_t begin = 0; begin < V; begin += TESS_SOFTMAX_CHUNK) {
        int64_t end = end_of_chunk(begin, V);
        float chunk_largest = largest_of(x + begin, end - begin);
        float scale = v_exp(chunk_largest - largest) * inverse;
        for (int64_t i = begin; i < end; i++)
            ref_put(dlogits, at + i, v_exp(x[i] - base_of(chunk_largest)) * scale, dtype);
    }
}

static tess_status cross_entropy(tess_stream *s, const float *logits, int64_t ld, const int32_t *targets,
                                 float *logprob, float *entropy, void *dlogits, int64_t ldd, int64_t n, int64_t V,
                                 tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("cross_entropy", dtype));
    for (int64_t r = 0; r < n; r++) {
        const float *x = logits + r * ld;
        float row_logprob = 0, row_entropy = 0;
        if (targets[r] < 0) {
            for (int64_t i = 0; i < V && dlogits != NULL; i++)
                ref_put(dlogits, r * ldd + i, 0.0f, dtype);
        } else {
            ref_softmax_sums sums = sum_row(x, V);
            float log_sum = v_log((float)sums.e), inverse = 1.0f / (float)sums.e;
            float at_target = x[targets[r]] - sums.largest;
            row_logprob = at_target - log_sum;
            row_entropy = log_sum - (float)(sums.ex / sums.e);
            if (dlogits != NULL) {
                write_gradient(x, V, sums.largest, inverse, dlogits, r * ldd, dtype);
                ref_put(dlogits, r * ldd + targets[r], v_exp(at_target) * inverse - 1.0f, dtype);
            }
        }
        if (logprob != NULL)
            logprob[r] = row_logprob;
        if (entropy != NULL)
            entropy[r] = row_entropy;
    }
    return TESS_OK;
}

void tess_ref_cross_entropy(tess_kernels *k)
{
    k->cross_entropy = cross_entropy;
}
