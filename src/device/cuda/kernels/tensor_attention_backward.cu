/* Attention backward in bfloat16 on tensor cores, without atomics. One kernel computes the gradients of queries and
 * loops over keys. Another computes the gradients of keys and values; it loops over the query heads of a group and over
 * the queries of each, ascending. Both compute scores again, so there are seven products of T x T instead of five, but
 * every sum has a fixed order.
 *
 *     P = exp(scale Q K^T - lse)   dV = P^T dO   dS = P (dO V^T - delta)   dQ = scale dS K   dK = scale dS^T Q
 *
 * The kernel for keys begins with the transposes K Q^T and V dO^T. A warp's sums can then be the left factors of its
 * next products without leaving their registers. Blocks of others (the rows that a kernel loops over) are counted from
 * the sequence's first row, so bits depend on the sequence alone.
 *
 * Cost. A warp has 16 rows. It computes 13 flops for each byte of shared memory that it reads, which feeds four fifths
 * of an A100's tensor cores and two fifths of an H100's. With D = 128 a block has 64 KiB of shared memory. With D = 64
 * it has 48 KiB. A multiprocessor runs 3 blocks of the kernel for queries if D = 64 and the call has all keys. In all
 * other cases it runs 2 blocks: if D = 128, if the call has a part of the keys, and of the kernel for keys. Others are
 * loaded into two buffers. One is filled while the other is read. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/kernels/tensor_attention.h"
#include "device/ref/ref_attention.h"

enum { WARPS = 4, THREADS = WARPS * WARP, TILE = WARPS * ROWS };

/* The number of others in a block. Two buffers of them and a tile must fit into shared memory and registers. */
template <int D> struct others_of {
    enum { N = D == 64 ? 64 : 32, PIECES = N * D / PIECE };
};

/* Statistics of a query and its head, (T, H), which convert scores to probabilities and gradients. */
typedef struct query_stats {
    float lse2;  /* lse / ln 2 */
    float delta; /* dout . out */
} query_stats;

static __device__ __forceinline__ const query_stats *stats_at(const attention_call &c, int64_t token, int head)
{
    return (const query_stats *)c.scratch + token * c.H + head;
}

/* Each warp has one query's head, of n. Lane l adds channels l, l + 32, .. delta is written if the caller keeps it.
 * `knows`: it is read instead. */
static __global__ void __launch_bounds__(THREADS) tensor_stats_kernel(attention_call c, int64_t n, bool knows)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; i < n; i += (int64_t)gridDim.x * WARPS) {
        const cuda_division query = cuda_divide(i, c.H);
        const int64_t row = row_of_query(c, query.quotient), h = query.rest;
        const cuda_bf16 *x = (const cuda_bf16 *)c.dout + row * c.dout_stride + h * c.D,
                        *y = (const cuda_bf16 *)c.out + row * c.out_stride + h * c.D;
        float sum = 0;
        for (int d = lane; d < c.D && !knows; d += WARP)
            sum = fmaf(cuda_load(x + d), cuda_load(y + d), sum);
        sum = knows ? c.delta[row * c.H + h] : cuda_fold(sum, WARP / 2);
        if (lane == 0 && c.delta != NULL && !knows)
            c.delta[row * c.H + h] = sum;
        if (lane == 0)
            ((query_stats *)c.scratch)[row * c.H + h] = {c.lse[row * c.H + h] * LOG2_E, sum};
    }
}

/* Converts a score and dO . v to dS, and returns P. */
static __device__ __forceinline__ float take_gradient(float *ds, float score, query_stats stats, float scale2,
                                                      bool seen)
{
    float p = seen ? tensor_exp2(fmaf(score, scale2, -stats.lse2)) : 0;
    *ds = seen ? p * (*ds - stats.delta) : 0;
    return p;
}

template <int N> static __device__ __forceinline__ void clear(float (*sum)[4])
{
    TESS_CUDA_UNROLL
    for (int n = 0; n < N / 8; n++) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < 4; i++)
            sum[n][i] = 0;
    }
}

/* Computes left (ROWS, N) and right (ROWS, N): rows from `row` on of the two tiles, times the rows of the two blocks of
 * others. */
