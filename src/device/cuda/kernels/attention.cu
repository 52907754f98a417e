/* Attention with the same bits as the definition (device/ref/ref_attention.c), for both element types.
 *
 * A block of threads has a tile of rows of one head, and each warp has ROWS of them. The block loops over blocks of
 * TESS_ATTENTION_BLOCK other rows, called "others" here. They are keys if the tile's rows are queries, and queries for
 * the gradients of keys and values. Others are loaded into shared memory in stretches of 32 channels. One thread
 * computes a score as a chain over channels. A sum over others is one thread's chain over them, where a thread has
 * every 32nd channel. */
#include <math.h>

#include "device/cuda/kernels/cuda_attention.h"
#include "device/cuda/cuda_rows.h"
#include "device/ref/ref_attention.h"

#include "device/ref/vec_ref.h"
#include "device/vmath.h"

enum {
    WARP = 32,
    WARPS = 4,
    THREADS = WARP * WARPS,
    BLOCKS = 3, /* blocks that run on a multiprocessor; a thread then has 168 registers */
    OTHERS = TESS_ATTENTION_BLOCK,
    PER_LANE = OTHERS / WARP,
    MAX_HEAD = 256
};

/* WARP channels of OTHERS rows. */
typedef float attention_stretch[OTHERS][WARP + 1];

/* The others of a block that a row sees, as indices in the block. */
typedef struct attention_range {
    int begin, end;
} attention_range;

/* Returns the others [first, last) of a row that are in the block that begins at `base`. */
static __device__ inline attention_range range_in(int64_t first, int64_t last, int64_t base)
{
    int64_t begin = first > base ? first - base : 0, end = cuda_least(last - base, OTHERS);
    return begin < end ? attention_range{(int)begin, (int)end} : attention_range{0, 0};
}

/* Returns a score that is not scaled yet, capped. */
static __device__ inline float capped(const attention_call &c, float score)
{
    return c.soft_cap != 0 ? v_soft_cap(score, c.soft_cap, c.inverse_cap) : score;
}

/* Loads a stretch. x points to the head of the first other. Others and channels that do not exist are 0: they are
 * computed with, although nothing of that is stored. All threads of the block must call this; it has two barriers. */
template <typename E>
static __device__ inline void load_stretch(attention_stretch to, const E *x, int64_t stride, int64_t rows, int64_t D,
                                           int64_t channel)
{
    __syncthreads();
    for (int e = (int)threadIdx.x; e < OTHERS * WARP; e += THREADS) {
        int row = e / WARP, d = e % WARP;
        to[row][d] = row < rows && channel + d < D ? cuda_load(x + row * stride + channel + d) : 0;
    }
    __syncthreads();
}

/* Loads the rows of this block: to[row][d]. `rows` of them exist, and others are 0. A barrier is needed before other
 * threads read them. */
template <typename E, int N>
static __device__ inline void load_rows(float to[][N * WARP], int tile, const E *x, int64_t stride, int64_t rows,
                                        int64_t D)
{
    for (int64_t e = threadIdx.x; e < tile * D; e += THREADS) {
        cuda_division row = cuda_divide(e, D);
        to[row.quotient][row.rest] = row.quotient < rows ? cuda_load(x + row.quotient * stride + row.rest) : 0;
    }
}

/* Adds the stretch's channels to dot[r][i], the product of the warp's row r and this lane's other i. */
template <int ROWS, int N>
static __device__ inline void dot_stretch(const attention_stretch others, const float rows[][N * WARP], int64_t D,
                                          int64_t channel, float dot[ROWS][PER_LANE])
{
    int lane = (int)threadIdx.x % WARP, row = (int)threadIdx.x / WARP * ROWS;
    int length = (int)cuda_least(D - channel, WARP);
    TESS_CUDA_UNROLL_BY_4
    for (int d = 0; d < length; d++) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < PER_LANE; i++) {
            float other = others[lane + i * WARP][d];
            TESS_CUDA_UNROLL
            for (int r = 0; r < ROWS; r++)
                dot[r][i] = fmaf(rows[row + r][channel + d], other, dot[r][i]);
        }
    }
}

