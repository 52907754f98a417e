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
 * Cost. If D = 64, a warp has 32 rows in two fragments, so each fragment of others that it loads is used twice: 20
 * flops for each byte of shared memory. Its own rows are left factors that stay in registers, as far as there are any
 * left. If D = 128, a warp has 16 rows. Scores are computed for 16 others at a time, as registers allow. A
 * multiprocessor runs two blocks of 4 warps. A block has 32 KiB of shared memory for queries, and 49 KiB (65 KiB if
 * some left factors of keys stay there) for keys. A multiprocessor of compute capability 8.6, 8.9 or 12.0 has 100 KiB,
 * so it runs one block of 65 KiB. Others are loaded into two buffers. One is filled while the other is read. A warp
 * leaves out others that none of its rows sees. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/kernels/tensor_attention.h"
#include "device/ref/ref_attention.h"

enum { WARPS = 4, THREADS = WARPS * WARP, STEP = 16 /* others of which a warp has scores at a time */ };

/* The sizes of a kernel for heads of D channels. A warp has FRAGMENTS of ROWS rows. Two buffers of others must fit into
 * shared memory, and the sums of a warp into registers. The rows of a tile pass through the buffers, too. */
template <int D> struct backward_of {
    enum {
        FRAGMENTS = D == 64 ? 2 : 1,
        OWN = FRAGMENTS * ROWS,
        TILE = WARPS * OWN,
        N = D == 64 ? 64 : 32, /* others of a block */
        PIECES = N * D / PIECE
    };
    static_assert(4 * PIECES == 2 * TILE * D / PIECE, "a tile of both operands fills the buffers");
};

/* Statistics of a query and its head, (T, H), which convert scores to probabilities and gradients. */
typedef struct query_stats {
    float lse2;  /* -lse / ln 2 */
    float delta; /* -dout . out */
} query_stats;

/* Those of two queries, which one access reads. */
typedef struct alignas(16) query_stats_pair {
    query_stats of[2];
} query_stats_pair;

static __device__ __forceinline__ const query_stats *stats_at(const attention_call &c, int64_t token, int head)
{
    return (const query_stats *)c.scratch + token * c.H + head;
}

/* D / PIECE threads share a query's head, of n: each adds the products of a piece. delta is written if the caller keeps
 * it. `knows`: it is read instead. */
template <int D>
static __global__ void __launch_bounds__(THREADS) tensor_stats_kernel(attention_call c, int64_t n, bool knows)
{
    enum { SHARERS = D / PIECE, HEADS = THREADS / SHARERS };
    const int place = (int)threadIdx.x / SHARERS, first = (int)threadIdx.x % SHARERS * PIECE, left = (int)c.D - first;
    for (int64_t begin = (int64_t)blockIdx.x * HEADS; begin < n; begin += (int64_t)gridDim.x * HEADS) {
        const int64_t i = cuda_least(begin + place, n - 1); /* all threads of a warp fold */
        const cuda_division query = cuda_divide(i, c.H);
        const int64_t row = row_of_query(c, query.quotient), h = query.rest, at = row * c.H + h;
        float a[PIECE] = {}, b[PIECE] = {}, sum = 0;
        if (knows) {
            sum = c.delta[at];
        } else {
            const cuda_bf16 *x = (const cuda_bf16 *)c.dout + row * c.dout_stride + h * c.D + first,
                            *y = (const cuda_bf16 *)c.out + row * c.out_stride + h * c.D + first;
            if (left >= PIECE && ((uintptr_t)x | (uintptr_t)y) % sizeof(tensor_piece) == 0) {
                cuda_load_wide(a, x);
                cuda_load_wide(b, y);
            } else {
                for (int d = 0; d < PIECE && d < left; d++) {
                    a[d] = cuda_load(x + d);
                    b[d] = cuda_load(y + d);
                }
            }
            TESS_CUDA_UNROLL
            for (int d = 0; d < PIECE; d++)
                sum = fmaf(a[d], b[d], sum);
            sum = cuda_fold(sum, SHARERS / 2);
        }
        if (first > 0 || begin + place >= n)
            continue;
        if (c.delta != NULL && !knows)
            c.delta[at] = sum;
        ((query_stats *)c.scratch)[at] = {-c.lse[at] * LOG2_E, -sum};
    }
}