template <int D, int N>
static __device__ __forceinline__ void multiply_pairs(float (*left)[4], float (*right)[4], tensor_piece *const tiles[2],
                                                      tensor_piece *const others[2], int row)
{
    clear<N>(left);
    clear<N>(right);
    TESS_CUDA_UNROLL
    for (int k = 0; k < D / 16; k++) {
        uint32_t x[4];
        load_left<D>(x, tiles[0], row, k);
        multiply_by_rows<D, N>(left, x, others[0], k);
        load_left<D>(x, tiles[1], row, k);
        multiply_by_rows<D, N>(right, x, others[1], k);
    }
}

static __device__ inline bool tile_is_wanted(const attention_call &c, const head_tile &t)
{
    const int64_t first = query_row_at(t, 0).token, n = query_row_at(t, t.n - 1).token - first + 1;
    return ranges_meet(first, n, c.query_begin, c.query_end) &&
           ranges_meet(t.kv * t.n_rep, t.n_rep, c.head_begin, c.head_end);
}

/* The sums of dq of a row between calls, (D). */
static __device__ __forceinline__ float *queries_state(const attention_call &c, const query_row &row)
{
    return c.state + (row.token * c.H + row.head) * c.D;
}

/* Computes dq of a tile of queries, with keys ascending, for heads of at most D channels. */
template <int D, bool PARTS>
static __global__ void __launch_bounds__(THREADS, D == 64 && !PARTS ? 3 : 2)
    tensor_backward_queries_kernel(attention_call c, float scale2)
{
    enum { KEYS = others_of<D>::N, PIECES = others_of<D>::PIECES };
    TESS_CUDA_DYNAMIC_SHARED(tensor_piece, memory);
    tensor_piece *const tiles[2] = {memory + 4 * PIECES, memory + 4 * PIECES + TILE * D / PIECE}; /* queries, douts */
    const int64_t number = (int64_t)gridDim.x - 1 - blockIdx.x; /* tiles with long rows run first */
    const int kv = (int)(number % c.G), row0 = (int)threadIdx.x / WARP * ROWS, own = row0 + (int)threadIdx.x % WARP / 4;
    const head_tile t = head_tile_at(c, number / c.G, kv, TILE);
    const key_range all_first = key_range_of(c, t, 0), all_last = key_range_of(c, t, t.n - 1);
    const int key_end = (int)key_end_of(PARTS, *t.s);
    const int begin = PARTS ? (int)first_block(c, *t.s, all_first.last, KEYS) : all_first.first / KEYS * KEYS;
    const int end = PARTS && key_end <= all_last.last ? key_end : all_last.last + 1;
    const int n_blocks = !PARTS || begin < end ? (end - begin + KEYS - 1) / KEYS : 0;
    query_stats stats[2] = {};
    int last[2] = {-1, -1};
    float dq[D / 8][4], ds[KEYS / 8][4], score[KEYS / 8][4];
    if (!tile_is_wanted(c, t))
        return; /* the whole block */

    auto copy = [&](int block) {
        const int base = begin + block * KEYS;
        if (block < n_blocks)
            for (int i = 0; i < 2; i++) {
                const int64_t stride = i == 0 ? c.k_stride : c.v_stride, present = key_end - base;
                const int64_t row = PARTS ? base - t.s->k_begin : base;
                const uint16_t *x = (const uint16_t *)(i == 0 ? t.s->k : t.s->v) + row * stride + kv * c.D;
                copy_tile<D, KEYS, THREADS>(memory + (block % 2 * 2 + i) * PIECES, (int)c.D,
                                            [&](int row) { return row < present ? x + row * stride : NULL; });
            }
        tensor_copies_end();
    };

    copy_tile<D, TILE, THREADS>(tiles[0], (int)c.D, [&](int i) { return query_at(t, i, c.q, c.q_stride, c.D); });
    copy_tile<D, TILE, THREADS>(tiles[1], (int)c.D, [&](int i) { return query_at(t, i, c.dout, c.dout_stride, c.D); });
    copy(0);
    for (int half = 0; half < 2; half++)
        if (own + 8 * half < t.n) {
            const query_row row = query_row_at(t, own + 8 * half);
            stats[half] = *stats_at(c, row.token, row.head);
            last[half] = row.position;
        }
    clear<D>(dq);
    TESS_CUDA_UNROLL
    for (int half = 0; half < 2; half++)
        if (PARTS && own + 8 * half < t.n && has_earlier_sums(c, *t.s))
            load_sums<D>(dq, half, queries_state(c, query_row_at(t, own + 8 * half)), (int)c.D);
    for (int block = 0; block < n_blocks; block++) {
        const int base = begin + block * KEYS, column = base + (int)threadIdx.x % 4 * 2;
        tensor_piece *const others[2] = {memory + block % 2 * 2 * PIECES, memory + (block % 2 * 2 + 1) * PIECES};
        tensor_copies_wait<0>();
        __syncthreads();
        copy(block + 1);
        multiply_pairs<D, KEYS>(score, ds, tiles, others, row0);
        const bool hides = base < all_last.first || base + KEYS > all_first.last + 1;
        const int first[2] = {(int)first_key(c, last[0]), (int)first_key(c, last[1])};
        TESS_CUDA_UNROLL
        for (int n = 0; n < KEYS / 8; n++) {
            TESS_CUDA_UNROLL
            for (int i = 0; i < 4; i++) {
                const int key = column + n * 8 + i % 2;
                const bool seen = !hides || (key >= first[i / 2] && key <= last[i / 2]);
                take_gradient(&ds[n][i], score[n][i], stats[i / 2], scale2, seen);
            }
        }
        TESS_CUDA_UNROLL
        for (int k = 0; k < KEYS / 16; k++) {
            uint32_t x[4];
            round_to_left(x, ds, k);
            multiply_by_columns<D>(dq, x, others[0], k);
        }
    }
    if (PARTS && n_blocks == 0)
        tensor_copies_wait<0>();
    TESS_CUDA_UNROLL
    for (int half = 0; half < 2; half++)
        if (own + 8 * half < t.n) {
            const query_row row = query_row_at(t, own + 8 * half);
            if (PARTS && keeps_sums(c, *t.s))
                store_sums<D>(queries_state(c, row), (int)c.D, dq, half);
            else
                store_row<D>((uint16_t *)c.dq + row.token * c.dq_stride + row.head * c.D, (int)c.D, dq, half, c.scale);
        }
}