/* Adds weight times channel `lane` of the others that row r sees to sum[r], others ascending. */
template <int ROWS>
static __device__ inline void add_stretch(const attention_stretch others, const float weights[][OTHERS],
                                          const attention_range range[ROWS], float sum[ROWS])
{
    int lane = (int)threadIdx.x % WARP, row = (int)threadIdx.x / WARP * ROWS;
    TESS_CUDA_UNROLL_BY_4
    for (int j = 0; j < OTHERS; j++) {
        float other = others[j][lane];
        TESS_CUDA_UNROLL
        for (int r = 0; r < ROWS; r++)
            if (range[r].begin <= j && j < range[r].end)
                sum[r] = fmaf(weights[row + r][j], other, sum[r]);
    }
}

static __device__ inline float largest_of_warp(float x)
{
    for (unsigned apart = WARP / 2; apart > 0; apart /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
    return x;
}

/* Returns the sum of p[begin .. end) to all threads of the warp. Element j is added to partial sum j % 4, ascending. */
static __device__ inline float sum_of_row(const float *p, attention_range range)
{
    int lane = (int)threadIdx.x % WARP;
    float sum = 0;
    for (int j = range.begin + ((lane - range.begin) & 3); j < range.end; j += 4)
        sum += p[j];
    float of[4];
    TESS_CUDA_UNROLL
    for (unsigned i = 0; i < 4; i++)
        of[i] = __shfl_sync(0xffffffffu, sum, i);
    return (of[0] + of[1]) + (of[2] + of[3]);
}

/* The state of a row's softmax. */
typedef struct attention_row {
    float m, l;
} attention_row;

/* Adds this lane's scores of a block to the softmax. `weights` receives the row's rounded probabilities. Returns the
 * factor that corrects earlier sums. `p` (OTHERS) is work space of the warp. */
template <typename E>
static __device__ inline float take_scores(attention_row *row, const float score[PER_LANE], attention_range range,
                                           float *p, float *weights)
{
    int lane = (int)threadIdx.x % WARP;
    float m = row->m;
    TESS_CUDA_UNROLL
    for (int i = 0; i < PER_LANE; i++)
        if (range.begin <= lane + i * WARP && lane + i * WARP < range.end)
            m = fmaxf(m, score[i]);
    m = largest_of_warp(m);
    float correction = v_exp(row->m - m);
    TESS_CUDA_UNROLL
    for (int i = 0; i < PER_LANE; i++) {
        int j = lane + i * WARP;
        p[j] = range.begin <= j && j < range.end ? v_exp(score[i] - m) : 0;
        weights[j] = cuda_round<E>(p[j]);
    }
    __syncwarp();
    row->l = fmaf(row->l, correction, sum_of_row(p, range));
    row->m = m;
    __syncwarp();
    return correction;
}

/* The sums of a row between calls: m, l, then o (D). */
static __device__ inline float *forward_state(const attention_call &c, int64_t row, int64_t h)
{
    return c.state + (row * c.H + h) * (c.D + 2);
}

/* The forward kernel, for heads of at most N * WARP channels. */
template <typename E, int N> static __global__ void __launch_bounds__(THREADS, BLOCKS) forward_kernel(attention_call c)
{
    enum { ROWS = N < 8 ? 4 : 2, TILE = WARPS * ROWS };
    __shared__ float queries[TILE][N * WARP], weights[TILE][OTHERS], p[WARPS][OTHERS];
    __shared__ attention_stretch stretch;
    const int64_t D = c.D, h = blockIdx.x % c.H, kv = h / (c.H / c.G);
    const attention_seq *seq = seq_of_tile(c, blockIdx.x / c.H);
    const tess_attention_seq &s = seq->s;
    const int64_t tile0 = (blockIdx.x / c.H - seq->first_tile) * TILE, position0 = s.k_len - s.q_len + tile0;
    const int64_t n = cuda_least(s.q_len - tile0, TILE), key_end = key_end_of(c.state != NULL, s);
    const int64_t end = cuda_least(position0 + n, key_end);
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    attention_row row[ROWS];
    float o[N][ROWS] = {};
    load_rows<E, N>(queries, TILE, (const E *)c.q + (s.q_begin + tile0) * c.q_stride + h * D, c.q_stride, n, D);
    TESS_CUDA_UNROLL
    for (int r = 0; r < ROWS; r++) {
        const int64_t i = warp * ROWS + r;
        row[r] = {c.sinks != NULL ? cuda_load((const E *)c.sinks + h) : -INFINITY, c.sinks != NULL ? 1.0f : 0.0f};
        if (i >= n || !has_earlier_sums(c, s))
            continue;
        const float *state = forward_state(c, s.q_begin + tile0 + i, h);
        row[r] = {state[0], state[1]};
        TESS_CUDA_UNROLL
        for (int k = 0; k < N; k++)
            if (k * WARP + lane < D)
                o[k][r] = state[2 + k * WARP + lane];
    }
    for (int64_t base = first_block(c, s, position0, OTHERS); base < end; base += OTHERS) {
        const E *keys = (const E *)s.k + block_at(c, s, s.k_begin, base, c.k_stride) + kv * D,
                *values = (const E *)s.v + block_at(c, s, s.k_begin, base, c.v_stride) + kv * D;
        float score[ROWS][PER_LANE] = {};
        attention_range range[ROWS];
        for (int64_t d = 0; d < D; d += WARP) {
            load_stretch(stretch, keys, c.k_stride, key_end - base, D, d);
            dot_stretch<ROWS, N>(stretch, queries, D, d, score);
        }
        TESS_CUDA_UNROLL
        for (int r = 0; r < ROWS; r++) {
            int64_t i = warp * ROWS + r, position = position0 + i;
            range[r] = i < n ? range_in(first_key(c, position), cuda_least(position + 1, key_end), base)
                             : attention_range{0, 0};
            TESS_CUDA_UNROLL
            for (int k = 0; k < PER_LANE; k++)
                score[r][k] = c.scale * capped(c, score[r][k]);
            if (range[r].begin == range[r].end) /* the condition is the same for the whole warp */
                continue;
            float correction = take_scores<E>(&row[r], score[r], range[r], p[warp], weights[i]);
            TESS_CUDA_UNROLL
            for (int k = 0; k < N; k++)
                o[k][r] *= correction;
        }
        TESS_CUDA_UNROLL
        for (int k = 0; k < N; k++) {
            if (k * WARP >= D)
                continue;
            load_stretch(stretch, values, c.v_stride, key_end - base, D, k * WARP);
            add_stretch<ROWS>(stretch, weights, range, o[k]);
        }
    }
    TESS_CUDA_UNROLL
    for (int r = 0; r < ROWS; r++) {
        int64_t i = warp * ROWS + r, at = s.q_begin + tile0 + i;
        if (i >= n)
            continue;
        if (keeps_sums(c, s)) {
            float *state = forward_state(c, at, h);
            TESS_CUDA_UNROLL
            for (int k = 0; k < N; k++)
                if (k * WARP + lane < D)
                    state[2 + k * WARP + lane] = o[k][r];
            if (lane == 0) {
                state[0] = row[r].m;
                state[1] = row[r].l;
            }
            continue;
        }
        TESS_CUDA_UNROLL
        for (int k = 0; k < N; k++)
            if (k * WARP + lane < D)
                cuda_store((E *)c.out + at * c.out_stride + h * D + k * WARP + lane, o[k][r] / row[r].l + 0.0f);
        if (c.lse != NULL && lane == 0)
            c.lse[at * c.H + h] = row[r].m + v_log(row[r].l);
    }
}

/* Computes delta[t,h] = dout[t,h] . out[t,h] of n queries' heads. Each thread computes one. */
template <typename E> static __global__ void delta_kernel(attention_call c, int64_t n)
{
    TESS_CUDA_EACH(i, n)
    {
        cuda_division query = cuda_divide(i, c.H);
        int64_t row = row_of_query(c, query.quotient), h = query.rest;
        const E *x = (const E *)c.dout + row * c.dout_stride + h * c.D,
                *y = (const E *)c.out + row * c.out_stride + h * c.D;
        float sum = 0;
        for (int64_t d = 0; d < c.D; d++)
            sum = fmaf(cuda_load(x + d), cuda_load(y + d), sum);
        c.delta[row * c.H + h] = sum;
    }
}

/* Adds to the gradients of the sinks, or begins them. Each thread computes one. Row by row, -p delta is added, where p
 * is the sink's probability. */
template <typename E> static __global__ void sinks_kernel(attention_call c, bool begins)
{
    const int64_t h = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (h >= c.H)
        return;
    const float sink = cuda_load((const E *)c.sinks + h);
    float sum = begins ? 0 : c.dsinks[h];
    for (int i = 0; i < c.n_seqs; i++)
        for (int64_t first = 0; first < c.seqs[i].s.q_len; first += TESS_NORM_BLOCK) {
            float block = 0;
            for (int64_t r = first; r < c.seqs[i].s.q_len && r < first + TESS_NORM_BLOCK; r++) {
                const int64_t at = (c.seqs[i].s.q_begin + r) * c.H + h;
                block = fmaf(-v_exp(sink - c.lse[at]), c.delta[at], block);
            }
            sum += block;
        }
    c.dsinks[h] = sum;
}

template <typename E> static tess_status launch_sinks(tess_stream *s, const attention_call *c, bool begins)
{
    return TESS_CUDA_LAUNCH(sinks_kernel<E>, (unsigned)((c->H + THREADS - 1) / THREADS), THREADS, 0, s, *c, begins);
}

/* Returns the probability and dS of a query and a key; both are 0 unless `seen`. */
template <typename E>
static __device__ inline void put_gradients(const attention_call &c, bool seen, int64_t query, int64_t h, float score,
                                            float dp, float *p, float *ds)
{
    score = capped(c, score);
    float probability = seen ? v_exp(c.scale * score - c.lse[query * c.H + h]) : 0;
    float slope = c.soft_cap != 0 ? v_soft_cap_slope(score, c.inverse_cap) : 1;
    *ds = seen ? cuda_round<E>(probability * (dp - c.delta[query * c.H + h]) * slope) : 0;
    *p = cuda_round<E>(probability);
}

/* Computes dq of a tile of queries, with keys ascending. */
template <typename E, int N>
static __global__ void __launch_bounds__(THREADS, N == 4 ? 2 : BLOCKS) backward_queries_kernel(attention_call c)
{
    enum { ROWS = N < 8 ? 4 : 1, TILE = WARPS * ROWS };
    __shared__ float queries[TILE][N * WARP], douts[TILE][N * WARP], ds[TILE][OTHERS];
    __shared__ attention_stretch stretch;
    const int64_t D = c.D, h = blockIdx.x % c.H, kv = h / (c.H / c.G);
    const attention_seq *seq = seq_of_tile(c, blockIdx.x / c.H);
    const tess_attention_seq &s = seq->s;
    const int64_t tile0 = (blockIdx.x / c.H - seq->first_tile) * TILE, row0 = s.q_begin + tile0;
    const int64_t n = cuda_least(s.q_len - tile0, TILE), position0 = s.k_len - s.q_len + tile0;
    const int64_t key_end = key_end_of(c.state != NULL, s), end = cuda_least(position0 + n, key_end);
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    float dq[N][ROWS] = {};
    if (!ranges_meet(h, 1, c.head_begin, c.head_end) || !ranges_meet(row0, n, c.query_begin, c.query_end))
        return; /* the whole block */
    load_rows<E, N>(queries, TILE, (const E *)c.q + row0 * c.q_stride + h * D, c.q_stride, n, D);
    load_rows<E, N>(douts, TILE, (const E *)c.dout + row0 * c.dout_stride + h * D, c.dout_stride, n, D);
    TESS_CUDA_UNROLL
    for (int r = 0; r < ROWS; r++) {
        const int64_t i = warp * ROWS + r;
        TESS_CUDA_UNROLL
        for (int k = 0; k < N; k++)
            if (has_earlier_sums(c, s) && i < n && k * WARP + lane < D)
                dq[k][r] = c.state[((row0 + i) * c.H + h) * D + k * WARP + lane];
    }
    for (int64_t base = first_block(c, s, position0, OTHERS); base < end; base += OTHERS) {
        const E *keys = (const E *)s.k + block_at(c, s, s.k_begin, base, c.k_stride) + kv * D,
                *values = (const E *)s.v + block_at(c, s, s.k_begin, base, c.v_stride) + kv * D;
        float score[ROWS][PER_LANE] = {}, dp[ROWS][PER_LANE] = {};
        attention_range range[ROWS];
        for (int64_t d = 0; d < D; d += WARP) {
            load_stretch(stretch, keys, c.k_stride, key_end - base, D, d);
            dot_stretch<ROWS, N>(stretch, queries, D, d, score);
            load_stretch(stretch, values, c.v_stride, key_end - base, D, d);
            dot_stretch<ROWS, N>(stretch, douts, D, d, dp);
        }
        TESS_CUDA_UNROLL
        for (int r = 0; r < ROWS; r++) {
            int64_t i = warp * ROWS + r, position = position0 + i;
            range[r] = i < n ? range_in(first_key(c, position), cuda_least(position + 1, key_end), base)
                             : attention_range{0, 0};
            TESS_CUDA_UNROLL
            for (int k = 0; k < PER_LANE; k++) {
                int j = lane + k * WARP;
                float p;
                put_gradients<E>(c, range[r].begin <= j && j < range[r].end, row0 + i, h, score[r][k], dp[r][k], &p,
                                 &ds[i][j]);
            }
        }
        TESS_CUDA_UNROLL
        for (int k = 0; k < N; k++) {
            if (k * WARP >= D)
                continue;
            load_stretch(stretch, keys, c.k_stride, key_end - base, D, k * WARP);
            add_stretch<ROWS>(stretch, ds, range, dq[k]);
        }
    }
    TESS_CUDA_UNROLL
    for (int r = 0; r < ROWS; r++) {
        int64_t i = warp * ROWS + r;
        TESS_CUDA_UNROLL
        for (int k = 0; k < N; k++) {
            if (i >= n || k * WARP + lane >= D)
                continue;
            if (keeps_sums(c, s))
                c.state[((row0 + i) * c.H + h) * D + k * WARP + lane] = dq[k][r];
            else
                cuda_store((E *)c.dq + (row0 + i) * c.dq_stride + h * D + k * WARP + lane, c.scale * dq[k][r] + 0.0f);
        }
    }
}

/* The sums of a key between calls: dk (D), then dv (D). NULL: the call keeps none. */
static __device__ inline float *keys_state(const attention_call &c, int64_t row, int64_t kv)
{
    return c.state != NULL ? c.state + (row * c.G + kv) * 2 * c.D : NULL;
}

/* Computes dk and dv of a tile of keys: over the query heads that share the keys, and the queries of each head,
 * ascending. */
template <typename E, int N>
static __global__ void __launch_bounds__(THREADS, N == 4 ? 2 : BLOCKS) backward_keys_kernel(attention_call c)
{
    enum { ROWS = N < 8 ? 4 : 1, TILE = WARPS * ROWS };
    __shared__ float keys[TILE][N * WARP], values[TILE][N * WARP], p[TILE][OTHERS], ds[TILE][OTHERS];
    __shared__ attention_stretch stretch;
    const int64_t D = c.D, n_rep = c.H / c.G, kv = blockIdx.x % c.G;
    const attention_seq *seq = seq_of_tile(c, blockIdx.x / c.G);
    const tess_attention_seq &s = seq->s;
    const int64_t tile0 = (blockIdx.x / c.G - seq->first_tile) * TILE;
    const int64_t key0 = s.k_begin + tile0, n = cuda_least(key_end_of(c.state != NULL, s) - key0, TILE);
    const int64_t last = last_query(c, s, key0 + n - 1), query0 = s.k_len - s.q_len, out0 = key_row_of(c, s) + tile0;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    float dk[N][ROWS] = {}, dv[N][ROWS] = {};
    if (!ranges_meet(out0, n, c.key_begin, c.key_end))
        return; /* the whole block */
    load_rows<E, N>(keys, TILE, (const E *)s.k + tile0 * c.k_stride + kv * D, c.k_stride, n, D);
    load_rows<E, N>(values, TILE, (const E *)s.v + tile0 * c.v_stride + kv * D, c.v_stride, n, D);
    TESS_CUDA_UNROLL
    for (int r = 0; r < ROWS; r++) {
        const int64_t j = warp * ROWS + r;
        const float *state = keys_state(c, out0 + j, kv);
        TESS_CUDA_UNROLL
        for (int k = 0; k < N; k++)
            if (has_earlier_sums(c, s) && j < n && k * WARP + lane < D) {
                dk[k][r] = state[k * WARP + lane];
                dv[k][r] = state[D + k * WARP + lane];
            }
    }
    for (int64_t h = kv * n_rep; h < (kv + 1) * n_rep; h++)
        for (int64_t base = first_query_block(s, key0, OTHERS); base < last; base += OTHERS) {
            const int64_t row0 = s.q_begin + base - query0;
            const E *queries = (const E *)c.q + row0 * c.q_stride + h * D,
                    *douts = (const E *)c.dout + row0 * c.dout_stride + h * D;
            float score[ROWS][PER_LANE] = {}, dp[ROWS][PER_LANE] = {};
            attention_range range[ROWS];
            for (int64_t d = 0; d < D; d += WARP) {
                load_stretch(stretch, queries, c.q_stride, s.k_len - base, D, d);
                dot_stretch<ROWS, N>(stretch, keys, D, d, score);
                load_stretch(stretch, douts, c.dout_stride, s.k_len - base, D, d);
                dot_stretch<ROWS, N>(stretch, values, D, d, dp);
            }
            TESS_CUDA_UNROLL
            for (int r = 0; r < ROWS; r++) {
                int64_t j = warp * ROWS + r, key = key0 + j;
                range[r] = j < n ? range_in(key, last_query(c, s, key), base) : attention_range{0, 0};
                TESS_CUDA_UNROLL
                for (int k = 0; k < PER_LANE; k++) {
                    int i = lane + k * WARP;
                    put_gradients<E>(c, range[r].begin <= i && i < range[r].end, row0 + i, h, score[r][k], dp[r][k],
                                     &p[j][i], &ds[j][i]);
                }
            }
            TESS_CUDA_UNROLL
            for (int k = 0; k < N; k++) {
                if (k * WARP >= D)
                    continue;
                load_stretch(stretch, douts, c.dout_stride, s.k_len - base, D, k * WARP);
                add_stretch<ROWS>(stretch, p, range, dv[k]);
                load_stretch(stretch, queries, c.q_stride, s.k_len - base, D, k * WARP);
                add_stretch<ROWS>(stretch, ds, range, dk[k]);
            }
        }
    TESS_CUDA_UNROLL
    for (int r = 0; r < ROWS; r++) {
        int64_t j = warp * ROWS + r, row = out0 + j;
        TESS_CUDA_UNROLL
        for (int k = 0; k < N; k++) {
            int64_t channel = kv * D + k * WARP + lane;
            if (j >= n || k * WARP + lane >= D)
                continue;
            if (keeps_sums(c, s)) {
                float *state = keys_state(c, row, kv) + k * WARP + lane;
                state[0] = dk[k][r];
                state[D] = dv[k][r];
                continue;
            }
            cuda_store((E *)c.dk + row * c.dk_stride + channel, c.scale * dk[k][r] + 0.0f);
            cuda_store((E *)c.dv + row * c.dv_stride + channel, dv[k][r] + 0.0f);
        }
    }
}

typedef enum attention_pass { FORWARD, BACKWARD_QUERIES, BACKWARD_KEYS } attention_pass;

template <typename E, int N> static tess_status launch_sized(tess_stream *s, attention_call *c, attention_pass pass)
{
    const int64_t rows = N < 8 ? 4 : pass == FORWARD ? 2 : 1;
    const int64_t tiles =
        pass == BACKWARD_KEYS ? attention_cut_key_tiles(c, WARPS * rows) : attention_cut_tiles(c, 1, WARPS * rows);
    const int64_t blocks = tiles * (pass == BACKWARD_KEYS ? c->G : c->H);
    TESS_CHECK(blocks <= INT32_MAX, TESS_E_UNSUPPORTED, "attention: %lld heads of rows are more than a GPU takes",
               (long long)blocks);
    if (blocks == 0)
        return TESS_OK;
    if (pass == FORWARD)
        return TESS_CUDA_LAUNCH((forward_kernel<E, N>), blocks, THREADS, 0, s, *c);
    if (pass == BACKWARD_QUERIES)
        return TESS_CUDA_LAUNCH((backward_queries_kernel<E, N>), blocks, THREADS, 0, s, *c);
    return TESS_CUDA_LAUNCH((backward_keys_kernel<E, N>), blocks, THREADS, 0, s, *c);
}

template <typename E> static tess_status launch(tess_stream *s, attention_call *c, attention_pass pass)
{
    return c->D <= 2 * WARP   ? launch_sized<E, 2>(s, c, pass)
           : c->D <= 4 * WARP ? launch_sized<E, 4>(s, c, pass)
                              : launch_sized<E, 8>(s, c, pass);
}

template <typename E> static tess_status launch_delta(tess_stream *s, attention_call *c)
{
    const int64_t n = attention_cut_tiles(c, 1, 1) * c->H;
    return n > 0 ? TESS_CUDA_LAUNCH(delta_kernel<E>, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *c, n) : TESS_OK;
}

/* The sequences of one launch. begins: they are the first ones of the call. */
template <typename E>
static tess_status backward(tess_stream *s, attention_call *c, tess_attention_wanted wanted, bool begins)
{
    if (wanted == TESS_ATTENTION_ALL || wanted == TESS_ATTENTION_QUERIES)
        TESS_TRY(launch_delta<E>(s, c));
    if (c->dsinks != NULL)
        TESS_TRY(launch_sinks<E>(s, c, begins));
    if (wanted == TESS_ATTENTION_ALL || wanted == TESS_ATTENTION_QUERIES)
        TESS_TRY(launch<E>(s, c, BACKWARD_QUERIES));
    return wanted == TESS_ATTENTION_ALL || wanted == TESS_ATTENTION_KEYS ? launch<E>(s, c, BACKWARD_KEYS) : TESS_OK;
}

static tess_status check(const tess_attention *a, const tess_attention_grad *g)
{
    TESS_TRY(tess_attention_check(a, g));
    TESS_CHECK(a->head_size <= MAX_HEAD, TESS_E_UNSUPPORTED, "attention: heads of %lld channels; a GPU takes up to %d",
               (long long)a->head_size, (int)MAX_HEAD);
    return TESS_OK;
}

tess_status tess_cuda_attention_forward(tess_stream *s, const tess_attention *a)
{
    TESS_TRY(check(a, NULL));
    attention_call c = attention_call_of(a);
    for (int64_t i = 0; i < a->n_seqs; i += c.n_seqs) {
        attention_take_seqs(&c, a, i);
        TESS_TRY(attention_take_scratch(s, &c, 0));
        TESS_TRY(a->dtype == TESS_F32 ? launch<float>(s, &c, FORWARD) : launch<cuda_bf16>(s, &c, FORWARD));
    }
    return TESS_OK;
}

tess_status tess_cuda_attention_backward(tess_stream *s, const tess_attention_grad *g)
{
    const tess_attention *a = &g->forward;
    TESS_TRY(check(a, g));
    attention_call c = attention_grad_call_of(g);
    if (g->wanted == TESS_ATTENTION_ALL) {
        TESS_TRY(attention_take_scratch(s, &c, attention_tokens(a) * a->n_heads));
        c.delta = c.scratch;
    }
    int64_t i = 0;
    do { /* once even without sequences, for the gradient of the sinks */
        attention_take_seqs(&c, a, i);
        TESS_TRY(a->dtype == TESS_F32 ? backward<float>(s, &c, g->wanted, i == 0)
                                      : backward<cuda_bf16>(s, &c, g->wanted, i == 0));
        i += c.n_seqs;
    } while (i < a->n_seqs);
    return TESS_OK;
}

void tess_kernels_cuda_attention(tess_kernels *k)
{
    k->attention_forward = tess_cuda_attention_forward;
    k->attention_backward = tess_cuda_attention_backward;
}
