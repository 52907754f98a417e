/* Norms: each warp has a row. Lane i of a warp has partial sums i and i + 32 of the row's 64 (device/elementwise.h), so
 * that the elements that a warp reads at a time are contiguous. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

enum { WARP = 32, ROWS = 4, COLUMNS = 128 }; /* ROWS, COLUMNS: rows or columns of a block of threads */

/* Folds the 64 partial sums of a row. All threads of the warp receive the sum. */
static __device__ inline float fold_row(float low, float high)
{
    return __shfl_sync(0xffffffffu, cuda_fold(low + high, WARP / 2), 0);
}

template <typename E> struct norm_forward {
    const E *x, *residual, *w, *b;
    E *h_out, *y;
    float *mean, *rstd;
    int64_t T, C;
    float eps;
    bool layer; /* LayerNorm. Otherwise RMSNorm, which has no mean and rounds before the product with w, too. */
};

template <typename E> static __device__ float mean_of_row(const E *h, int64_t C)
{
    float low = 0, high = 0;
    for (int64_t i = threadIdx.x % WARP; i < C; i += 2 * WARP) {
        low += cuda_load(&h[i]);
        if (i + WARP < C)
            high += cuda_load(&h[i + WARP]);
    }
    return fold_row(low, high) / (float)C;
}

template <typename E> static __device__ float rstd_of_row(const E *h, int64_t C, float mean, float eps)
{
    float low = 0, high = 0;
    for (int64_t i = threadIdx.x % WARP; i < C; i += 2 * WARP) {
        float d = cuda_load(&h[i]) - mean;
        low = fmaf(d, d, low);
        if (i + WARP < C) {
            d = cuda_load(&h[i + WARP]) - mean;
            high = fmaf(d, d, high);
        }
    }
    return 1.0f / sqrtf(fold_row(low, high) / (float)C + eps);
}

/* Writes x + residual to h_out, and returns the row to normalize. A thread later reads only what it wrote itself. */
template <typename E> static __device__ const E *add_residual(const norm_forward<E> &f, int64_t row)
{
    if (f.residual == NULL)
        return f.x + row;
    for (int64_t i = threadIdx.x % WARP; i < f.C; i += WARP)
        cuda_store(&f.h_out[row + i], cuda_load(&f.x[row + i]) + cuda_load(&f.residual[row + i]));
    return f.h_out + row;
}

template <typename E> static __global__ void norm_forward_kernel(norm_forward<E> f)
{
    int64_t t = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, row = t * f.C;
    if (t >= f.T)
        return;
    const E *h = add_residual(f, row);
    float mean = f.layer ? mean_of_row(h, f.C) : 0.0f, rstd = rstd_of_row(h, f.C, mean, f.eps);
    for (int64_t i = threadIdx.x % WARP; i < f.C; i += WARP) {
        float x = cuda_load(&h[i]), w = cuda_load(&f.w[i]);
        float y = f.layer ? (x - mean) * rstd * w : cuda_round<E>(x * rstd) * w;
        cuda_store(&f.y[row + i], f.b != NULL ? y + cuda_load(&f.b[i]) : y);
    }
    if (threadIdx.x % WARP == 0 && f.mean != NULL)
        f.mean[t] = mean;
    if (threadIdx.x % WARP == 0 && f.rstd != NULL)
        f.rstd[t] = rstd;
}

template <typename E>
static tess_status launch_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                  const void *b, void *y, float *mean, float *rstd, int64_t T, int64_t C, float eps,
                                  bool layer)
{
    norm_forward<E> f = {
        (const E *)x, (const E *)residual, (const E *)w, (const E *)b, (E *)h_out, (E *)y, mean, rstd, T, C, eps,
        layer};
    return TESS_CUDA_LAUNCH(norm_forward_kernel, (T + ROWS - 1) / ROWS, ROWS * WARP, 0, s, f);
}

static tess_status rmsnorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                   void *y, float *rstd, int64_t T, int64_t C, float eps, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("rmsnorm", dtype));
    if (T == 0)
        return TESS_OK;
    return TESS_CUDA_OF(dtype, launch_forward, s, x, residual, h_out, w, NULL, y, NULL, rstd, T, C, eps, false);
}

static tess_status layernorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                     const void *b, void *y, float *mean, float *rstd, int64_t T, int64_t C, float eps,
                                     tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("layernorm", dtype));
    if (T == 0)
        return TESS_OK;
    return TESS_CUDA_OF(dtype, launch_forward, s, x, residual, h_out, w, b, y, mean, rstd, T, C, eps, true);
}

/* ---- Backward: the sums over tokens are computed first, because dx may be dy's memory ---- */
template <typename E> struct norm_backward {
    const E *h, *w, *dy, *dresidual;
    const float *mean, *rstd; /* mean NULL: RMSNorm */
    E *dx;
    float *dw, *db;
    int64_t T, C;
};

/* Computes parts (2, blocks, C): for each TESS_NORM_BLOCK tokens, the sums of dy * xhat and of dy. Each thread has one
 * column. */
