/* The embedding. The backward pass adds the rows of a token's gradient with t ascending: tokens are sorted by id,
 * stably, and each block of threads adds the rows of one id. */
#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

enum { THREADS = 256 };

template <typename E> struct lookup {
    const E *table, *positions; /* positions NULL: there are no position embeddings */
    const int32_t *ids, *pos;
    E *out;
    int64_t T, C;
};

template <typename E> static __global__ void lookup_kernel(lookup<E> l)
{
    TESS_CUDA_EACH(i, l.T * l.C)
    {
        cuda_division token = cuda_divide(i, l.C);
        int64_t t = token.quotient, c = token.rest;
        float value = cuda_load(&l.table[l.ids[t] * l.C + c]);
        cuda_store(&l.out[i], l.positions != NULL ? value + cuda_load(&l.positions[l.pos[t] * l.C + c]) : value);
    }
}

template <typename E>
static tess_status launch_lookup(tess_stream *s, const void *table, const void *positions, const int32_t *ids,
                                 const int32_t *pos, void *out, int64_t T, int64_t C)
{
    lookup<E> l = {(const E *)table, (const E *)positions, ids, pos, (E *)out, T, C};
    return TESS_CUDA_LAUNCH(lookup_kernel, tess_cuda_blocks(T * C, THREADS), THREADS, 0, s, l);
}

static tess_status embedding_forward(tess_stream *s, const void *table, const void *positions, const int32_t *ids,
                                     const int32_t *pos, void *out, int64_t T, int64_t C, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("embedding", dtype));
    return T * C > 0 ? TESS_CUDA_OF(dtype, launch_lookup, s, table, positions, ids, pos, out, T, C) : TESS_OK;
}

/* ---- Backward ---- */
/* The tokens, sorted by id. The tokens with id r are sorted[end[r - 1] .. end[r]). */
typedef struct token_order {
    const int32_t *ids;
    int64_t rows, T;
    int32_t
        *end; /* (rows): of a row's tokens, first how many they are, then where they begin, at last where they end */
    int32_t *sorted; /* (T) */
} token_order;

static __global__ void clear_counts_kernel(token_order o)
{
    TESS_CUDA_EACH(r, o.rows)
    o.end[r] = 0;
}

static __global__ void count_tokens_kernel(token_order o)
{
    TESS_CUDA_EACH(t, o.T)
    atomicAdd(&o.end[o.ids[t]], 1);
}

/* Replaces the counts of each row's tokens by the index of the first one. It runs as one block. */
static __global__ void add_up_counts_kernel(token_order o)
{
    __shared__ int32_t sums[THREADS];
    int32_t before = 0; /* tokens of all rows below */
    for (int64_t begin = 0; begin < o.rows; begin += THREADS) {
        int64_t r = begin + threadIdx.x;
        int32_t count = r < o.rows ? o.end[r] : 0;
        sums[threadIdx.x] = count;
        __syncthreads();
        for (unsigned apart = 1; apart < THREADS; apart *= 2) {
            int32_t below = threadIdx.x >= apart ? sums[threadIdx.x - apart] : 0;
            __syncthreads();
            sums[threadIdx.x] += below;
            __syncthreads();
        }
        if (r < o.rows)
            o.end[r] = before + sums[threadIdx.x] - count;
        before += sums[THREADS - 1];
        __syncthreads();
    }
}

/* Sorts the tokens in one block of threads, so that tokens of one id stay ascending. In a chunk, a token is placed
 * after the earlier tokens with its id, and the last of them advances the row's end. */
static __global__ void sort_tokens_kernel(token_order o)
{
    __shared__ int32_t chunk[THREADS];
    for (int64_t begin = 0; begin < o.T; begin += THREADS) {
        int64_t t = begin + threadIdx.x;
        int n = o.T - begin < THREADS ? (int)(o.T - begin) : (int)THREADS, me = (int)threadIdx.x, earlier = 0;
        bool last = true;
        if (me < n)
            chunk[me] = o.ids[t];
        __syncthreads();
        for (int i = 0; me < n && i < n; i++) {
            earlier += i < me && chunk[i] == chunk[me];
            last = last && (i <= me || chunk[i] != chunk[me]);
        }
        int32_t at = me < n ? o.end[chunk[me]] + earlier : 0;
        if (me < n)
            o.sorted[at] = (int32_t)t;
        __syncthreads();
        if (me < n && last)
            o.end[chunk[me]] = at + 1;
        __syncthreads();
    }
}

template <typename E>
static __global__ void add_tokens_kernel(token_order o, const E *dout, float *dtable, int64_t C, bool accumulate)
{
    for (int64_t r = blockIdx.x; r < o.rows; r += gridDim.x) {
        int32_t begin = r > 0 ? o.end[r - 1] : 0, end = o.end[r];
        for (int64_t c = threadIdx.x; c < C && (begin < end || !accumulate); c += blockDim.x) {
            float sum = accumulate ? dtable[r * C + c] : 0.0f;
            for (int32_t i = begin; i < end; i++)
                sum += cuda_load(&dout[o.sorted[i] * C + c]);
            dtable[r * C + c] = sum;
        }
    }
}

template <typename E>
static tess_status launch_backward(tess_stream *s, const int32_t *ids, const void *dout, float *dtable, int64_t rows,
                                   int64_t T, int64_t C, bool accumulate)
{
    void *work;
    TESS_TRY(tess_cuda_scratch(s, (size_t)(rows + T) * sizeof(int32_t), &work));
    token_order o = {ids, rows, T, (int32_t *)work, (int32_t *)work + rows};
    TESS_TRY(TESS_CUDA_LAUNCH(clear_counts_kernel, tess_cuda_blocks(rows, THREADS), THREADS, 0, s, o));
    if (T > 0) {
        TESS_TRY(TESS_CUDA_LAUNCH(count_tokens_kernel, tess_cuda_blocks(T, THREADS), THREADS, 0, s, o));
        TESS_TRY(TESS_CUDA_LAUNCH(add_up_counts_kernel, 1, THREADS, 0, s, o));
        TESS_TRY(TESS_CUDA_LAUNCH(sort_tokens_kernel, 1, THREADS, 0, s, o));
    }
    return TESS_CUDA_LAUNCH(add_tokens_kernel, tess_cuda_blocks(rows, 1), THREADS, 0, s, o, (const E *)dout, dtable, C,
                            accumulate);
}

static tess_status embedding_backward(tess_stream *s, const int32_t *ids, const void *dout, float *dtable, int64_t rows,
                                      int64_t T, int64_t C, bool accumulate, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("embedding backward", dtype));
    TESS_CHECK(T <= INT32_MAX, TESS_E_UNSUPPORTED, "embedding backward: a GPU sorts at most %d tokens", INT32_MAX);
    return rows * C > 0 ? TESS_CUDA_OF(dtype, launch_backward, s, ids, dout, dtable, rows, T, C, accumulate) : TESS_OK;
}

void tess_kernels_cuda_embedding(tess_kernels *k)
{
    k->embedding_forward = embedding_forward;
    k->embedding_backward = embedding_backward;
}