/* Calls f(r, n, i) for element i of fragment n of R rows of N fragments. */
template <int R, int N, typename F> static __device__ __forceinline__ void each_element(F f)
{
    TESS_CUDA_UNROLL
    for (int r = 0; r < R; r++) {
        TESS_CUDA_UNROLL
        for (int n = 0; n < N; n++) {
            TESS_CUDA_UNROLL
            for (int i = 0; i < 4; i++)
                f(r, n, i);
        }
    }
}

template <int D, int R> static __device__ __forceinline__ void clear(float (*sum)[D / 8][4])
{
    each_element<R, D / 8>([&](int r, int n, int i) { sum[r][n][i] = 0; });
}

/* Copies a tile of an operand of queries. */
template <int D>
static __device__ __forceinline__ void copy_queries(tensor_piece *tile, const attention_call &c, const head_tile &t,
                                                    const void *x, int64_t stride)
{
    enum { TILE = backward_of<D>::TILE };
    if (t.n_rep == 1)
        copy_rows<D, TILE, THREADS>(tile, (int)c.D, query_at(t, 0, x, stride, c.D), stride, t.n);
    else
        copy_tile<D, TILE, THREADS>(tile, (int)c.D, [&](int i) { return query_at(t, i, x, stride, c.D); });
}

/* Sets the gradients of scores of keys that a row does not see to 0. */
template <int N, int R>
static __device__ __forceinline__ void hide_keys(const attention_call &c, const head_tile &t, int own, int base,
                                                 float (*ds)[N / 8][4])
{
    const int column = base + (int)threadIdx.x % 4 * 2;
    TESS_CUDA_UNROLL
    for (int r = 0; r < 2 * R; r++) {
        const key_range keys = key_range_of(c, t, own + 8 * r);
        TESS_CUDA_UNROLL
        for (int n = 0; n < N / 8; n++) {
            TESS_CUDA_UNROLL
            for (int i = 0; i < 2; i++) {
                const int key = column + n * 8 + i;
                if (key < keys.first || key > keys.last)
                    ds[r / 2][n][r % 2 * 2 + i] = 0;
            }
        }
    }
}

/* Left factors of a warp's rows. Those of the first 16 KEPT elements stay in registers, and the others in shared
 * memory. */
template <int D, int R, int KEPT> struct left_factors {
    uint32_t kept[R][KEPT == 0 ? 1 : KEPT][4];
    tensor_address place;

    __device__ __forceinline__ void load(tensor_address at)
    {
        place = at;
        each_constant<R>([&](auto r) {
            each_constant<KEPT>([&](auto k) { load_at<D, r.value * ROWS, k.value>(kept[r.value][k.value], at); });
        });
    }

    template <typename K> __device__ __forceinline__ void operator()(K k, uint32_t (*x)[4]) const
    {
        each_constant<R>([&](auto r) {
            if constexpr (K::value < KEPT) {
                TESS_CUDA_UNROLL
                for (int i = 0; i < 4; i++)
                    x[r.value][i] = kept[r.value][k.value][i];
            } else {
                load_at<D, r.value * ROWS, K::value>(x[r.value], place);
            }
        });
    }
};

