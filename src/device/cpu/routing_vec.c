/* Mixtures of experts: the probabilities of routers, and sums over a token's experts. A combination reads K rows of C
 * channels and writes one; its gradient reads two rows and writes one for each of them. Memory limits both. */
#include <math.h>

#include "device/cpu/vec_rows.h"
#include "device/routing.h"
#include "device/vmath.h"

typedef struct route_row {
    const float *x;
    float *p;
    float largest, sum;
} route_row;

TESS_INLINE void route_terms(const void *context, int64_t i, int64_t n, pair *sums)
{
    const route_row *r = context;
    pair d = p_minus(p_get(r->x, i, n, TESS_F32), r->largest);
    pair e = {v_exp_bounded(d.a), v_exp_bounded(d.b)};
    p_put(r->p, i, e, n, TESS_F32);
    sums[0] = p_add(sums[0], p_keep(e, n, TESS_F32));
}

TESS_INLINE void route_scale(const void *context, int64_t i, int64_t n)
{
    const route_row *r = context;
    v_store(r->p + i, v_div(v_load(r->p + i, n), v_set(r->sum)), n);
}

TESS_INLINE void route_sigmoid(const void *context, int64_t i, int64_t n)
{
    const route_row *r = context;
    v_store(r->p + i, v_sigmoid(v_load(r->x + i, n)), n);
}

/* All lanes of x are the same. */
TESS_INLINE float one_lane(vec x)
{
    float lanes[16];
    v_store(lanes, x, 16);
    return lanes[0];
}

static void route_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_route_args *a = context;
    for (int64_t t = begin; t < end; t++) {
        route_row r = {.x = a->logits + t * a->E, .p = a->probs + t * a->E, .largest = -INFINITY};
        if (a->rule.sigmoid) {
            row_each(route_sigmoid, &r, 0, a->E);
            tess_route_choose(a, t);
            continue;
        }
        for (int64_t e = 0; e < a->E; e++)
            r.largest = r.x[e] > r.largest ? r.x[e] : r.largest;
        row_sums(route_terms, &r, 0, a->E, TESS_F32, 1, &r.sum);
        row_each(route_scale, &r, 0, a->E);
        if (a->lse != NULL)
            a->lse[t] = r.largest + one_lane(v_log(v_set(r.sum)));
        tess_route_choose(a, t);
    }
}

tess_status VEC_NAME(route)(tess_stream *s, const tess_route_args *a)
{
    TESS_TRY(tess_rule_check(a->E, a->K, &a->rule));
    tess_threads_run(s->threads, route_loop, (void *)a, a->T, tess_loop_grain(16 * a->E));
    return TESS_OK;
}

/* ---- Combination ---- */
typedef struct combine_row {
    const tess_combine_rows_args *args;
    int64_t token, offset;
    tess_dtype dtype;
} combine_row;

TESS_INLINE void combine_part(const void *context, int64_t i, int64_t n)
{
    const combine_row *r = context;
    const tess_combine_rows_args *a = r->args;
    vec sum = a->base != NULL ? v_get(a->base, r->offset + i, n, r->dtype) : v_set(0);
    for (int64_t k = 0; k < a->K; k++) {
        int64_t row = a->place != NULL ? a->place[r->token * a->K + k] : r->token;
        vec gate = v_set(a->gate != NULL ? a->gate[row] : 1);
        sum = v_fma(a->sigmoid ? v_sigmoid(gate) : gate, v_get(a->rows, row * a->C + i, n, r->dtype), sum);
    }
    v_put(a->y, r->offset + i, sum, n, r->dtype);
}

TESS_INLINE void combine_rows(const tess_combine_rows_args *a, int64_t begin, int64_t end, tess_dtype dtype)
{
    const tess_combine_rows_args copy = *a;
    for (int64_t t = begin; t < end; t++) {
        const combine_row r = {&copy, t, t * a->C, dtype};
        row_each(combine_part, &r, 0, a->C);
    }
}

static void combine_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_combine_rows_args *a = context;
    if (a->dtype == TESS_F32)
        combine_rows(a, begin, end, TESS_F32);
    else if (a->dtype == TESS_BF16)
        combine_rows(a, begin, end, TESS_BF16);
    else
        combine_rows(a, begin, end, TESS_F16);
}

tess_status VEC_NAME(combine_rows)(tess_stream *s, const tess_combine_rows_args *a)
{
    TESS_TRY(tess_combine_check(a->dtype));
    tess_threads_run(s->threads, combine_loop, (void *)a, a->T, tess_loop_grain(a->K * a->C));
    return TESS_OK;
}

/* ---- Its gradient ---- */
/* A sum along a row has 64 partial sums, which four vectors hold. */
enum { LANES = TESS_ROW_LANES / 16 };

TESS_INLINE void combine_grad_row(const tess_combine_grad_args *a, int64_t row, tess_dtype dtype)
{
    const int64_t C = a->C, dy = (a->token != NULL ? a->token[row] : row) * C, at = row * C;
    const vec x = v_set(a->gate[row]), gate = a->sigmoid ? v_sigmoid(x) : x;
    vec sum[LANES] = {v_set(0), v_set(0), v_set(0), v_set(0)};
    int64_t i = 0;
    for (; i + TESS_ROW_LANES <= C; i += TESS_ROW_LANES)
        for (int k = 0; k < LANES; k++) {
            vec d = v_get(a->dy, dy + i + 16 * k, 16, dtype);
            sum[k] = v_fma(d, v_get(a->rows, at + i + 16 * k, 16, dtype), sum[k]);
            v_put(a->drows, at + i + 16 * k, v_mul(gate, d), 16, dtype);
        }
    for (int k = 0; i < C; i += 16, k++) {
        int64_t n = C - i < 16 ? C - i : 16;
        vec d = v_get(a->dy, dy + i, n, dtype);
        sum[k] = v_fma(d, v_get(a->rows, at + i, n, dtype), sum[k]);
        v_put(a->drows, at + i, v_mul(gate, d), n, dtype);
    }
    const vec slope = a->sigmoid ? v_mul(gate, v_sigmoid(v_sub(v_set(0), x))) : v_set(1);
    a->dgate[row] = v_sum(v_add(v_add(sum[0], sum[2]), v_add(sum[1], sum[3]))) * one_lane(slope);
}

static void combine_grad_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_combine_grad_args a = *(const tess_combine_grad_args *)context;
    for (int64_t i = begin; i < end; i++)
        if (a.dtype == TESS_F32)
            combine_grad_row(&a, i, TESS_F32);
        else if (a.dtype == TESS_BF16)
            combine_grad_row(&a, i, TESS_BF16);
        else
            combine_grad_row(&a, i, TESS_F16);
}

tess_status VEC_NAME(combine_backward)(tess_stream *s, const tess_combine_grad_args *a)
{
    TESS_TRY(tess_combine_check(a->dtype));
    tess_threads_run(s->threads, combine_grad_loop, (void *)a, a->n, tess_loop_grain(a->C));
    return TESS_OK;
}
