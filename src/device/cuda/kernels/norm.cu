/* Norms. A row has 64 partial sums; element i belongs to sum i % 64 (device/elementwise.h). A thread has W neighbouring
 * sums, whose elements one access reads, so that 64 / W threads have a row and a warp has several rows. W is 2, and
 * elements are read one by one, where sizes or addresses do not allow accesses of 16 bytes. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

/* NARROW: the smaller W; WIDTH: bytes of an access of the larger one; MOST_SHARED: bytes of shared memory that leave
 * room for half of the threads of a multiprocessor */
enum { WARP = 32, WARPS = 8, THREADS = WARP * WARPS, LANES = TESS_ROW_LANES, NARROW = 2, WIDTH = 16, COLUMNS = 128 };
enum { MOST_SHARED = 48 << 10 };

/* The bytes of one access of the larger W. */
typedef struct alignas(WIDTH) norm_piece {
    uint32_t words[WIDTH / sizeof(uint32_t)];
} norm_piece;

/* Rows of a warp, and of a block of threads. */
template <int W> struct norm_rows {
    enum { THREADS_OF_ROW = LANES / W, OF_WARP = WARP / THREADS_OF_ROW, OF_BLOCK = WARPS * OF_WARP };
};

/* The number of this thread's row in its block of threads, and its first element. */
template <int W> static __device__ inline int row_of_thread(void)
{
    return (int)threadIdx.x / norm_rows<W>::THREADS_OF_ROW;
}

template <int W> static __device__ inline int64_t first_of_thread(void)
{
    return (int64_t)(threadIdx.x % norm_rows<W>::THREADS_OF_ROW) * W;
}

/* Returns how many of the W elements from element i on a row of C has. */
template <int W> static __device__ inline int count_at(int64_t i, int64_t C)
{
    return W > NARROW || C - i > W ? W : (int)(C - i);
}

/* Reads W elements from x on, of which n exist. */
template <typename E, int W> static __device__ inline void load(float (&to)[W], const E *x, int n)
{
    if constexpr (W > NARROW) {
        cuda_load_wide(to, x);
    } else {
        for (int j = 0; j < W; j++)
            to[j] = j < n ? cuda_load(x + j) : 0.0f;
    }
}

template <typename E, int W> static __device__ inline void store(E *x, const float (&values)[W], int n)
{
    if constexpr (W > NARROW) {
        cuda_store_wide(x, values);
    } else {
        for (int j = 0; j < W && j < n; j++)
            cuda_store(x + j, values[j]);
    }
}

/* Folds the 64 partial sums of a row: i + (i + 32), then 16, 8, 4, 2, 1. All threads of the row receive the sum. All
 * threads of the warp call. */
template <int W> static __device__ inline float fold_row(float (&sum)[W])
{
    TESS_CUDA_UNROLL
    for (int apart = LANES / 2; apart >= W; apart /= 2) {
        TESS_CUDA_UNROLL
        for (int j = 0; j < W; j++)
            sum[j] += __shfl_down_sync(0xffffffffu, sum[j], (unsigned)(apart / W));
    }
    TESS_CUDA_UNROLL
    for (int apart = W / 2; apart > 0; apart /= 2) {
        TESS_CUDA_UNROLL
        for (int j = 0; j < apart; j++)
            sum[j] += sum[j + apart];
    }
    enum { OF_ROW = norm_rows<W>::THREADS_OF_ROW };
    return __shfl_sync(0xffffffffu, sum[0], threadIdx.x % WARP / OF_ROW * OF_ROW);
}

/* Adds the C elements of a row: sum = f(sum, element). C is 0 if the thread has no row. */
template <typename E, int W, typename F> static __device__ inline float sum_of_row(const E *h, int64_t C, F f)
{
    float sum[W] = {};
    for (int64_t i = first_of_thread<W>(); i < C; i += LANES) {
        const int n = count_at<W>(i, C);
        float x[W];
        load(x, h + i, n);
        TESS_CUDA_UNROLL
        for (int j = 0; j < W; j++)
            if (j < n)
                sum[j] = f(sum[j], x[j]);
    }
    return fold_row(sum);
}

