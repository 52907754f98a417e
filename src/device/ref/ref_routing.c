/* Mixtures of experts, the definition: p = softmax(logits) or sigmoid(logits), the K largest p of a token, and y = sum
 * of p expert(x). The rows between are sorted by (expert, token). */
#include "device/routing.h"

#include <math.h>

#include "device/ref/ref_impl.h"
#include "device/ref/vec_ref.h"
#include "device/stream_impl.h"
#include "device/vmath.h"

static void softmax(const float *x, int64_t E, float *p, float *lse)
{
    float largest = -INFINITY, lane[TESS_ROW_LANES] = {0};
    for (int64_t e = 0; e < E; e++)
        largest = v_max(x[e], largest);
    for (int64_t e = 0; e < E; e++) {
        p[e] = v_exp_bounded(x[e] - largest);
        lane[e % TESS_ROW_LANES] += p[e];
    }
    float sum = ref_fold(lane);
    for (int64_t e = 0; e < E; e++)
        p[e] = p[e] / sum;
    if (lse != NULL)
        *lse = largest + v_log(sum);
}

tess_status tess_ref_route(TESS_UNUSED tess_stream *s, const tess_route_args *a)
{
    TESS_TRY(tess_rule_check(a->E, a->K, &a->rule));
    for (int64_t t = 0; t < a->T; t++) {
        if (!a->rule.sigmoid)
            softmax(a->logits + t * a->E, a->E, a->probs + t * a->E, a->lse != NULL ? a->lse + t : NULL);
        for (int64_t i = t * a->E; a->rule.sigmoid && i < (t + 1) * a->E; i++)
            a->probs[i] = v_sigmoid(a->logits[i]);
        tess_route_choose(a, t);
    }
    return TESS_OK;
}

static void gradient_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    for (int64_t t = begin; t < end; t++)
        tess_route_gradient(context, t);
}

/* The loops over tokens of this row and the next one serve all tables of the host: they move E and K numbers a token,
 * next to C channels of each of its rows. */
tess_status tess_ref_route_backward(tess_stream *s, const tess_route_grad_args *a)
{
    TESS_TRY(tess_route_check(a->E, a->K));
    TESS_TRY(tess_check_dtype("route backward", a->dtype));
    tess_threads_run(s->threads, gradient_loop, (void *)a, a->T, tess_loop_grain(4 * a->E));
    return TESS_OK;
}

/* A counting sort: `ends` counts the rows of each expert and leaf, then holds the next free one. */
static void sort_loop(void *context, TESS_UNUSED int64_t begin, TESS_UNUSED int64_t end, TESS_UNUSED int worker)
{
    const tess_sort_rows_args *a = context;
    const int64_t n = a->leaves, pairs = a->T / n * a->K; /* those of a leaf */
    int32_t next = 0;
    for (int64_t i = 0; i < a->E * n; i++)
        a->ends[i] = 0;
    for (int64_t leaf = 0; leaf < n; leaf++)
        for (int64_t i = leaf * pairs; i < (leaf + 1) * pairs; i++)
            a->ends[a->chosen[i] * n + leaf]++;
    for (int64_t i = 0; i < a->E * n; i++) {
        int32_t count = a->ends[i];
        a->ends[i] = next;
        next += count;
    }
    for (int64_t leaf = 0; leaf < n; leaf++)
        for (int64_t i = leaf * pairs; i < (leaf + 1) * pairs; i++) {
            int32_t row = a->ends[a->chosen[i] * n + leaf]++;
            a->place[i] = row;
            a->token[row] = (int32_t)(i / a->K);
            a->gate[row] = a->weights[i];
        }
}

tess_status tess_ref_sort_rows(tess_stream *s, const tess_sort_rows_args *a)
{
    TESS_TRY(tess_sort_rows_check(a));
    tess_threads_run(s->threads, sort_loop, (void *)a, 1, 1);
    return TESS_OK;
}

tess_status tess_ref_combine_rows(TESS_UNUSED tess_stream *s, const tess_combine_rows_args *a)
{
    TESS_TRY(tess_combine_check(a->dtype));
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t c = 0; c < a->C; c++) {
            size_t at = (size_t)(t * a->C + c);
            float sum = a->base != NULL ? tess_get_float(a->base, a->dtype, at) : 0;
            for (int64_t k = 0; k < a->K; k++) {
                int64_t i = a->place != NULL ? a->place[t * a->K + k] : t;
                float gate = a->gate != NULL ? a->gate[i] : 1;
                sum = fmaf(a->sigmoid ? v_sigmoid(gate) : gate,
                           tess_get_float(a->rows, a->dtype, (size_t)(i * a->C + c)), sum);
            }
            tess_put_float(a->y, a->dtype, at, sum);
        }
    return TESS_OK;
}

tess_status tess_ref_combine_backward(TESS_UNUSED tess_stream *s, const tess_combine_grad_args *a)
{
    TESS_TRY(tess_combine_check(a->dtype));
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t t = a->token != NULL ? a->token[i] : i;
        const float x = a->gate[i], gate = a->sigmoid ? v_sigmoid(x) : x;
        float lane[TESS_ROW_LANES] = {0};
        for (int64_t c = 0; c < a->C; c++) {
            size_t at = (size_t)(i * a->C + c);
            float dy = tess_get_float(a->dy, a->dtype, (size_t)(t * a->C + c));
            lane[c % TESS_ROW_LANES] = fmaf(dy, tess_get_float(a->rows, a->dtype, at), lane[c % TESS_ROW_LANES]);
            tess_put_float(a->drows, a->dtype, at, gate * dy);
        }
        a->dgate[i] = ref_fold(lane) * (a->sigmoid ? gate * v_sigmoid(-x) : 1);
    }
    return TESS_OK;
}
