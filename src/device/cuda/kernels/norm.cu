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

/* Writes factor * x + residual to h_out, and returns the row to normalize. A thread later reads only what it wrote
 * itself. */
template <typename E> static __device__ const E *add_residual(const tess_norm_args &a, int64_t row)
{
    const E *x = (const E *)a.x + row;
    if (a.residual == NULL)
        return x;
    const E *residual = (const E *)a.residual + row;
    E *h = (E *)a.h_out + row;
    for (int64_t i = threadIdx.x % WARP; i < a.C; i += WARP)
        cuda_store(&h[i], fmaf(tess_factor_of(a.factor), cuda_load(&x[i]), cuda_load(&residual[i])));
    return h;
}

/* Computes LayerNorm, or RMSNorm, which has no mean and rounds before the product with w, too. */
template <typename E> static __global__ void norm_forward_kernel(tess_norm_args a, bool layer)
{
    int64_t t = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, row = t * a.C;
    if (t >= a.T)
        return;
    const E *h = add_residual<E>(a, row), *b = (const E *)a.b;
    float mean = layer ? mean_of_row(h, a.C) : 0.0f, rstd = rstd_of_row(h, a.C, mean, a.eps);
    for (int64_t i = threadIdx.x % WARP; i < a.C; i += WARP) {
        float x = cuda_load(&h[i]), w = cuda_load((const E *)a.w + i);
        float y = layer ? (x - mean) * rstd * w : a.one_plus_w ? x * rstd * (1 + w) : cuda_round<E>(x * rstd) * w;
        cuda_store((E *)a.y + row + i, b != NULL ? y + cuda_load(&b[i]) : y);
    }
    if (threadIdx.x % WARP == 0 && a.mean != NULL)
        a.mean[t] = mean;
    if (threadIdx.x % WARP == 0 && a.rstd != NULL)
        a.rstd[t] = rstd;
}

static tess_status launch_forward(tess_stream *s, const tess_norm_args *a, bool layer)
{
    const int64_t blocks = (a->T + ROWS - 1) / ROWS;
    if (a->T == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, norm_forward_kernel, blocks, ROWS * WARP, 0, s, *a, layer);
}

static tess_status rmsnorm_forward(tess_stream *s, const tess_norm_args *a)
{
    tess_norm_args own = *a;
    own.b = NULL;
    own.mean = NULL;
    TESS_TRY(tess_check_dtype("rmsnorm", a->dtype));
    return launch_forward(s, &own, false);
}

static tess_status layernorm_forward(tess_stream *s, const tess_norm_args *a)
{
    TESS_TRY(tess_check_dtype("layernorm", a->dtype));
    return launch_forward(s, a, true);
}

/* ---- Backward: the sums over tokens are computed first, because dx may be dy's memory. RMSNorm's mean is NULL ---- */
/* Computes parts (2, blocks, C): for each TESS_NORM_BLOCK tokens, the sums of dy * xhat and of dy. Each thread has one
 * column. */
template <typename E> static __global__ void column_parts_kernel(tess_norm_grad_args a, float *parts)
{
    int64_t n_blocks = cuda_token_blocks(a.T), strips = (a.C + COLUMNS - 1) / COLUMNS;
    int64_t block = blockIdx.x / strips, c = blockIdx.x % strips * COLUMNS + threadIdx.x;
    int64_t begin = block * TESS_NORM_BLOCK, end = begin + TESS_NORM_BLOCK < a.T ? begin + TESS_NORM_BLOCK : a.T;
    float dw = 0, db = 0;
    if (c >= a.C)
        return;
    for (int64_t t = begin; t < end; t++) {
        float dy = cuda_load((const E *)a.dy + t * a.C + c), h = cuda_load((const E *)a.h + t * a.C + c);
        float xhat = (a.mean != NULL ? h - a.mean[t] : h) * a.rstd[t];
        dw = fmaf(dy, xhat, dw);
        db += dy;
    }
    parts[block * a.C + c] = dw;
    parts[(n_blocks + block) * a.C + c] = db;
}

static __global__ void column_sums_kernel(tess_norm_grad_args a, const float *parts)
{
    int64_t n_blocks = cuda_token_blocks(a.T), c = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
    float dw = 0, db = 0;
    if (c >= a.C)
        return;
    for (int64_t block = 0; block < n_blocks; block++) {
        dw += parts[block * a.C + c];
        db += parts[(n_blocks + block) * a.C + c];
    }
    if (a.dw != NULL)
        a.dw[c] = dw;
    if (a.db != NULL)
        a.db[c] = db;
}