/* Writes factor * x + residual to h_out and, if it is not NULL, to `copy`. Returns the row to normalize. A thread later
 * reads only what it wrote itself. */
template <typename E, int W>
static __device__ inline const E *add_residual(const tess_norm_args &a, int64_t row, int64_t C, E *copy)
{
    const E *x = (const E *)a.x + row;
    if (a.residual == NULL)
        return x;
    const E *residual = (const E *)a.residual + row;
    E *h = (E *)a.h_out + row;
    for (int64_t i = first_of_thread<W>(); i < C; i += LANES) {
        const int n = count_at<W>(i, C);
        float sum[W], other[W];
        load(sum, x + i, n);
        load(other, residual + i, n);
        TESS_CUDA_UNROLL
        for (int j = 0; j < W; j++)
            sum[j] = fmaf(tess_factor_of(a.factor), sum[j], other[j]);
        store(h + i, sum, n);
        if (copy != NULL)
            store(copy + i, sum, n);
    }
    return copy != NULL ? copy : h;
}

/* Computes LayerNorm, or RMSNorm, which has no mean and rounds before the product with w, too. `keeps`: shared memory
 * has room for the block's rows, which are sums of x and a residual. */
template <typename E, int W>
static __global__ void __launch_bounds__(THREADS) norm_forward_kernel(tess_norm_args a, bool layer, bool keeps)
{
    TESS_CUDA_DYNAMIC_SHARED(norm_piece, pieces);
    const int64_t t = (int64_t)blockIdx.x * norm_rows<W>::OF_BLOCK + row_of_thread<W>(), row = t * a.C,
                  C = t < a.T ? a.C : 0;
    const E *h = add_residual<E, W>(a, row, C, keeps ? (E *)pieces + row_of_thread<W>() * a.C : NULL);
    float mean = 0;
    if (layer)
        mean = sum_of_row<E, W>(h, C, [](float sum, float x) { return sum + x; }) / (float)a.C;
    const float squares = sum_of_row<E, W>(h, C, [&](float sum, float x) { return fmaf(x - mean, x - mean, sum); });
    const float rstd = 1.0f / sqrtf(squares / (float)a.C + a.eps);
    for (int64_t i = first_of_thread<W>(); i < C; i += LANES) {
        const int n = count_at<W>(i, C);
        float x[W], w[W], b[W] = {};
        load(x, h + i, n);
        load(w, (const E *)a.w + i, n);
        if (a.b != NULL)
            load(b, (const E *)a.b + i, n);
        TESS_CUDA_UNROLL
        for (int j = 0; j < W; j++) {
            const float y = layer          ? (x[j] - mean) * rstd * w[j]
                            : a.one_plus_w ? x[j] * rstd * (1 + w[j])
                                           : cuda_round<E>(x[j] * rstd) * w[j];
            x[j] = a.b != NULL ? y + b[j] : y;
        }
        store((E *)a.y + row + i, x, n);
    }
    if (C == 0 || first_of_thread<W>() != 0)
        return;
    if (a.mean != NULL)
        a.mean[t] = mean;
    if (a.rstd != NULL)
        a.rstd[t] = rstd;
}

/* Whether all rows, and the parameters, allow accesses of 16 bytes. */
template <typename E> static bool is_wide(int64_t C, const void *const *memory, int n)
{
    bool wide = C * (int64_t)sizeof(E) % WIDTH == 0;
    for (int i = 0; i < n; i++)
        wide = wide && cuda_is_wide(memory[i]);
    return wide;
}

template <typename E, int W> static tess_status launch_forward_of(tess_stream *s, const tess_norm_args *a, bool layer)
{
    const int64_t rows = norm_rows<W>::OF_BLOCK, bytes = rows * a->C * (int64_t)sizeof(E);
    const bool keeps = a->residual != NULL && bytes <= MOST_SHARED;
    return TESS_CUDA_LAUNCH((norm_forward_kernel<E, W>), (a->T + rows - 1) / rows, THREADS, keeps ? (size_t)bytes : 0,
                            s, *a, layer, keeps);
}

