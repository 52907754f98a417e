/* RMSNorm and LayerNorm, forward. Compiled once per instruction set, by its table. */
#ifndef TESS_DEVICE_CPU_NORM_VEC_H
#define TESS_DEVICE_CPU_NORM_VEC_H

#include <math.h>

#include "device/cpu/vec_typed.h"

typedef struct norm {
    const void *x, *residual, *w, *b;
    void *h, *y; /* h: x + residual is written here; x itself if there is no residual */
    float *mean_out, *rstd_out;
    int64_t C;
    float eps;
    tess_dtype dtype;
    bool layer; /* LayerNorm; otherwise RMSNorm */
} norm;

typedef struct norm_row {
    const norm *norm;
    int64_t offset;
    float mean, rstd;
    tess_dtype dtype;
    bool layer;
} norm_row;

/* Returns elements of the row that is normalized: of x, or of x + residual, which this function also writes to h. */
TESS_INLINE pair norm_input(const norm_row *r, int64_t i, int64_t n)
{
    const norm *a = r->norm;
    int64_t at = r->offset + i;
    pair h = p_get(a->x, at, n, r->dtype);
    p_ahead(a->x, at, r->dtype);
    if (a->residual == NULL)
        return h;
    p_ahead(a->residual, at, r->dtype);
    h = p_round(p_add(h, p_get(a->residual, at, n, r->dtype)), r->dtype);
    p_put(a->h, at, h, n, r->dtype);
    return h;
}

TESS_INLINE void norm_sum_terms(const void *context, int64_t i, int64_t n, pair *sums)
{
    sums[0] = p_add(sums[0], norm_input(context, i, n));
}

TESS_INLINE void norm_input_squares(const void *context, int64_t i, int64_t n, pair *sums)
{
    pair h = norm_input(context, i, n);
    sums[0] = p_fma(h, h, sums[0]);
}

TESS_INLINE void norm_deviation_squares(const void *context, int64_t i, int64_t n, pair *sums)
{
    const norm_row *r = context;
    pair d = p_keep(p_minus(p_get(r->norm->h, r->offset + i, n, r->dtype), r->mean), n, r->dtype);
    sums[0] = p_fma(d, d, sums[0]);
}

TESS_INLINE void norm_scale(const void *context, int64_t i, int64_t n)
{
    const norm_row *r = context;
    pair h = p_get(r->norm->h, r->offset + i, n, r->dtype), w = p_get(r->norm->w, i, n, r->dtype);
    pair y;
    if (r->layer) {
        y = p_mul(p_scale(p_minus(h, r->mean), r->rstd), w);
        if (r->norm->b != NULL)
            y = p_add(y, p_get(r->norm->b, i, n, r->dtype));
    } else {
        y = p_mul(p_round(p_scale(h, r->rstd), r->dtype), w);
    }
    p_ahead(r->norm->y, r->offset + i, r->dtype);
    p_put(r->norm->y, r->offset + i, y, n, r->dtype);
}

TESS_INLINE void norm_rows(const norm *a, int64_t begin, int64_t end, tess_dtype dtype, bool layer)
{
    for (int64_t t = begin; t < end; t++) {
        norm_row r = {.norm = a, .offset = t * a->C, .dtype = dtype, .layer = layer};
        float sum, squares;
        if (layer) {
            row_sums(norm_sum_terms, &r, 0, a->C, dtype, 1, &sum);
            r.mean = sum / (float)a->C;
            row_sums(norm_deviation_squares, &r, 0, a->C, dtype, 1, &squares);
        } else {
            row_sums(norm_input_squares, &r, 0, a->C, dtype, 1, &squares);
        }
        r.rstd = 1.0f / sqrtf(squares / (float)a->C + a->eps);
        row_pairs(norm_scale, &r, 0, a->C);
        if (a->mean_out != NULL)
            a->mean_out[t] = r.mean;
        if (a->rstd_out != NULL)
            a->rstd_out[t] = r.rstd;
    }
}

static void norm_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const norm *a = context;
    (void)worker;
    if (a->layer && a->dtype == TESS_F32)
        norm_rows(a, begin, end, TESS_F32, true);
    else if (a->layer)
        norm_rows(a, begin, end, TESS_BF16, true);
    else if (a->dtype == TESS_F32)
        norm_rows(a, begin, end, TESS_F32, false);
    else
        norm_rows(a, begin, end, TESS_BF16, false);
}

static tess_status rmsnorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                   void *y, float *rstd, int64_t T, int64_t C, float eps, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("rmsnorm", dtype));
    norm a = {.x = x, .residual = residual, .w = w, .y = y, .rstd_out = rstd, .C = C, .eps = eps, .dtype = dtype};
    a.h = residual != NULL ? h_out : (void *)x;
    tess_threads_run(s->threads, norm_loop, &a, T, tess_loop_grain(C));
    return TESS_OK;
}

static tess_status layernorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                     const void *b, void *y, float *mean, float *rstd, int64_t T, int64_t C, float eps,
                                     tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("layernorm", dtype));
    norm a = {
        .x = x, .residual = residual, .w = w, .b = b, .y = y, .mean_out = mean, .rstd_out = rstd, .C = C, .eps = eps};
    a.h = residual != NULL ? h_out : (void *)x;
    a.dtype = dtype;
    a.layer = true;
    tess_threads_run(s->threads, norm_loop, &a, T, tess_loop_grain(C));
    return TESS_OK;
}

#endif
