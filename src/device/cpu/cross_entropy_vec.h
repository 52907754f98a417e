/* Softmax cross-entropy of rows of logits: one read for the largest, one for the sums, one for the gradient; a row
 * stays in L2 between them. Compiled once per instruction set, by its table. */
#ifndef TESS_DEVICE_CPU_CROSS_ENTROPY_VEC_H
#define TESS_DEVICE_CPU_CROSS_ENTROPY_VEC_H

#include <math.h>

#include "device/cpu/vec_typed.h"
#include "device/vmath.h"

typedef struct cross_entropy_rows {
    const float *logits;
    const int32_t *targets;
    float *logprob, *entropy; /* either may be NULL */
    void *dlogits;            /* or NULL */
    int64_t ld, ldd, V;
    tess_dtype dtype;
} cross_entropy_rows;

typedef struct softmax_row {
    const float *x;
    float largest, scale;
    void *gradient;
    tess_dtype dtype;
} softmax_row;

static float largest_of_row(const float *x, int64_t V)
{
    vec largest[4] = {v_set(-INFINITY), v_set(-INFINITY), v_set(-INFINITY), v_set(-INFINITY)};
    int64_t i = 0;
    for (; i + 64 <= V; i += 64)
        for (int k = 0; k < 4; k++)
            largest[k] = v_max(largest[k], v_load(x + i + 16 * k, 16));
    for (; i + 16 <= V; i += 16)
        largest[0] = v_max(largest[0], v_load(x + i, 16));
    float result = v_largest(v_max(v_max(largest[0], largest[1]), v_max(largest[2], largest[3])));
    for (; i < V; i++)
        result = result > x[i] ? result : x[i];
    return result;
}

TESS_INLINE vec exp_term(const void *context, int64_t i, int64_t n, vec sum)
{
    const softmax_row *r = context;
    return v_add(sum, v_keep(v_exp(v_sub(v_load(r->x + i, n), v_set(r->largest))), n));
}

TESS_INLINE vec exp_x_term(const void *context, int64_t i, int64_t n, vec sum)
{
    const softmax_row *r = context;
    vec d = v_sub(v_load(r->x + i, n), v_set(r->largest)), e = v_exp(d), zero = v_set(0);
    return v_add(sum, v_keep(v_select(v_equal(e, zero), zero, v_mul(e, d)), n));
}

TESS_INLINE void gradient_part(const void *context, int64_t i, int64_t n)
{
    const softmax_row *r = context;
    vec e = v_exp(v_sub(v_load(r->x + i, n), v_set(r->largest)));
    v_put(r->gradient, i, v_mul(e, v_set(r->scale)), n, r->dtype);
}

/* The sum over the row: float within a chunk, double over the chunks. */
TESS_INLINE double sum_chunks(row_term term, const softmax_row *r, int64_t V)
{
    double sum = 0;
    for (int64_t begin = 0; begin < V; begin += TESS_SOFTMAX_CHUNK) {
        int64_t end = begin + TESS_SOFTMAX_CHUNK;
        sum += (double)row_sum(term, r, begin, end < V ? end : V);
    }
    return sum;
}

static float exp_of(float x)
{
    float lanes[16];
    v_store(lanes, v_exp(v_set(x)), 16);
    return lanes[0];
}

static float log_of(float x)
{
    float lanes[16];
    v_store(lanes, v_log(v_set(x)), 16);
    return lanes[0];
}

static void cross_entropy_row(const cross_entropy_rows *a, int64_t row, float *logprob, float *entropy)
{
    int32_t target = a->targets[row];
    softmax_row r = {.x = a->logits + row * a->ld, .dtype = a->dtype};
    r.largest = largest_of_row(r.x, a->V);
    double sum = sum_chunks(exp_term, &r, a->V);
    float log_sum = log_of((float)sum), at_target = r.x[target] - r.largest;
    r.scale = 1.0f / (float)sum;
    *logprob = at_target - log_sum;
    if (a->entropy != NULL)
        *entropy = log_sum - (float)(sum_chunks(exp_x_term, &r, a->V) / sum);
    if (a->dlogits == NULL)
        return;
    r.gradient = (char *)a->dlogits + (size_t)(row * a->ldd) * tess_dtype_size(a->dtype);
    float target_gradient = exp_of(at_target) * r.scale - 1.0f;
    if (a->dtype == TESS_F32) {
        row_each(gradient_part, &(softmax_row){r.x, r.largest, r.scale, r.gradient, TESS_F32}, 0, a->V);
        ((float *)r.gradient)[target] = target_gradient;
    } else {
        row_each(gradient_part, &(softmax_row){r.x, r.largest, r.scale, r.gradient, TESS_BF16}, 0, a->V);
        ((uint16_t *)r.gradient)[target] = tess_float_to_bf16(target_gradient);
    }
}

static void cross_entropy_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const cross_entropy_rows *a = context;
    size_t size = tess_dtype_size(a->dtype);
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        float logprob = 0, entropy = 0;
        if (a->targets[row] >= 0)
            cross_entropy_row(a, row, &logprob, &entropy);
        else if (a->dlogits != NULL)
            memset((char *)a->dlogits + (size_t)(row * a->ldd) * size, 0, (size_t)a->V * size);
        if (a->logprob != NULL)
            a->logprob[row] = logprob;
        if (a->entropy != NULL)
            a->entropy[row] = entropy;
    }
}

static tess_status cross_entropy(tess_stream *s, const float *logits, int64_t ld, const int32_t *targets,
                                 float *logprob, float *entropy, void *dlogits, int64_t ldd, int64_t n, int64_t V,
                                 tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("cross_entropy", dtype));
    cross_entropy_rows a = {logits, targets, logprob, entropy, dlogits, ld, ldd, V, dtype};
    tess_threads_run(s->threads, cross_entropy_loop, &a, n, tess_loop_grain(2 * V));
    return TESS_OK;
}

#endif
