/* Norms, the definition. RMSNorm is LayerNorm without the mean, but rounds between the two products, as HF's RMSNorm
 * does. */
#include <math.h>

#include "device/ref/ref_impl.h"

static float mean_of_row(const void *h, int64_t row, int64_t C, tess_dtype dtype)
{
    float lane[TESS_ROW_LANES] = {0};
    for (int64_t i = 0; i < C; i++)
        lane[i % TESS_ROW_LANES] += ref_get(h, row + i, dtype);
    return ref_fold(lane) / (float)C;
}

static float rstd_of_row(const void *h, int64_t row, int64_t C, float mean, float eps, tess_dtype dtype)
{
    float lane[TESS_ROW_LANES] = {0};
    for (int64_t i = 0; i < C; i++) {
        float d = ref_get(h, row + i, dtype) - mean;
        lane[i % TESS_ROW_LANES] = fmaf(d, d, lane[i % TESS_ROW_LANES]);
    }
    return 1.0f / sqrtf(ref_fold(lane) / (float)C + eps);
}

static const void *add_residual(const void *x, const void *residual, void *h_out, int64_t n, tess_dtype dtype)
{
    if (residual == NULL)
        return x;
    for (int64_t i = 0; i < n; i++)
        ref_put(h_out, i, ref_get(x, i, dtype) + ref_get(residual, i, dtype), dtype);
    return h_out;
}

static tess_status rmsnorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                   void *y, float *rstd_out, int64_t T, int64_t C, float eps, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("rmsnorm", dtype));
    const void *h = add_residual(x, residual, h_out, T * C, dtype);
    for (int64_t t = 0; t < T; t++) {
        float rstd = rstd_of_row(h, t * C, C, 0.0f, eps, dtype);
        for (int64_t i = 0; i < C; i++) {
            float normed = ref_round(ref_get(h, t * C + i, dtype) * rstd, dtype);
            ref_put(y, t * C + i, normed * ref_get(w, i, dtype), dtype);
        }
        if (rstd_out != NULL)
            rstd_out[t] = rstd;
    }
    return TESS_OK;
}

static tess_status layernorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                     const void *b, void *y, float *mean_out, float *rstd_out, int64_t T, int64_t C,
                                     float eps, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("layernorm", dtype));
    const void *h = add_residual(x, residual, h_out, T * C, dtype);
    for (int64_t t = 0; t < T; t++) {
        float mean = mean_of_row(h, t * C, C, dtype);
        float rstd = rstd_of_row(h, t * C, C, mean, eps, dtype);
        for (int64_t i = 0; i < C; i++) {
            float scaled = (ref_get(h, t * C + i, dtype) - mean) * rstd * ref_get(w, i, dtype);
            ref_put(y, t * C + i, b != NULL ? scaled + ref_get(b, i, dtype) : scaled, dtype);
        }
        if (mean_out != NULL)
            mean_out[t] = mean;
        if (rstd_out != NULL)
            rstd_out[t] = rstd;
    }
    return TESS_OK;
}

typedef struct ref_norm_grad {
    const void *h, *w, *dy, *dresidual;
    const float *mean, *rstd; /* mean NULL: RMSNorm */
    void *dx;
    float *dw, *db;
    int64_t T, C;
    tess_dtype dtype;
} ref_norm_grad;

/* dw[c] = sum of dy * xhat, db[c] = sum of dy. A token takes an FMA for dw and an addition for db. */
static void sum_columns(const ref_norm_grad *g)
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

/* dx = (g - mean(g) - xhat mean(g xhat)) rstd + dresidual with g = dy w; RMSNorm has no mean(g). */
static void row_backward(const ref_norm_grad *g, int64_t t)
{
    float along_xhat[TESS_ROW_LANES] = {0}, along_one[TESS_ROW_LANES] = {0};
    float mean = g->mean != NULL ? g->mean[t] : 0.0f, rstd = g->rstd[t];
    int64_t row = t * g->C;
    for (int64_t i = 0; i < g->C; i++) {
        float dh = ref_get(g->dy, row + i, g->dtype) * ref_get(g->w, i, g->dtype);
        float xhat = (ref_get(g->h, row + i, g->dtype) - mean) * rstd;
        along_xhat[i % TESS_ROW_LANES] = fmaf(dh, xhat, along_xhat[i % TESS_ROW_LANES]);
        along_one[i % TESS_ROW_LANES] += dh;
    }
    float mean_xhat = ref_fold(along_xhat) / (float)g->C;
    float mean_one = g->mean != NULL ? ref_fold(along_one) / (float)g->C : 0.0f;
    for (int64_t i = 0; i < g->C; i++) {
        float dh = ref_get(g->dy, row + i, g->dtype) * ref_get(g->w, i, g->dtype);
        float xhat = (ref_get(g->h, row + i, g->dtype) - mean) * rstd;
        float dx = (dh - mean_one - xhat * mean_xhat) * rstd;
        if (g->dresidual != NULL)
            dx += ref_get(g->dresidual, row + i, g->dtype);
        ref_put(g->dx, row + i, dx, g->dtype);
    }
}

static void backward(const ref_norm_grad *g)
{
    sum_columns(g); /* before dx is written, because dx may be dy's memory */
    for (int64_t t = 0; t < g->T; t++)
        row_backward(g, t);
}

static tess_status rmsnorm_backward(tess_stream *s, const void *h, const void *w, const float *rstd, const void *dy,
                                    const void *dresidual, void *dx, float *dw, int64_t T, int64_t C, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("rmsnorm backward", dtype));
    backward(&(ref_norm_grad){h, w, dy, dresidual, NULL, rstd, dx, dw, NULL, T, C, dtype});
    return TESS_OK;
}

static tess_status layernorm_backward(tess_stream *s, const void *h, const void *w, const float *mean,
                                      const float *rstd, const void *dy, const void *dresidual, void *dx, float *dw,
                                      float *db, int64_t T, int64_t C, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("layernorm backward", dtype));
    backward(&(ref_norm_grad){h, w, dy, dresidual, mean, rstd, dx, dw, db, T, C, dtype});
    return TESS_OK;
}

void tess_ref_norm(tess_kernels *k)
{
    k->rmsnorm_forward = rmsnorm_forward;
    k->rmsnorm_backward = rmsnorm_backward;
    k->layernorm_forward = layernorm_forward;
    k->layernorm_backward = layernorm_backward;
}