/* Returns dy w, or dy (1 + w). */
static __device__ inline float scaled_gradient(float dy, float w, bool one_plus_w)
{
    return dy * (one_plus_w ? 1 + w : w);
}

template <typename E> static __global__ void norm_backward_kernel(tess_norm_grad_args a)
{
    int64_t t = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, row = t * a.C;
    if (t >= a.T)
        return;
    const E *h = (const E *)a.h + row, *dy = (const E *)a.dy + row, *w = (const E *)a.w;
    float mean = a.mean != NULL ? a.mean[t] : 0.0f, rstd = a.rstd[t];
    float xhat_sums[2] = {0, 0}, one_sums[2] = {0, 0};
    for (int64_t begin = threadIdx.x % WARP; begin < a.C; begin += 2 * WARP)
        for (int half = 0; half < 2; half++) {
            int64_t i = begin + half * WARP;
            if (i >= a.C)
                continue;
            float dh = scaled_gradient(cuda_load(&dy[i]), cuda_load(&w[i]), a.one_plus_w);
            float xhat = (cuda_load(&h[i]) - mean) * rstd;
            xhat_sums[half] = fmaf(dh, xhat, xhat_sums[half]);
            one_sums[half] += dh;
        }
    float mean_xhat = fold_row(xhat_sums[0], xhat_sums[1]) / (float)a.C;
    float mean_one = fold_row(one_sums[0], one_sums[1]) / (float)a.C;
    for (int64_t i = threadIdx.x % WARP; i < a.C; i += WARP) {
        float dh = scaled_gradient(cuda_load(&dy[i]), cuda_load(&w[i]), a.one_plus_w);
        float xhat = (cuda_load(&h[i]) - mean) * rstd;
        float dx = (dh - (a.mean != NULL ? mean_one : 0.0f) - xhat * mean_xhat) * rstd;
        if (a.dresidual != NULL)
            dx += cuda_load((const E *)a.dresidual + row + i);
        cuda_store((E *)a.dx + row + i, dx);
        if (a.dbranch != NULL)
            cuda_store((E *)a.dbranch + row + i, tess_factor_of(a.factor) * dx);
    }
}

static tess_status launch_backward(tess_stream *s, const tess_norm_grad_args *a)
{
    const int64_t strips = (a->C + COLUMNS - 1) / COLUMNS, n_blocks = cuda_token_blocks(a->T);
    const int64_t blocks = (a->T + ROWS - 1) / ROWS;
    void *memory;
    if (a->dw != NULL || a->db != NULL) {
        TESS_TRY(tess_cuda_scratch(s, (size_t)(2 * n_blocks * a->C + 1) * sizeof(float), &memory));
        float *parts = (float *)memory;
        if (a->T > 0)
            TESS_TRY(TESS_CUDA_LAUNCH_OF(a->dtype, column_parts_kernel, n_blocks * strips, COLUMNS, 0, s, *a, parts));
        TESS_TRY(TESS_CUDA_LAUNCH(column_sums_kernel, strips, COLUMNS, 0, s, *a, parts));
    }
    if (a->T == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, norm_backward_kernel, blocks, ROWS * WARP, 0, s, *a);
}

static tess_status rmsnorm_backward(tess_stream *s, const tess_norm_grad_args *a)
{
    tess_norm_grad_args own = *a;
    own.mean = NULL;
    own.db = NULL;
    TESS_TRY(tess_check_dtype("rmsnorm backward", a->dtype));
    return launch_backward(s, &own);
}

static tess_status layernorm_backward(tess_stream *s, const tess_norm_grad_args *a)
{
    tess_norm_grad_args own = *a;
    own.one_plus_w = false;
    TESS_TRY(tess_check_dtype("layernorm backward", a->dtype));
    return launch_backward(s, &own);
}

void tess_kernels_cuda_norm(tess_kernels *k)
{
    k->rmsnorm_forward = rmsnorm_forward;
    k->rmsnorm_backward = rmsnorm_backward;
    k->layernorm_forward = layernorm_forward;
    k->layernorm_backward = layernorm_backward;
}