/* The sums of a key between calls: dk (D), then dv (D). */
static __device__ __forceinline__ float *keys_state(const attention_call &c, int64_t row, int kv)
{
    return c.state + (row * c.G + kv) * 2 * c.D;
}

/* Computes dk and dv of a tile of keys. */
template <int D, bool PARTS>
static __global__ void __launch_bounds__(THREADS, 2) tensor_backward_keys_kernel(attention_call c, float scale2)
{
    enum { QUERIES = others_of<D>::N, PIECES = others_of<D>::PIECES };
    TESS_CUDA_DYNAMIC_SHARED(tensor_piece, memory);
    tensor_piece *const tiles[2] = {memory + 4 * PIECES, memory + 4 * PIECES + TILE * D / PIECE}; /* keys, values */
    query_stats *const all_stats = (query_stats *)(tiles[1] + TILE * D / PIECE);
    const int kv = (int)(blockIdx.x % c.G), n_rep = (int)(c.H / c.G), row0 = (int)threadIdx.x / WARP * ROWS;
    const attention_seq *seq = seq_of_tile(c, blockIdx.x / c.G);
    const tess_attention_seq &s = seq->s;
    const int tile0 = (int)(blockIdx.x / c.G - seq->first_tile) * TILE, key0 = tile0 + (PARTS ? (int)s.k_begin : 0);
    const int n = (int)cuda_least(key_end_of(PARTS, s) - key0, TILE);
    const int query0 = PARTS ? (int)(s.k_len - s.q_len) : 0;
    const int end = (int)last_query(c, s, key0 + n - 1), begin = key0 > query0 ? key0 / QUERIES * QUERIES : query0;
    const int n_blocks = !PARTS || begin < end ? (end - begin + QUERIES - 1) / QUERIES : 0;
    const int own = key0 + row0 + (int)threadIdx.x % WARP / 4;
    const int last[2] = {(int)last_query(c, s, own), (int)last_query(c, s, own + 8)};
    const int64_t out0 = PARTS ? s.k_row - s.k_begin : s.q_begin; /* the row of key 0 */
    float dk[D / 8][4], dv[D / 8][4], ds[QUERIES / 8][4], p[QUERIES / 8][4];
    if (!ranges_meet(out0 + key0, n, c.key_begin, c.key_end))
        return; /* the whole block */

    /* Copies rows of head `block / n_blocks` of the group. */
    auto copy = [&](int block) {
        if (block < n_blocks * n_rep) {
            const int base = begin + block % n_blocks * QUERIES, head = kv * n_rep + block / n_blocks;
            const int64_t present = s.k_len - base, token = s.q_begin + base - query0;
            for (int i = 0; i < 2; i++) {
                const int64_t stride = i == 0 ? c.q_stride : c.dout_stride;
                const uint16_t *x = (const uint16_t *)(i == 0 ? c.q : c.dout) + token * stride + head * c.D;
                copy_tile<D, QUERIES, THREADS>(memory + (block % 2 * 2 + i) * PIECES, (int)c.D,
                                               [&](int row) { return row < present ? x + row * stride : NULL; });
            }
            query_stats *stats = all_stats + block % 2 * QUERIES + threadIdx.x;
            if (threadIdx.x < QUERIES && (int)threadIdx.x < present)
                tensor_copy_pair((float *)stats, (const float *)stats_at(c, token + threadIdx.x, head));
            else if (threadIdx.x < QUERIES)
                *stats = {0, 0};
        }
        tensor_copies_end();
    };

    for (int i = 0; i < 2; i++) {
        const int64_t stride = i == 0 ? c.k_stride : c.v_stride;
        const uint16_t *x = (const uint16_t *)(i == 0 ? s.k : s.v) + tile0 * stride + kv * c.D;
        copy_tile<D, TILE, THREADS>(tiles[i], (int)c.D, [&](int row) { return row < n ? x + row * stride : NULL; });
    }
    copy(0);
    clear<D>(dk);
    clear<D>(dv);
    TESS_CUDA_UNROLL
    for (int half = 0; half < 2; half++)
        if (PARTS && own + 8 * half < key0 + n && has_earlier_sums(c, s)) {
            const float *state = keys_state(c, out0 + own + 8 * half, kv);
            load_sums<D>(dk, half, state, (int)c.D);
            load_sums<D>(dv, half, state + c.D, (int)c.D);
        }
    for (int block = 0; block < n_blocks * n_rep; block++) {
        const int base = begin + block % n_blocks * QUERIES, column = (int)threadIdx.x % 4 * 2;
        tensor_piece *const others[2] = {memory + block % 2 * 2 * PIECES, memory + (block % 2 * 2 + 1) * PIECES};
        const query_stats *stats = all_stats + block % 2 * QUERIES;
        tensor_copies_wait<0>();
        __syncthreads();
        copy(block + 1);
        multiply_pairs<D, QUERIES>(p, ds, tiles, others, row0);
        const bool hides = base < key0 + TILE - 1 || base + QUERIES > last_query(c, s, key0);
        TESS_CUDA_UNROLL
        for (int k = 0; k < QUERIES / 8; k++) {
            TESS_CUDA_UNROLL
            for (int i = 0; i < 4; i++) {
                const int at = column + k * 8 + i % 2, query = base + at, half = i / 2;
                const bool seen = !hides || (query >= own + 8 * half && query < last[half]);
                p[k][i] = take_gradient(&ds[k][i], p[k][i], stats[at], scale2, seen);
            }
        }
        TESS_CUDA_UNROLL
        for (int k = 0; k < QUERIES / 16; k++) {
            uint32_t x[4];
            round_to_left(x, p, k);
            multiply_by_columns<D>(dv, x, others[1], k);
            round_to_left(x, ds, k);
            multiply_by_columns<D>(dk, x, others[0], k);
        }
    }
    if (PARTS && n_blocks == 0)
        tensor_copies_wait<0>();
    TESS_CUDA_UNROLL
    for (int half = 0; half < 2; half++) {
        const int key = own + 8 * half;
        if (key >= key0 + n)
            continue;
        if (PARTS && keeps_sums(c, s)) {
            float *state = keys_state(c, out0 + key, kv);
            store_sums<D>(state, (int)c.D, dk, half);
            store_sums<D>(state + c.D, (int)c.D, dv, half);
            continue;
        }
        store_row<D>((uint16_t *)c.dk + (out0 + key) * c.dk_stride + kv * c.D, (int)c.D, dk, half, c.scale);
        store_row<D>((uint16_t *)c.dv + (out0 + key) * c.dv_stride + kv * c.D, (int)c.D, dv, half, 1);
    }
}

