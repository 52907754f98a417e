/* Norms, the definition. RMSNorm is LayerNorm without the mean, but rounds between the two products, as HF's RMSNorm
 * does. */
#include <math.h>

#include "device/ref/ref_impl.h"

static float mean_of_row(const tess_norm_args *a, const void *h, int64_t row)
{
    float lane[TESS_ROW_LANES] = {0};
    for (int64_t i = 0; i < a->C; i++)
        lane[i % TESS_ROW_LANES] += ref_get(h, row + i, a->dtype);
    return ref_fold(lane) / (float)a->C;
}

static float rstd_of_row(const tess_norm_args *a, const void *h, int64_t row, float mean)
{
    float lane[TESS_ROW_LANES] = {0};
    for (int64_t i = 0; i < a->C; i++) {
        float d = ref_get(h, row + i, a->dtype) - mean;
        lane[i % TESS_ROW_LANES] = fmaf(d, d, lane[i % TESS_ROW_LANES]);
    }
    return 1.0f / sqrtf(ref_fold(lane) / (float)a->C + a->eps);
}

/* Returns h. */
static const void *add_residual(const tess_norm_args *a)
{
    if (a->residual == NULL)
        return a->x;
    for (int64_t i = 0; i < a->T * a->C; i++)
        ref_put(a->h_out, i,
                fmaf(tess_factor_of(a->factor), ref_get(a->x, i, a->dtype), ref_get(a->residual, i, a->dtype)),
                a->dtype);
    return a->h_out;
}

tess_status tess_ref_rmsnorm_forward(TESS_UNUSED tess_stream *s, const tess_norm_args *a)
{
    TESS_TRY(tess_check_dtype("rmsnorm", a->dtype));
    const void *h = add_residual(a);
    for (int64_t t = 0; t < a->T; t++) {
        int64_t row = t * a->C;
        float rstd = rstd_of_row(a, h, row, 0.0f);
        for (int64_t i = 0; i < a->C; i++) {
            float normed = ref_get(h, row + i, a->dtype) * rstd, w = ref_get(a->w, i, a->dtype);
            ref_put(a->y, row + i, a->one_plus_w ? normed * (1 + w) : ref_round(normed, a->dtype) * w, a->dtype);
        }
        if (a->rstd != NULL)
            a->rstd[t] = rstd;
    }
    return TESS_OK;
}

tess_status tess_ref_layernorm_forward(TESS_UNUSED tess_stream *s, const tess_norm_args *a)
{
    TESS_TRY(tess_check_dtype("layernorm", a->dtype));
    const void *h = add_residual(a);
    for (int64_t t = 0; t < a->T; t++) {
        int64_t row = t * a->C;
        float mean = mean_of_row(a, h, row), rstd = rstd_of_row(a, h, row, mean);
        for (int64_t i = 0; i < a->C; i++) {
            float scaled = (ref_get(h, row + i, a->dtype) - mean) * rstd * ref_get(a->w, i, a->dtype);
            ref_put(a->y, row + i, a->b != NULL ? scaled + ref_get(a->b, i, a->dtype) : scaled, a->dtype);
        }
        if (a->mean != NULL)
            a->mean[t] = mean;
        if (a->rstd != NULL)
            a->rstd[t] = rstd;
    }
    return TESS_OK;
}

/* ---- Backward: the mean is NULL in the gradients of RMSNorm ---- */
/* dw[c] = sum of dy * xhat, db[c] = sum of dy. A token takes an FMA for dw and an addition for db. */
static void sum_columns(const tess_norm_grad_args *g)
{
    for (int64_t c = 0; c < g->C; c++) {
        float dw = 0, db = 0;
        for (int64_t begin = 0; begin < g->T; begin += TESS_NORM_BLOCK) {
            float block_dw = 0, block_db = 0;
            for (int64_t t = begin; t < g->T && t < begin + TESS_NORM_BLOCK; t++) {
                float dy = ref_get(g->dy, t * g->C + c, g->dtype), h = ref_get(g->h, t * g->C + c, g->dtype);
                float xhat = (g->mean != NULL ? h - g->mean[t] : h) * g->rstd[t];
                block_dw = fmaf(dy, xhat, block_dw);
                block_db += dy;
            }
            dw += block_dw;
            db += block_db;
        }
        if (g->dw != NULL)
            g->dw[c] = dw;
        if (g->db != NULL)
            g->db[c] = db;
    }
}

/* Returns dy w, or dy (1 + w). */
static float scaled_gradient(const tess_norm_grad_args *g, int64_t row, int64_t i)
{
    float w = ref_get(g->w, i, g->dtype);
    return ref_get(g->dy, row + i, g->dtype) * (g->one_plus_w ? 1 + w : w);
}

/* dx = (g - mean(g) - xhat mean(g xhat)) rstd + dresidual with g = dy w; RMSNorm has no mean(g). */
static void row_backward(const tess_norm_grad_args *g, int64_t t)
{
    float along_xhat[TESS_ROW_LANES] = {0}, along_one[TESS_ROW_LANES] = {0};
    float mean = g->mean != NULL ? g->mean[t] : 0.0f, rstd = g->rstd[t];
    int64_t row = t * g->C;
    for (int64_t i = 0; i < g->C; i++) {
        float dh = scaled_gradient(g, row, i);
        float xhat = (ref_get(g->h, row + i, g->dtype) - mean) * rstd;
        along_xhat[i % TESS_ROW_LANES] = fmaf(dh, xhat, along_xhat[i % TESS_ROW_LANES]);
        along_one[i % TESS_ROW_LANES] += dh;
    }
    float mean_xhat = ref_fold(along_xhat) / (float)g->C;
    float mean_one = g->mean != NULL ? ref_fold(along_one) / (float)g->C : 0.0f;
    for (int64_t i = 0; i < g->C; i++) {
        float dh = scaled_gradient(g, row, i);
        float xhat = (ref_get(g->h, row + i, g->dtype) - mean) * rstd;
        float dx = (dh - mean_one - xhat * mean_xhat) * rstd;
        if (g->dresidual != NULL)
            dx += ref_get(g->dresidual, row + i, g->dtype);
        ref_put(g->dx, row + i, dx, g->dtype);
        if (g->dbranch != NULL)
            ref_put(g->dbranch, row + i, tess_factor_of(g->factor) * dx, g->dtype);
    }
}

static void backward(const tess_norm_grad_args *g)
{
    sum_columns(g); /* before dx is written, because dx may be dy's memory */
    for (int64_t t = 0; t < g->T; t++)
        row_backward(g, t);
}

tess_status tess_ref_rmsnorm_backward(TESS_UNUSED tess_stream *s, const tess_norm_grad_args *a)
{
    TESS_TRY(tess_check_dtype("rmsnorm backward", a->dtype));
    tess_norm_grad_args g = *a;
    g.mean = NULL;
    g.db = NULL;
    backward(&g);
    return TESS_OK;
}

tess_status tess_ref_layernorm_backward(TESS_UNUSED tess_stream *s, const tess_norm_grad_args *a)
{
    TESS_TRY(tess_check_dtype("layernorm backward", a->dtype));
    tess_norm_grad_args g = *a;
    g.one_plus_w = false;
    backward(&g);
    return TESS_OK;
}
