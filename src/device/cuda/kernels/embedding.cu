/* The embedding. The backward pass adds the rows of a token's gradient with t ascending: tokens are sorted by id,
 * stably, and each block of threads adds the rows of one id. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

enum { THREADS = 256, WARP = 32, SORTERS = 1024, SORT_BLOCKS = 128 };

template <typename E> static __global__ void lookup_kernel(tess_embedding_args a)
{
    const float factor = tess_factor_of(a.factor);
    TESS_CUDA_EACH(i, a.T * a.C)
    {
        cuda_division token = cuda_divide(i, a.C);
        int64_t t = token.quotient, c = token.rest;
        float value = cuda_load((const E *)a.table + a.ids[t] * a.C + c);
        if (a.positions != NULL)
            value = fmaf(factor, value, cuda_load((const E *)a.positions + a.pos[t] * a.C + c));
        else
            value *= factor;
        cuda_store((E *)a.out + i, value);
    }
}

static tess_status embedding_forward(tess_stream *s, const tess_embedding_args *a)
{
    const int64_t n = a->T * a->C;
    TESS_TRY(tess_check_dtype("embedding", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, lookup_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a);
}

/* ---- Backward ---- */
/* The tokens, sorted by id. The tokens with id r are sorted[end[r - 1] .. end[r]). */
typedef struct token_order {
    tess_embedding_grad_args a;
    int32_t *end;    /* (rows) first the number of a row's tokens, then the index of the first one, then the end */
    int32_t *sorted; /* (T) */
} token_order;

static __global__ void clear_counts_kernel(token_order o)
{
    TESS_CUDA_EACH(r, o.a.rows)
    o.end[r] = 0;
}

static __global__ void count_tokens_kernel(token_order o)
{
    TESS_CUDA_EACH(t, o.a.T)
    atomicAdd(&o.end[o.a.ids[t]], 1);
}

/* Replaces the counts of each row's tokens by the index of the first one. It runs as one block. */
static __global__ void add_up_counts_kernel(token_order o)
{
    __shared__ int32_t sums[THREADS];
    int32_t before = 0; /* tokens of all rows below */
    for (int64_t begin = 0; begin < o.a.rows; begin += THREADS) {
        int64_t r = begin + threadIdx.x;
        int32_t count = r < o.a.rows ? o.end[r] : 0;
        sums[threadIdx.x] = count;
        __syncthreads();
        for (unsigned apart = 1; apart < THREADS; apart *= 2) {
            int32_t below = threadIdx.x >= apart ? sums[threadIdx.x - apart] : 0;
            __syncthreads();
            sums[threadIdx.x] += below;
            __syncthreads();
        }
        if (r < o.a.rows)
            o.end[r] = before + sums[threadIdx.x] - count;
        before += sums[THREADS - 1];
        __syncthreads();
    }
}

/* Sorts the tokens, so that tokens of one id stay ascending. Each block of threads places the tokens of some ids: it
 * looks at all tokens in order, a chunk of SORTERS at a time. In a chunk, a token is placed after the earlier tokens
 * with its id, and the last of them advances the row's end. */
static __global__ void __launch_bounds__(SORTERS) sort_tokens_kernel(token_order o)
{
    __shared__ int32_t ids[SORTERS], tokens[SORTERS], found[SORTERS / WARP];
    const unsigned me = threadIdx.x, warp = me / WARP, below = (1u << me % WARP) - 1;
    for (int64_t begin = 0; begin < o.a.T; begin += SORTERS) {
        const int64_t t = begin + me;
        const int32_t id = t < o.a.T ? o.a.ids[t] : -1;
        const bool mine = id >= 0 && (unsigned)id % gridDim.x == blockIdx.x;
        const unsigned those = __ballot_sync(0xffffffffu, mine);
        if (me % WARP == 0)
            found[warp] = __popc(those);
        __syncthreads();
        int n = 0, at = __popc(those & below);
        for (unsigned w = 0; w < SORTERS / WARP; w++) {
            at += w < warp ? found[w] : 0;
            n += found[w];
        }
        if (mine) {
            ids[at] = id;
            tokens[at] = (int32_t)t;
        }
        __syncthreads();
        int32_t place = 0;
        bool last = (int)me < n;
        if (last) {
            int earlier = 0;
            for (int i = 0; i < n; i++) {
                earlier += i < (int)me && ids[i] == ids[me];
                last = last && (i <= (int)me || ids[i] != ids[me]);
            }
            place = o.end[ids[me]] + earlier;
            o.sorted[place] = tokens[me];
        }
        __syncthreads();
        if (last)
            o.end[ids[me]] = place + 1;
        __syncthreads();
    }
}

template <typename E> static __global__ void add_tokens_kernel(token_order o)
{
    const int64_t C = o.a.C;
    const float factor = tess_factor_of(o.a.factor);
    for (int64_t r = blockIdx.x; r < o.a.rows; r += gridDim.x) {
        int32_t begin = r > 0 ? o.end[r - 1] : 0, end = o.end[r];
        for (int64_t c = threadIdx.x; c < C && (begin < end || !o.a.accumulate); c += blockDim.x) {
            float sum = o.a.accumulate ? o.a.dtable[r * C + c] : 0.0f;
            for (int32_t i = begin; i < end; i++)
                sum = fmaf(factor, cuda_load((const E *)o.a.dout + o.sorted[i] * C + c), sum);
            o.a.dtable[r * C + c] = sum;
        }
    }
}

static tess_status embedding_backward(tess_stream *s, const tess_embedding_grad_args *a)
{
    void *work;
    TESS_TRY(tess_check_dtype("embedding backward", a->dtype));
    TESS_CHECK(a->T <= INT32_MAX, TESS_E_UNSUPPORTED, "embedding backward: a GPU sorts at most %d tokens", INT32_MAX);
    if (a->rows * a->C == 0)
        return TESS_OK;
    TESS_TRY(tess_cuda_scratch(s, (size_t)(a->rows + a->T) * sizeof(int32_t), &work));
    token_order o = {*a, (int32_t *)work, (int32_t *)work + a->rows};
    TESS_TRY(TESS_CUDA_LAUNCH(clear_counts_kernel, tess_cuda_blocks(a->rows, THREADS), THREADS, 0, s, o));
    if (a->T > 0) {
        TESS_TRY(TESS_CUDA_LAUNCH(count_tokens_kernel, tess_cuda_blocks(a->T, THREADS), THREADS, 0, s, o));
        TESS_TRY(TESS_CUDA_LAUNCH(add_up_counts_kernel, 1, THREADS, 0, s, o));
        TESS_TRY(TESS_CUDA_LAUNCH(sort_tokens_kernel, cuda_least((a->T + 127) / 128, SORT_BLOCKS), SORTERS, 0, s, o));
    }
    return TESS_CUDA_LAUNCH_OF(a->dtype, add_tokens_kernel, tess_cuda_blocks(a->rows, 1), THREADS, 0, s, o);
}

void tess_kernels_cuda_embedding(tess_kernels *k)
{
    k->embedding_forward = embedding_forward;
    k->embedding_backward = embedding_backward;
}