/* Sets the probabilities and the gradients of scores of queries that do not see a key to 0. */
template <int N, int R>
static __device__ __forceinline__ void hide_queries(const attention_call &c, const tess_attention_seq &s, int own,
                                                    int base, float (*p)[N / 8][4], float (*ds)[N / 8][4])
{
    const int column = base + (int)threadIdx.x % 4 * 2;
    TESS_CUDA_UNROLL
    for (int r = 0; r < 2 * R; r++) {
        const int key = own + 8 * r, end = (int)last_query(c, s, key);
        TESS_CUDA_UNROLL
        for (int n = 0; n < N / 8; n++) {
            TESS_CUDA_UNROLL
            for (int i = 0; i < 2; i++) {
                const int query = column + n * 8 + i;
                if (query < key || query >= end)
                    p[r / 2][n][r % 2 * 2 + i] = ds[r / 2][n][r % 2 * 2 + i] = 0;
            }
        }
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
static __global__ void __launch_bounds__(THREADS, 2) tensor_backward_queries_kernel(attention_call c, float scale2)
{
    typedef backward_of<D> sizes;
    enum { R = sizes::FRAGMENTS, TILE = sizes::TILE, KEYS = sizes::N, PIECES = sizes::PIECES };
    TESS_CUDA_DYNAMIC_SHARED(tensor_line, lines);
    tensor_piece *const memory = lines->pieces;
    const int64_t number = (int64_t)gridDim.x - 1 - blockIdx.x; /* tiles with long rows run first */
    const int kv = (int)(number % c.G), row0 = (int)threadIdx.x / WARP * sizes::OWN;
    const head_tile t = head_tile_at(c, number / c.G, kv, TILE);
    const key_range all_first = key_range_of(c, t, 0), all_last = key_range_of(c, t, t.n - 1);
    const key_range first = key_range_of(c, t, row0), last = key_range_of(c, t, warp_last<sizes::OWN>(t, row0));
    const int key_end = (int)key_end_of(PARTS, *t.s), own = row0 + (int)threadIdx.x % WARP / 4;
    const int begin = PARTS ? (int)first_block(c, *t.s, all_first.last, KEYS) : all_first.first / KEYS * KEYS;
    const int end = PARTS && key_end <= all_last.last ? key_end : all_last.last + 1;
    const int n_blocks = !PARTS || begin < end ? (end - begin + KEYS - 1) / KEYS : 0;
    float dq[R][D / 8][4], lse2[R][2] = {}, delta[R][4] = {};
    left_factors<D, R, D / 16> queries, douts;
    if (!tile_is_wanted(c, t))
        return; /* the whole block */

    auto copy = [&](int block) {
        const int base = begin + block * KEYS;
        if (block < n_blocks)
            for (int i = 0; i < 2; i++) {
                const int64_t stride = i == 0 ? c.k_stride : c.v_stride;
                const int64_t row = PARTS ? base - t.s->k_begin : base;
                copy_rows<D, KEYS, THREADS>(memory + (block % 2 * 2 + i) * PIECES, (int)c.D,
                                            (const uint16_t *)(i == 0 ? t.s->k : t.s->v) + row * stride + kv * c.D,
                                            stride, key_end - base);
            }
        tensor_copies_end();
    };

    copy_queries<D>(memory, c, t, c.q, c.q_stride);
    copy_queries<D>(memory + 2 * PIECES, c, t, c.dout, c.dout_stride);
    tensor_copies_end();
    TESS_CUDA_UNROLL
    for (int r = 0; r < 2 * R; r++)
        if (own + 8 * r < t.n) {
            const query_row row = query_row_at(t, own + 8 * r);
            const query_stats stats = *stats_at(c, row.token, row.head);
            lse2[r / 2][r % 2] = stats.lse2;
            delta[r / 2][r % 2 * 2] = delta[r / 2][r % 2 * 2 + 1] = stats.delta;
        }
    const tensor_address buffers = tensor_address_of(memory), place = left_place<D>();
    tensor_copies_wait<0>();
    __syncthreads();
    queries.load(buffers + row0 * D * 2 + place);
    douts.load(buffers + (2 * PIECES * PIECE + row0 * D) * 2 + place);
    __syncthreads();
    copy(0);
    clear<D, R>(dq);
    TESS_CUDA_UNROLL
    for (int r = 0; r < 2 * R; r++)
        if (PARTS && own + 8 * r < t.n && has_earlier_sums(c, *t.s))
            load_sums<D>(dq[r / 2], r % 2, queries_state(c, query_row_at(t, own + 8 * r)), (int)c.D);
    for (int block = 0; block < n_blocks; block++) {
        const tensor_address keys = buffers + block % 2 * 2 * PIECES * 16, values = keys + PIECES * 16;
        tensor_copies_wait<0>();
        __syncthreads();
        copy(block + 1);
        each_constant<KEYS / STEP>([&](auto step) {
            constexpr int ROW = step.value * STEP;
            const int base = begin + block * KEYS + ROW;
            const float zeros[4] = {};
            float ds[R][STEP / 8][4], score[R][STEP / 8][4];
            if (base > last.last || base + STEP <= first.first)
                return; /* the warp's rows see none of these keys */
            multiply_rows<D, STEP, ROW, R>(score, keys + right_place<D>(), queries, [&](int, int) { return zeros; });
            multiply_rows<D, STEP, ROW, R>(ds, values + right_place<D>(), douts, [&](int r, int) { return delta[r]; });
            each_element<R, STEP / 8>(
                [&](int r, int n, int i) { ds[r][n][i] *= tensor_exp2(fmaf(score[r][n][i], scale2, lse2[r][i / 2])); });
            if (base < last.first || base + STEP > first.last + 1)
                hide_keys<STEP, R>(c, t, own, base, ds);
            multiply_columns<D, STEP, ROW, R>([&](int r) { return dq[r]; }, ds, keys + place);
        });
    }
    if (PARTS && n_blocks == 0)
        tensor_copies_wait<0>();
    TESS_CUDA_UNROLL
    for (int r = 0; r < 2 * R; r++)
        if (own + 8 * r < t.n) {
            const query_row row = query_row_at(t, own + 8 * r);
            if (PARTS && keeps_sums(c, *t.s))
                store_sums<D>(queries_state(c, row), (int)c.D, dq[r / 2], r % 2);
            else
                store_row<D>((uint16_t *)c.dq + row.token * c.dq_stride + row.head * c.D, (int)c.D, dq[r / 2], r % 2,
                             c.scale);
        }
}

/* The sums of a key between calls: dk (D), then dv (D). */
static __device__ __forceinline__ float *keys_state(const attention_call &c, int64_t row, int kv)
{
    return c.state + (row * c.G + kv) * 2 * c.D;
}

/* The left factors of keys that registers have room for. */
template <int D, bool PARTS> struct kept_keys {
    enum { N = PARTS ? D / 32 : D == 64 ? 3 : D / 16 };
};

/* Computes dk and dv of a tile of keys. */
template <int D, bool PARTS>
static __global__ void __launch_bounds__(THREADS, 2) tensor_backward_keys_kernel(attention_call c, float scale2)
{
    typedef backward_of<D> sizes;
    enum {
        R = sizes::FRAGMENTS,
        TILE = sizes::TILE,
        QUERIES = sizes::N,
        PIECES = sizes::PIECES,
        KEPT = kept_keys<D, PARTS>::N
    };
    TESS_CUDA_DYNAMIC_SHARED(tensor_line, lines);
    tensor_piece *const memory = lines->pieces;
    query_stats *const all_stats = (query_stats *)(memory + 4 * PIECES);
    tensor_piece *const value_tile = (tensor_piece *)(all_stats + 2 * QUERIES);
    tensor_piece *const key_tile = KEPT < D / 16 ? value_tile + TILE * D / PIECE : memory;
    const int kv = (int)(blockIdx.x % c.G), n_rep = (int)(c.H / c.G), row0 = (int)threadIdx.x / WARP * sizes::OWN;
    const attention_seq *seq = seq_of_tile(c, blockIdx.x / c.G);
    const tess_attention_seq &s = seq->s;
    const int tile0 = (int)(blockIdx.x / c.G - seq->first_tile) * TILE, key0 = tile0 + (PARTS ? (int)s.k_begin : 0);
    const int n = (int)cuda_least(key_end_of(PARTS, s) - key0, TILE);
    const int query0 = PARTS ? (int)(s.k_len - s.q_len) : 0;
    const int end = (int)last_query(c, s, key0 + n - 1), begin = key0 > query0 ? key0 / QUERIES * QUERIES : query0;
    const int n_blocks = !PARTS || begin < end ? (end - begin + QUERIES - 1) / QUERIES : 0;
    const int warp_key = key0 + row0, own = warp_key + (int)threadIdx.x % WARP / 4;
    const int64_t out0 = PARTS ? s.k_row - s.k_begin : s.q_begin; /* the row of key 0 */
    float dk[R][D / 8][4], dv[R][D / 8][4];
    left_factors<D, R, KEPT> keys;
    left_factors<D, R, 0> values; /* registers would be too few */
    if (!ranges_meet(out0 + key0, n, c.key_begin, c.key_end))
        return; /* the whole block */

    /* Copies the next rows: those of the next head of the group after the last of a head. */
    int next = 0, next_head = kv * n_rep;
    auto copy = [&](int block) {
        if (block < n_blocks * n_rep) {
            const int base = begin + next * QUERIES, head = next_head;
            const int64_t present = s.k_len - base, token = s.q_begin + base - query0;
            for (int i = 0; i < 2; i++) {
                const int64_t stride = i == 0 ? c.q_stride : c.dout_stride;
                copy_rows<D, QUERIES, THREADS>(memory + (block % 2 * 2 + i) * PIECES, (int)c.D,
                                               (const uint16_t *)(i == 0 ? c.q : c.dout) + token * stride + head * c.D,
                                               stride, present);
            }
            query_stats *stats = all_stats + block % 2 * QUERIES + threadIdx.x;
            if (threadIdx.x < QUERIES && (int)threadIdx.x < present)
                tensor_copy_pair((float *)stats, (const float *)stats_at(c, token + threadIdx.x, head));
            else if (threadIdx.x < QUERIES)
                *stats = {0, 0};
            next_head += next + 1 == n_blocks;
            next = next + 1 == n_blocks ? 0 : next + 1;
        }
        tensor_copies_end();
    };

    copy_rows<D, TILE, THREADS>(key_tile, (int)c.D, (const uint16_t *)s.k + tile0 * c.k_stride + kv * c.D, c.k_stride,
                                n);
    copy_rows<D, TILE, THREADS>(value_tile, (int)c.D, (const uint16_t *)s.v + tile0 * c.v_stride + kv * c.D, c.v_stride,
                                n);
    tensor_copies_end();
    const tensor_address buffers = tensor_address_of(memory), place = left_place<D>();
    tensor_copies_wait<0>();
    __syncthreads();
    keys.load(tensor_address_of(key_tile) + row0 * D * 2 + place);
    values.load(tensor_address_of(value_tile) + row0 * D * 2 + place);
    __syncthreads();
    copy(0);
    clear<D, R>(dk);
    clear<D, R>(dv);
    TESS_CUDA_UNROLL
    for (int r = 0; r < 2 * R; r++)
        if (PARTS && own + 8 * r < key0 + n && has_earlier_sums(c, s)) {
            const float *state = keys_state(c, out0 + own + 8 * r, kv);
            load_sums<D>(dk[r / 2], r % 2, state, (int)c.D);
            load_sums<D>(dv[r / 2], r % 2, state + c.D, (int)c.D);
        }
    for (int block = 0; block < n_blocks * n_rep; block++) {
        const tensor_address queries = buffers + block % 2 * 2 * PIECES * 16, douts = queries + PIECES * 16;
        const query_stats *const stats = all_stats + block % 2 * QUERIES + threadIdx.x % 4 * 2;
        const int begin_of_block = begin + (next > 0 ? next - 1 : n_blocks - 1) * QUERIES;
        tensor_copies_wait<0>();
        __syncthreads();
        copy(block + 1);
        each_constant<QUERIES / STEP>([&](auto step) {
            constexpr int ROW = step.value * STEP;
            const int base = begin_of_block + ROW;
            const float zeros[4] = {};
            float p[R][STEP / 8][4], ds[R][STEP / 8][4], delta[STEP / 8][4];
            if (base + STEP <= warp_key || base >= last_query(c, s, warp_key + sizes::OWN - 1))
                return; /* none of these queries sees the warp's keys */
            multiply_rows<D, STEP, ROW, R>(p, queries + right_place<D>(), keys, [&](int, int) { return zeros; });
            TESS_CUDA_UNROLL
            for (int k = 0; k < STEP / 8; k++) {
                const query_stats_pair pair = *(const query_stats_pair *)(stats + ROW + k * 8);
                TESS_CUDA_UNROLL
                for (int i = 0; i < 4; i++) {
                    delta[k][i] = pair.of[i % 2].delta;
                    TESS_CUDA_UNROLL
                    for (int r = 0; r < R; r++)
                        p[r][k][i] = tensor_exp2(fmaf(p[r][k][i], scale2, pair.of[i % 2].lse2));
                }
            }
            multiply_rows<D, STEP, ROW, R>(ds, douts + right_place<D>(), values, [&](int, int k) { return delta[k]; });
            each_element<R, STEP / 8>([&](int r, int k, int i) { ds[r][k][i] *= p[r][k][i]; });
            if (base < warp_key + sizes::OWN - 1 || base + STEP > last_query(c, s, warp_key))
                hide_queries<STEP, R>(c, s, own, base, p, ds);
            multiply_columns<D, STEP, ROW, R>([&](int r) { return dv[r]; }, p, douts + place);
            multiply_columns<D, STEP, ROW, R>([&](int r) { return dk[r]; }, ds, queries + place);
        });
    }
    if (PARTS && n_blocks == 0)
        tensor_copies_wait<0>();
    TESS_CUDA_UNROLL
    for (int r = 0; r < 2 * R; r++) {
        const int key = own + 8 * r;
        if (key >= key0 + n)
            continue;
        if (PARTS && keeps_sums(c, s)) {
            float *state = keys_state(c, out0 + key, kv);
            store_sums<D>(state, (int)c.D, dk[r / 2], r % 2);
            store_sums<D>(state + c.D, (int)c.D, dv[r / 2], r % 2);
            continue;
        }
        store_row<D>((uint16_t *)c.dk + (out0 + key) * c.dk_stride + kv * c.D, (int)c.D, dk[r / 2], r % 2, c.scale);
        store_row<D>((uint16_t *)c.dv + (out0 + key) * c.dv_stride + kv * c.D, (int)c.D, dv[r / 2], r % 2, 1);
    }
}

template <int D, bool PARTS> static tess_status launch(tess_stream *s, attention_call *c, tess_attention_wanted wanted)
{
    enum { TILE = backward_of<D>::TILE, PIECES = backward_of<D>::PIECES };
    const int64_t n_rep = c->H / c->G;
    const size_t bytes = 4 * PIECES * sizeof(tensor_piece);
    const size_t key_bytes = bytes + 2 * backward_of<D>::N * sizeof(query_stats) +
                             (kept_keys<D, PARTS>::N < D / 16 ? 2 : 1) * TILE * D * sizeof(uint16_t);
    const float scale2 = c->scale * LOG2_E;
    const int64_t n_queries = attention_cut_tiles(c, 1, 1) * c->H;
    if (n_queries == 0)
        return TESS_OK;
    TESS_TRY(TESS_CUDA_LAUNCH(tensor_stats_kernel<D>, tess_cuda_blocks(n_queries, THREADS * PIECE / D), THREADS, 0, s,
                              *c, n_queries, wanted == TESS_ATTENTION_KEYS));
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
    TESS_CUDA_ASK_SHARED((tensor_backward_keys_kernel<D, PARTS>), key_bytes, s);
    return TESS_CUDA_LAUNCH((tensor_backward_keys_kernel<D, PARTS>), key_blocks, THREADS, key_bytes, s, *c, scale2);
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
