/* RMSNorm and LayerNorm, forward. */
#include <math.h>

#include "device/cpu/vec_rows.h"

typedef struct norm_row {
    const tess_norm_args *args;
    void *h; /* x + residual is written here; x itself if there is no residual */
    int64_t offset;
    vec factor; /* factor of x in the sum */
    float mean, rstd;
    tess_dtype dtype;
    bool layer, one_plus_w;
} norm_row;

/* Returns elements of the row that is normalized: of x, or of factor * x + residual, which this function also writes to
 * h. */
TESS_INLINE pair norm_input(const norm_row *r, int64_t i, int64_t n)
{
    const tess_norm_args *a = r->args;
    int64_t at = r->offset + i;
    pair h = p_get(a->x, at, n, r->dtype);
    p_ahead(a->x, at, r->dtype);
    if (a->residual == NULL)
        return h;
    p_ahead(a->residual, at, r->dtype);
    h = p_round(p_fma(h, (pair){r->factor, r->factor}, p_get(a->residual, at, n, r->dtype)), r->dtype);
    p_put(r->h, at, h, n, r->dtype);
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
    pair d = p_keep(p_minus(p_get(r->h, r->offset + i, n, r->dtype), r->mean), n, r->dtype);
    sums[0] = p_fma(d, d, sums[0]);
}

TESS_INLINE void norm_scale(const void *context, int64_t i, int64_t n)
{
    const norm_row *r = context;
    pair h = p_get(r->h, r->offset + i, n, r->dtype), w = p_get(r->args->w, i, n, r->dtype);
    pair y;
    if (r->layer) {
        y = p_mul(p_scale(p_minus(h, r->mean), r->rstd), w);
        if (r->args->b != NULL)
            y = p_add(y, p_get(r->args->b, i, n, r->dtype));
    } else if (r->one_plus_w) {
        y = p_mul(p_scale(h, r->rstd), p_minus(w, -1));
    } else {
        y = p_mul(p_round(p_scale(h, r->rstd), r->dtype), w);
    }
    p_ahead(r->args->y, r->offset + i, r->dtype);
    p_put(r->args->y, r->offset + i, y, n, r->dtype);
}

TESS_INLINE void norm_rows(const tess_norm_args *a, int64_t begin, int64_t end, tess_dtype dtype, bool layer,
                           bool one_plus_w)
{
    void *h = a->residual != NULL ? a->h_out : (void *)a->x;
    for (int64_t t = begin; t < end; t++) {
        norm_row r = {.args = a, .h = h, .offset = t * a->C, .dtype = dtype, .layer = layer, .one_plus_w = one_plus_w};
        r.factor = v_set(tess_factor_of(a->factor));
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
        if (layer && a->mean != NULL)
            a->mean[t] = r.mean;
        if (a->rstd != NULL)
            a->rstd[t] = r.rstd;
    }
}

static void rmsnorm_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_norm_args *a = context;
    if (a->one_plus_w && a->dtype == TESS_F32)
        norm_rows(a, begin, end, TESS_F32, false, true);
    else if (a->one_plus_w)
        norm_rows(a, begin, end, TESS_BF16, false, true);
    else if (a->dtype == TESS_F32)
        norm_rows(a, begin, end, TESS_F32, false, false);
    else
        norm_rows(a, begin, end, TESS_BF16, false, false);
}

static void layernorm_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_norm_args *a = context;
    if (a->dtype == TESS_F32)
        norm_rows(a, begin, end, TESS_F32, true, false);
    else
        norm_rows(a, begin, end, TESS_BF16, true, false);
}

tess_status VEC_NAME(rmsnorm_forward)(tess_stream *s, const tess_norm_args *a)
{
    TESS_TRY(tess_check_dtype("rmsnorm", a->dtype));
    tess_threads_run(s->threads, rmsnorm_loop, (void *)a, a->T, tess_loop_grain(a->C));
    return TESS_OK;
}

tess_status VEC_NAME(layernorm_forward)(tess_stream *s, const tess_norm_args *a)
{
    TESS_TRY(tess_check_dtype("layernorm", a->dtype));
    tess_threads_run(s->threads, layernorm_loop, (void *)a, a->T, tess_loop_grain(a->C));
    return TESS_OK;
}