template <typename E> static __global__ void column_parts_kernel(norm_backward<E> g, float *parts)
{
    int64_t n_blocks = cuda_token_blocks(g.T), strips = (g.C + COLUMNS - 1) / COLUMNS;
    int64_t block = blockIdx.x / strips, c = blockIdx.x % strips * COLUMNS + threadIdx.x;
    int64_t begin = block * TESS_NORM_BLOCK, end = begin + TESS_NORM_BLOCK < g.T ? begin + TESS_NORM_BLOCK : g.T;
    float dw = 0, db = 0;
    if (c >= g.C)
        return;
    for (int64_t t = begin; t < end; t++) {
        float dy = cuda_load(&g.dy[t * g.C + c]), h = cuda_load(&g.h[t * g.C + c]);
        float xhat = (g.mean != NULL ? h - g.mean[t] : h) * g.rstd[t];
        dw = fmaf(dy, xhat, dw);
        db += dy;
    }
    parts[block * g.C + c] = dw;
    parts[(n_blocks + block) * g.C + c] = db;
}

template <typename E> static __global__ void column_sums_kernel(norm_backward<E> g, const float *parts)
{
    int64_t n_blocks = cuda_token_blocks(g.T), c = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
    float dw = 0, db = 0;
    if (c >= g.C)
        return;
    for (int64_t block = 0; block < n_blocks; block++) {
        dw += parts[block * g.C + c];
        db += parts[(n_blocks + block) * g.C + c];
    }
    if (g.dw != NULL)
        g.dw[c] = dw;
    if (g.db != NULL)
        g.db[c] = db;
}

template <typename E> static __global__ void norm_backward_kernel(norm_backward<E> g)
{
    int64_t t = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, row = t * g.C;
    if (t >= g.T)
        return;
    float mean = g.mean != NULL ? g.mean[t] : 0.0f, rstd = g.rstd[t];
    float xhat_sums[2] = {0, 0}, one_sums[2] = {0, 0};
    for (int64_t begin = threadIdx.x % WARP; begin < g.C; begin += 2 * WARP)
        for (int half = 0; half < 2; half++) {
            int64_t i = begin + half * WARP;
            if (i >= g.C)
                continue;
            float dh = cuda_load(&g.dy[row + i]) * cuda_load(&g.w[i]);
            float xhat = (cuda_load(&g.h[row + i]) - mean) * rstd;
            xhat_sums[half] = fmaf(dh, xhat, xhat_sums[half]);
            one_sums[half] += dh;
        }
    float mean_xhat = fold_row(xhat_sums[0], xhat_sums[1]) / (float)g.C;
    float mean_one = fold_row(one_sums[0], one_sums[1]) / (float)g.C;
    for (int64_t i = threadIdx.x % WARP; i < g.C; i += WARP) {
        float dh = cuda_load(&g.dy[row + i]) * cuda_load(&g.w[i]);
        float xhat = (cuda_load(&g.h[row + i]) - mean) * rstd;
        float dx = (dh - (g.mean != NULL ? mean_one : 0.0f) - xhat * mean_xhat) * rstd;
        cuda_store(&g.dx[row + i], g.dresidual != NULL ? dx + cuda_load(&g.dresidual[row + i]) : dx);
    }
}

template <typename E>
static tess_status launch_backward(tess_stream *s, const void *h, const void *w, const float *mean, const float *rstd,
                                   const void *dy, const void *dresidual, void *dx, float *dw, float *db, int64_t T,
                                   int64_t C)
{
    norm_backward<E> g = {
        (const E *)h, (const E *)w, (const E *)dy, (const E *)dresidual, mean, rstd, (E *)dx, dw, db, T, C};
    int64_t strips = (C + COLUMNS - 1) / COLUMNS, n_blocks = cuda_token_blocks(T);
    void *parts;
    if (dw != NULL || db != NULL) {
        TESS_TRY(tess_cuda_scratch(s, (size_t)(2 * n_blocks * C + 1) * sizeof(float), &parts));
        if (T > 0)
            TESS_TRY(TESS_CUDA_LAUNCH(column_parts_kernel, n_blocks * strips, COLUMNS, 0, s, g, (float *)parts));
        TESS_TRY(TESS_CUDA_LAUNCH(column_sums_kernel, strips, COLUMNS, 0, s, g, (const float *)parts));
    }
    return T > 0 ? TESS_CUDA_LAUNCH(norm_backward_kernel, (T + ROWS - 1) / ROWS, ROWS * WARP, 0, s, g) : TESS_OK;
}

static tess_status rmsnorm_backward(tess_stream *s, const void *h, const void *w, const float *rstd, const void *dy,
                                    const void *dresidual, void *dx, float *dw, int64_t T, int64_t C, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("rmsnorm backward", dtype));
    return TESS_CUDA_OF(dtype, launch_backward, s, h, w, NULL, rstd, dy, dresidual, dx, dw, NULL, T, C);
}

static tess_status layernorm_backward(tess_stream *s, const void *h, const void *w, const float *mean,
                                      const float *rstd, const void *dy, const void *dresidual, void *dx, float *dw,
                                      float *db, int64_t T, int64_t C, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("layernorm backward", dtype));
    return TESS_CUDA_OF(dtype, launch_backward, s, h, w, mean, rstd, dy, dresidual, dx, dw, db, T, C);
}

void tess_kernels_cuda_norm(tess_kernels *k)
{
    k->rmsnorm_forward = rmsnorm_forward;
    k->rmsnorm_backward = rmsnorm_backward;
    k->layernorm_forward = layernorm_forward;
    k->layernorm_backward = layernorm_backward;
}
