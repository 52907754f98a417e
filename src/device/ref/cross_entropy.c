#include <math.h>

#include "device/ref/ref_impl.h"
#include "device/ref/vec_ref.h"
#include "device/vmath.h"

/* Sum over the row of e = exp(x - largest), and of e (x - largest); 0 where e is 0, so that masked logits (-inf) are
 * fine. */
typedef struct softmax_sums {
    double e, ex;
} softmax_sums;

static softmax_sums sum_row(const float *x, int64_t V, float largest)
{
    softmax_sums sums = {0, 0};
    for (int64_t begin = 0; begin < V; begin += TESS_SOFTMAX_CHUNK) {
        float e_lane[TESS_ROW_LANES] = {0}, ex_lane[TESS_ROW_LANES] = {0};
        for (int64_t i = begin; i < V && i < begin + TESS_SOFTMAX_CHUNK; i++) {
            float d = x[i] - largest, e = v_exp(d);
            e_lane[i % TESS_ROW_LANES] += e;
            ex_lane[i % TESS_ROW_LANES] += e == 0 ? 0 : e * d;
        }
        sums.e += (double)ref_fold(e_lane);
        sums.ex += (double)ref_fold(ex_lane);
    }
    return sums;
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
            float largest = -INFINITY;
            for (int64_t i = 0; i < V; i++)
                largest = v_max(largest, x[i]);
            softmax_sums sums = sum_row(x, V, largest);
            float log_sum = v_log((float)sums.e), scale = 1.0f / (float)sums.e;
            float at_target = x[targets[r]] - largest;
            row_logprob = at_target - log_sum;
            row_entropy = log_sum - (float)(sums.ex / sums.e);
            for (int64_t i = 0; i < V && dlogits != NULL; i++)
                ref_put(dlogits, r * ldd + i, v_exp(x[i] - largest) * scale, dtype);
            if (dlogits != NULL)
                ref_put(dlogits, r * ldd + targets[r], v_exp(at_target) * scale - 1.0f, dtype);
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
