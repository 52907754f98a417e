/* The embedding. The backward pass adds the rows of a token's gradient with t ascending: tokens are sorted by id,
 * stably, and each block of threads adds the rows of one id. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

/* CHUNK: tokens that are sorted at a time, and the threads that sort them */
enum { THREADS = 256, CHUNK = 1024, ROWS = 8 };

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
    int32_t *rank;   /* (T) the tokens of the chunk that come first and have the same id; ~ if none comes later */
} token_order;

static __global__ void clear_counts_kernel(token_order o)
{
    TESS_CUDA_EACH(r, o.a.rows)
    o.end[r] = 0;
}

/* Writes for each token of a chunk how many tokens before it have its id, and whether none after it has. The last token
 * of an id adds the chunk's number of them to the row. A block of threads has THREADS of a chunk's tokens. */
static __global__ void rank_tokens_kernel(token_order o)
{
    __shared__ int32_t ids[CHUNK];
    const int64_t begin = (int64_t)blockIdx.x * THREADS / CHUNK * CHUNK;
    const int n = (int)cuda_least(o.a.T - begin, CHUNK),
              me = (int)(blockIdx.x % (CHUNK / THREADS) * THREADS + threadIdx.x);
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        ids[i] = o.a.ids[begin + i];
    __syncthreads();
    if (me >= n)
        return;
    const int32_t id = ids[me];
    int earlier = 0, later = 0;
    TESS_CUDA_UNROLL_BY_4
    for (int i = 0; i < me; i++)
        earlier += ids[i] == id ? 1 : 0;
    TESS_CUDA_UNROLL_BY_4
    for (int i = me + 1; i < n; i++)
        later |= ids[i] == id ? 1 : 0;
    o.rank[begin + me] = later == 0 ? ~earlier : earlier;
    if (later == 0)
        atomicAdd(&o.end[id], earlier + 1);
}

/* Replaces the counts of each row's tokens by the index of the first one. It runs as one block. Each thread has ROWS
 * rows at a time. */
static __global__ void __launch_bounds__(CHUNK) add_up_counts_kernel(token_order o)
{
    __shared__ int32_t sums[CHUNK];
    int32_t before = 0; /* tokens of all rows below */
    for (int64_t begin = 0; begin < o.a.rows; begin += CHUNK * ROWS) {
        const int64_t first = begin + (int64_t)threadIdx.x * ROWS;
        int32_t counts[ROWS], own = 0;
        TESS_CUDA_UNROLL
        for (int i = 0; i < ROWS; i++) {
            counts[i] = first + i < o.a.rows ? o.end[first + i] : 0;
            own += counts[i];
        }
        sums[threadIdx.x] = own;
        __syncthreads();
        for (unsigned apart = 1; apart < CHUNK; apart *= 2) {
            int32_t below = threadIdx.x >= apart ? sums[threadIdx.x - apart] : 0;
            __syncthreads();
            sums[threadIdx.x] += below;
            __syncthreads();
        }
        int32_t index = before + sums[threadIdx.x] - own;
        TESS_CUDA_UNROLL
        for (int i = 0; i < ROWS; i++) {
            if (first + i < o.a.rows)
                o.end[first + i] = index;
            index += counts[i];
        }
        before += sums[CHUNK - 1];
        __syncthreads();
    }
}

/* Sorts the tokens in one block of threads, so that tokens of one id stay ascending. In a chunk, a token is placed
 * after the earlier tokens with its id, and the last of them advances the row's end. */
static __global__ void __launch_bounds__(CHUNK) place_tokens_kernel(token_order o)
{
    for (int64_t begin = 0; begin < o.a.T; begin += CHUNK) {
        const int64_t t = begin + threadIdx.x;
        const int64_t id = t < o.a.T ? o.a.ids[t] : 0;
        const int32_t rank = t < o.a.T ? o.rank[t] : 0, earlier = rank < 0 ? ~rank : rank;
        const int32_t at = t < o.a.T ? o.end[id] + earlier : 0;
        if (t < o.a.T)
            o.sorted[at] = (int32_t)t;
        __syncthreads();
        if (rank < 0)
            o.end[id] = at + 1;
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
    TESS_TRY(tess_cuda_scratch(s, (size_t)(a->rows + 2 * a->T) * sizeof(int32_t), &work));
    int32_t *end = (int32_t *)work;
    token_order o = {*a, end, end + a->rows, end + a->rows + a->T};
    TESS_TRY(TESS_CUDA_LAUNCH(clear_counts_kernel, tess_cuda_blocks(a->rows, THREADS), THREADS, 0, s, o));
    if (a->T > 0) {
        TESS_TRY(TESS_CUDA_LAUNCH(rank_tokens_kernel, (a->T + THREADS - 1) / THREADS, THREADS, 0, s, o));
        TESS_TRY(TESS_CUDA_LAUNCH(add_up_counts_kernel, 1, CHUNK, 0, s, o));
        TESS_TRY(TESS_CUDA_LAUNCH(place_tokens_kernel, 1, CHUNK, 0, s, o));
    }
    return TESS_CUDA_LAUNCH_OF(a->dtype, add_tokens_kernel, tess_cuda_blocks(a->rows, 1), THREADS, 0, s, o);
}

void tess_kernels_cuda_embedding(tess_kernels *k)
{
    k->embedding_forward = embedding_forward;
    k->embedding_backward = embedding_backward;
}
