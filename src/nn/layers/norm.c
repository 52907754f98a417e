#include "nn/layers/layers.h"

tess_status tess_norm_forward(const tess_run *run, const tess_norm *norm, bool layer_norm, double eps, int64_t rows,
                              int64_t C, const void *x, const void *residual, void *h, void *y, tess_norm_stats stats)
{
    const void *w = run->w[norm->weight];
    if (!layer_norm)
        return run->kernels->rmsnorm_forward(run->stream, x, residual, h, w, y, stats.rstd, rows, C, (float)eps,
                                             run->dtype);
    const void *b = norm->bias >= 0 ? run->w[norm->bias] : NULL;
    return run->kernels->layernorm_forward(run->stream, x, residual, h, w, b, y, stats.mean, stats.rstd, rows, C,
                                           (float)eps, run->dtype);
}

tess_status tess_norm_backward(const tess_run *run, const tess_norm *norm, bool layer_norm, int64_t rows, int64_t C,
                               const void *h, tess_norm_stats stats, const void *dy, const void *dresidual, void *dx)
{
    const void *w = run->w[norm->weight];
    float *dw = run->dw[norm->weight];
    if (!layer_norm)
        return run->kernels->rmsnorm_backward(run->stream, h, w, stats.rstd, dy, dresidual, dx, dw, rows, C,
                                              run->dtype);
    float *db = norm->bias >= 0 ? run->dw[norm->bias] : NULL;
    return run->kernels->layernorm_backward(run->stream, h, w, stats.mean, stats.rstd, dy, dresidual, dx, dw, db, rows,
                                            C, run->dtype);
}
