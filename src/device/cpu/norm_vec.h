/* RMSNorm and LayerNorm, forward. Compiled once per instruction set, by its table. */
#ifndef TESS_DEVICE_CPU_NORM_VEC_H
#define TESS_DEVICE_CPU_NORM_VEC_H

#include <math.h>

#include "device/cpu/vec_typed.h"

typedef struct norm {
    const void *x, *residual, *w, *b;
    void *h, *y; /* h: where x + residual goes; x itself without a residual */
    float *mean_out, *rstd_out;
    int64_t C;
    float eps;
    tess_dtype dtype;
    bool layer; /* LayerNorm, else RMSNorm */
} norm;

typedef struct norm_row {
    const norm *norm;
    int64_t offset;
    float mean, rstd;
    tess_dtype dtype;
    bool layer;
} norm_row;

TESS_INLINE void norm_add_residual(const void *context, int64_t i, int64_t n)
{
    const norm_row *r = context;
    int64_t at = r->offset + i;
    v_put(r->norm->h, at, v_add(v_get(r->norm->x, at, n, r->dtype), v_get(r->norm->residual, at, n, r->dtype)), n,
          r->dtype);
}

TESS_INLINE vec norm_sum_term(const void *context, int64_t i, int64_t n, vec sum)
{
    const norm_row *r = context;
    return v_add(sum, v_get(r->norm->h, r->offset + i, n, r->dtype));
}

TESS_INLINE vec norm_square_term(const void *context, int64_t i, int64_t n, vec sum)
{
    const norm_row *r = context;
    vec d = v_get(r->norm->h, r->offset + i, n, r->dtype);
    if (r->layer)
        d = v_keep(v_sub(d, v_set(r->mean)), n);
    return v_fma(d, d, sum);
}

TESS_INLINE void norm_scale(const void *context, int64_t i, int64_t n)
{
    const norm_row *r = context;
    vec h = v_get(r->norm->h, r->offset + i, n, r->dtype), w = v_get(r->norm->w, i, n, r->dtype);
    vec y;
    if (r->layer) {
        y = v_mul(v_mul(v_sub(h, v_set(r->mean)), v_set(r->rstd)), w);
        if (r->norm->b != NULL)
            y = v_add(y, v_get(r->norm->b, i, n, r->dtype));
    } else {
        y = v_mul(v_round(v_mul(h, v_set(r->rstd)), r->dtype), w);
    }
    v_put(r->norm->y, r->offset + i, y, n, r->dtype);
}

TESS_INLINE void norm_rows(const norm *a, int64_t begin, int64_t end, tess_dtype dtype, bool layer)
{
    for (int64_t t = begin; t < end; t++) {
        norm_row r = {.norm = a, .offset = t * a->C, .dtype = dtype, .layer = layer};
        if (a->residual != NULL)
            row_each(norm_add_residual, &r, 0, a->C);
        if (layer)
            r.mean = row_sum(norm_sum_term, &r, 0, a->C) / (float)a->C;
        r.rstd = 1.0f / sqrtf(row_sum(norm_square_term, &r, 0, a->C) / (float)a->C + a->eps);
        row_each(norm_scale, &r, 0, a->C);
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