template <typename E> static tess_status launch_forward_as(tess_stream *s, const tess_norm_args *a, bool layer)
{
    const void *const memory[] = {a->x, a->residual, a->h_out, a->w, a->b, a->y};
    return is_wide<E>(a->C, memory, 6) ? launch_forward_of<E, WIDTH / sizeof(E)>(s, a, layer)
                                       : launch_forward_of<E, NARROW>(s, a, layer);
}

static tess_status launch_forward(tess_stream *s, const tess_norm_args *a, bool layer)
{
    if (a->T == 0)
        return TESS_OK;
    return a->dtype == TESS_F32 ? launch_forward_as<float>(s, a, layer) : launch_forward_as<cuda_bf16>(s, a, layer);
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

/* ---- Backward. RMSNorm's mean is NULL ---- */
/* Computes this block's columns of parts (2, blocks, C): the sums of dy * xhat and of dy over TESS_NORM_BLOCK tokens.
 * Each thread has V columns at a time. */
template <typename E, int W>
static __device__ inline void sum_columns(const tess_norm_grad_args &a, int64_t block, float *parts)
{
    enum { V = W / 2 };
    const int64_t n_blocks = cuda_token_blocks(a.T), begin = block * TESS_NORM_BLOCK,
                  end = cuda_least(begin + TESS_NORM_BLOCK, a.T);
    for (int64_t c = (int64_t)threadIdx.x * V; c < a.C; c += THREADS * V) {
        float dw[V] = {}, db[V] = {};
        TESS_CUDA_UNROLL_BY_4
        for (int64_t t = begin; t < end; t++) {
            float dy[V], h[V];
            if constexpr (W > NARROW) {
                cuda_load_wide(dy, (const E *)a.dy + t * a.C + c);
                cuda_load_wide(h, (const E *)a.h + t * a.C + c);
            } else {
                dy[0] = cuda_load((const E *)a.dy + t * a.C + c);
                h[0] = cuda_load((const E *)a.h + t * a.C + c);
            }
            TESS_CUDA_UNROLL
            for (int j = 0; j < V; j++) {
                const float xhat = (a.mean != NULL ? h[j] - a.mean[t] : h[j]) * a.rstd[t];
                dw[j] = fmaf(dy[j], xhat, dw[j]);
                db[j] += dy[j];
            }
        }
        for (int j = 0; j < V; j++) {
            parts[block * a.C + c + j] = dw[j];
            parts[(n_blocks + block) * a.C + c + j] = db[j];
        }
    }
}

/* Adds the parts. The first half of the blocks of threads has dw, the other one db. */
static __global__ void column_sums_kernel(tess_norm_grad_args a, const float *parts)
{
    const unsigned strips = gridDim.x / 2;
    const int64_t n_blocks = cuda_token_blocks(a.T), c = (int64_t)(blockIdx.x % strips) * COLUMNS + threadIdx.x;
    float *sums = blockIdx.x < strips ? a.dw : a.db;
    if (c < a.C && sums != NULL)
        sums[c] = cuda_sum_ascending(parts + (blockIdx.x < strips ? 0 : n_blocks * a.C) + c, n_blocks, a.C);
}

/* Returns dy w, or dy (1 + w). */
static __device__ inline float scaled_gradient(float dy, float w, bool one_plus_w)
{
    return dy * (one_plus_w ? 1 + w : w);
}

/* Calls f(i, n, dh, xhat) for this thread's elements i .. i + n of a row. C is 0 if the thread has no row. */
template <typename E, int W, typename F>
static __device__ inline void each_gradient(const tess_norm_grad_args &a, int64_t row, int64_t C, float mean,
                                            float rstd, F f)
{
    for (int64_t i = first_of_thread<W>(); i < C; i += LANES) {
        const int n = count_at<W>(i, C);
        float dh[W], xhat[W], w[W];
        load(dh, (const E *)a.dy + row + i, n);
        load(xhat, (const E *)a.h + row + i, n);
        load(w, (const E *)a.w + i, n);
        TESS_CUDA_UNROLL
        for (int j = 0; j < W; j++) {
            dh[j] = scaled_gradient(dh[j], w[j], a.one_plus_w);
            xhat[j] = (xhat[j] - mean) * rstd;
        }
        f(i, n, dh, xhat);
    }
}

template <typename E, int W> static __device__ inline void row_backward(const tess_norm_grad_args &a, int64_t t)
{
    const int64_t row = t * a.C, C = t < a.T ? a.C : 0;
    const float mean = C > 0 && a.mean != NULL ? a.mean[t] : 0.0f, rstd = C > 0 ? a.rstd[t] : 0.0f;
    float xhat_sums[W] = {}, one_sums[W] = {};
    each_gradient<E, W>(a, row, C, mean, rstd, [&](int64_t, int n, const float(&dh)[W], const float(&xhat)[W]) {
        TESS_CUDA_UNROLL
        for (int j = 0; j < W; j++)
            if (j < n) {
                xhat_sums[j] = fmaf(dh[j], xhat[j], xhat_sums[j]);
                one_sums[j] += dh[j];
            }
    });
    const float mean_xhat = fold_row(xhat_sums) / (float)a.C, mean_one = fold_row(one_sums) / (float)a.C;
    each_gradient<E, W>(a, row, C, mean, rstd, [&](int64_t i, int n, const float(&dh)[W], const float(&xhat)[W]) {
        float dx[W], residual[W] = {};
        if (a.dresidual != NULL)
            load(residual, (const E *)a.dresidual + row + i, n);
        TESS_CUDA_UNROLL
        for (int j = 0; j < W; j++) {
            dx[j] = (dh[j] - (a.mean != NULL ? mean_one : 0.0f) - xhat[j] * mean_xhat) * rstd;
            if (a.dresidual != NULL)
                dx[j] += residual[j];
        }
        store((E *)a.dx + row + i, dx, n);
        if (a.dbranch == NULL)
            return;
        TESS_CUDA_UNROLL
        for (int j = 0; j < W; j++)
            dx[j] = tess_factor_of(a.factor) * dx[j];
        store((E *)a.dbranch + row + i, dx, n);
    });
}

/* A block of threads has TESS_NORM_BLOCK tokens. Sums over them come first, because dx may be dy's memory. parts NULL:
 * they are not wanted. */
template <typename E, int W>
static __global__ void __launch_bounds__(THREADS) norm_backward_kernel(tess_norm_grad_args a, float *parts)
{
    if (parts != NULL) {
        sum_columns<E, W>(a, blockIdx.x, parts);
        __syncthreads();
    }
    for (int row = 0; row < TESS_NORM_BLOCK; row += norm_rows<W>::OF_BLOCK)
        row_backward<E, W>(a, (int64_t)blockIdx.x * TESS_NORM_BLOCK + row + row_of_thread<W>());
}

template <typename E> static tess_status launch_rows(tess_stream *s, const tess_norm_grad_args *a, float *parts)
{
    enum { WIDE = WIDTH / sizeof(E) };
    const void *const memory[] = {a->h, a->w, a->dy, a->dresidual, a->dx, a->dbranch};
    const int64_t blocks = cuda_token_blocks(a->T);
    return is_wide<E>(a->C, memory, 6)
               ? TESS_CUDA_LAUNCH((norm_backward_kernel<E, WIDE>), blocks, THREADS, 0, s, *a, parts)
               : TESS_CUDA_LAUNCH((norm_backward_kernel<E, NARROW>), blocks, THREADS, 0, s, *a, parts);
}

static tess_status launch_backward(tess_stream *s, const tess_norm_grad_args *a)
{
    const int64_t strips = (a->C + COLUMNS - 1) / COLUMNS;
    void *parts = NULL;
    if (a->dw != NULL || a->db != NULL)
        TESS_TRY(tess_cuda_scratch(s, (size_t)(2 * cuda_token_blocks(a->T) * a->C + 1) * sizeof(float), &parts));
    if (a->T > 0)
        TESS_TRY(a->dtype == TESS_F32 ? launch_rows<float>(s, a, (float *)parts)
                                      : launch_rows<cuda_bf16>(s, a, (float *)parts));
    return parts == NULL ? TESS_OK
                         : TESS_CUDA_LAUNCH(column_sums_kernel, 2 * strips, COLUMNS, 0, s, *a, (const float *)parts);
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