template <int D, bool PARTS> static tess_status launch(tess_stream *s, attention_call *c, tess_attention_wanted wanted)
{
    const int64_t n_rep = c->H / c->G;
    const size_t bytes = (4 * others_of<D>::PIECES + 2 * TILE * D / PIECE) * sizeof(tensor_piece);
    const size_t stats_bytes = 2 * others_of<D>::N * sizeof(query_stats);
    const float scale2 = c->scale * LOG2_E;
    const int64_t n_queries = attention_cut_tiles(c, 1, 1) * c->H;
    if (n_queries == 0)
        return TESS_OK;
    TESS_TRY(TESS_CUDA_LAUNCH(tensor_stats_kernel, tess_cuda_blocks(n_queries, WARPS), THREADS, 0, s, *c, n_queries,
                              wanted == TESS_ATTENTION_KEYS));
    const int64_t query_blocks = attention_cut_tiles(c, n_rep, TILE) * c->G;
    TESS_CHECK(query_blocks <= INT32_MAX / TILE, TESS_E_UNSUPPORTED,
               "attention: %lld heads of rows are more than a GPU takes", (long long)query_blocks);
    TESS_CUDA_ASK_SHARED((tensor_backward_queries_kernel<D, PARTS>), bytes, s);
    if (wanted != TESS_ATTENTION_KEYS)
        TESS_TRY(
            TESS_CUDA_LAUNCH((tensor_backward_queries_kernel<D, PARTS>), query_blocks, THREADS, bytes, s, *c, scale2));
    const int64_t key_blocks = attention_cut_key_tiles(c, TILE) * c->G;
    if (wanted == TESS_ATTENTION_QUERIES || key_blocks == 0)
        return TESS_OK;
    TESS_CUDA_ASK_SHARED((tensor_backward_keys_kernel<D, PARTS>), bytes + stats_bytes, s);
    return TESS_CUDA_LAUNCH((tensor_backward_keys_kernel<D, PARTS>), key_blocks, THREADS, bytes + stats_bytes, s, *c,
                            scale2);
}

template <int D> static tess_status launch_sized(tess_stream *s, attention_call *c, tess_attention_wanted wanted)
{
    return c->state != NULL ? launch<D, true>(s, c, wanted) : launch<D, false>(s, c, wanted);
}

static tess_status attention_backward(tess_stream *s, const tess_attention_grad *g)
{
    const tess_attention *a = &g->forward;
    TESS_TRY(tess_attention_check(a, g));
    if (!tensor_attention_takes(a) || g->wanted == TESS_ATTENTION_SINKS)
        return tess_cuda_attention_backward(s, g);
    attention_call c = attention_grad_call_of(g);
    TESS_TRY(attention_take_scratch(s, &c,
                                    attention_tokens(a) * a->n_heads * (int64_t)(sizeof(query_stats) / sizeof(float))));
    for (int64_t i = 0; i < a->n_seqs; i += c.n_seqs) {
        attention_take_seqs(&c, a, i);
        TESS_TRY(a->head_size <= 64 ? launch_sized<64>(s, &c, g->wanted) : launch_sized<TENSOR_HEAD>(s, &c, g->wanted));
    }
    return TESS_OK;
}

void tess_kernels_cuda_tensor_attention_backward(tess_kernels *k)
{
    k->attention_backward = attention_backward;
}
