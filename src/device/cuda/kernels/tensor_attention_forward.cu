/* Attention forward in bfloat16 on tensor cores, as in FlashAttention-2 (Dao 2023): keys in blocks of 64, and scores,
 * softmax and sums in registers.
 *
 * Order. The keys of a row are processed in blocks of TESS_ATTENTION_BLOCK and chunks of CHUNK, both counted from key
 * 0. Each chunk is an online softmax of its own, and chunks are merged in order. So bits depend on the row's own keys
 * alone: a block that a row does not see adds zeros and multiplies by 1. If there are few rows with many keys, each
 * chunk has a block of threads, and a second kernel merges the chunks in the same steps. So generation gives the same
 * bits as training. A call that has a part of the keys has whole chunks, and keeps the merged sums for the next one.
 *
 * Cost. If D = 64, a warp has 32 rows in two fragments and uses each fragment of keys and values twice, which is 32
 * flops for each byte that it reads from shared memory; with D = 128 it has 16 rows. A multiprocessor reads 128 bytes a
 * clock, which feed 2048 flops at 16 flops a byte: the full rate of an A100's tensor cores and half that of an H100's.
 * The GPU's memory is read once for a tile. A key's exponential is one instruction of the special function units,
 * which do 16 a clock. A block has 16 KiB of shared memory for queries and two buffers (of 8 KiB, or 16 KiB if D =
 * 128), of which one is filled while the other is read. 2 blocks, or 8 warps, run on a multiprocessor. Blocks that
 * merge chunks have 34 KiB or 36 KiB more, so a multiprocessor with 100 KiB (compute capability 8.6, 8.9, 12.0) runs
 * one. If no sequence has more than 64 rows, a warp has 16. Tiles of up to 16 rows have one warp and four buffers,
 * because the delay of memory limits them. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/kernels/tensor_attention.h"
#include "device/ref/ref_attention.h"

enum {
    KEYS = TESS_ATTENTION_BLOCK,
    CHUNK = TESS_ATTENTION_CHUNK,
    FULL = 264 /* number of blocks of threads that keep a GPU busy */
};

/* The way that a launch splits its work. */
typedef struct forward_plan {
    int n_parts; /* blocks of threads that share a tile's chunks; 1: one block computes all of them */
    bool merges; /* whether one block computes rows of several chunks */
    float scale2;
} forward_plan;

/* The state of a row: m is the largest score, l the sum of 2^(scale2 * (score - m)). */
typedef struct softmax_state {
    float m, l;
} softmax_state;

/* The factors of a row's earlier and newer terms when they are merged; m becomes the larger of the two. */
typedef struct softmax_factors {
    float earlier, newer;
} softmax_factors;

static __device__ __forceinline__ softmax_factors merge_largest(float *m, float newer, float scale2)
{
    float both = fmaxf(*m, newer), base = both == -INFINITY ? 0 : both;
    softmax_factors f = {tensor_exp2((*m - base) * scale2), tensor_exp2((newer - base) * scale2)};
    *m = both;
    return f;
}

static __device__ __forceinline__ float merge_sums(float earlier, float newer, softmax_factors f)
{
    return fmaf(earlier, f.earlier, newer * f.newer);
}

/* The rows of a warp. Each thread has elements of two rows, 8 apart. */
template <int D> struct forward_rows {
    float o[D / 8][4];
    softmax_state state[2]; /* l: this thread's part of the sum, until a chunk ends */
};

template <int D> static __device__ __forceinline__ void begin_chunk(forward_rows<D> &rows)
{
    TESS_CUDA_UNROLL
    for (int n = 0; n < D / 8; n++) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < 4; i++)
            rows.o[n][i] = 0;
    }
    rows.state[0] = rows.state[1] = {-INFINITY, 0};
}

/* Sets the scores of keys that a row does not see to -inf. `own`: the first of the thread's two rows. */
static __device__ __forceinline__ void hide_keys(const attention_call &c, const head_tile &t, float (*score)[4],
                                                 int own, int base)
{
    const int column = base + (int)threadIdx.x % 4 * 2;
    const int last[2] = {key_range_of(c, t, own).last, key_range_of(c, t, own + 8).last};
    const int first[2] = {(int)first_key(c, last[0]), (int)first_key(c, last[1])};
    TESS_CUDA_UNROLL
    for (int n = 0; n < KEYS / 8; n++) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < 4; i++) {
            int key = column + n * 8 + i % 2;
            if (key < first[i / 2] || key > last[i / 2])
                score[n][i] = -INFINITY;
        }
    }
}

/* Converts scores to probabilities, which are not yet normalized, and rescales the rows' earlier sums. */
template <int D>
static __device__ __forceinline__ void take_scores(forward_rows<D> &rows, float (*score)[4], float scale2)
{
    TESS_CUDA_UNROLL
    for (int half = 0; half < 2; half++) {
        softmax_state *state = &rows.state[half];
        float m = state->m, sum = 0;
        TESS_CUDA_UNROLL
        for (int n = 0; n < KEYS / 8; n++)
            m = fmaxf(m, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
        m = largest_of_row(m);
        const float base = m == -INFINITY ? 0 : m, correction = tensor_exp2((state->m - base) * scale2);
        const float shift = -base * scale2;
        TESS_CUDA_UNROLL
        for (int n = 0; n < KEYS / 8; n++) {
            TESS_CUDA_UNROLL
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                score[n][i] = tensor_exp2(fmaf(score[n][i], scale2, shift));
                sum += score[n][i];
            }
        }
        state->l = fmaf(state->l, correction, sum);
        state->m = m;
        TESS_CUDA_UNROLL
        for (int n = 0; n < D / 8; n++) {
            rows.o[n][2 * half] *= correction;
            rows.o[n][2 * half + 1] *= correction;
        }
    }
}

/* The sums of this thread's earlier chunks, in shared memory, with elements THREADS apart: the sums, then m and l of
 * both rows. */
template <int D, int THREADS> struct forward_total {
    enum { SUMS = D / 2, ELEMENTS = SUMS + 4 /* a fragment has ELEMENTS */ };
    static __device__ __forceinline__ float *sum(float *total, int n, int i)
    {
        return total + (n * 4 + i) * THREADS;
    }
    static __device__ __forceinline__ float *state(float *total, int half)
    {
        return total + (SUMS + 2 * half) * THREADS;
    }
};

/* Merges a chunk with the earlier ones, if there are any. The rows receive the merged sums. */
template <int D, int THREADS>
static __device__ __forceinline__ void merge_chunk(float *total, bool is_first, forward_rows<D> &rows, float scale2)
{
    typedef forward_total<D, THREADS> place;
    TESS_CUDA_UNROLL
    for (int half = 0; half < 2; half++) {
        float *m = place::state(total, half), *l = m + THREADS;
        softmax_state state = {-INFINITY, 0};
        if (!is_first)
            state = {*m, *l};
        softmax_factors f = merge_largest(&state.m, rows.state[half].m, scale2);
        *l = state.l = merge_sums(state.l, rows.state[half].l, f);
        *m = state.m;
        rows.state[half] = state;
        TESS_CUDA_UNROLL
        for (int n = 0; n < D / 8; n++) {
            TESS_CUDA_UNROLL
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                float *sum = place::sum(total, n, i);
                rows.o[n][i] = *sum = merge_sums(is_first ? 0 : *sum, rows.o[n][i], f);
            }
        }
    }
}

/* The sums of a row between calls: m, l, then o (D). */
static __device__ __forceinline__ float *forward_state(const attention_call &c, const query_row &row)
{
    return c.state + (row.token * c.H + row.head) * (c.D + 2);
}

/* Sets the sums of this thread's earlier chunks to those of earlier calls; zeros if there are none. `rows` is work
 * space. */
template <int D, int THREADS>
static __device__ __forceinline__ void load_total(float *total, const attention_call &c, const head_tile &t, int own,
                                                  forward_rows<D> &rows)
{
    typedef forward_total<D, THREADS> place;
    begin_chunk(rows);
    TESS_CUDA_UNROLL
    for (int half = 0; half < 2; half++) {
        if (own + 8 * half < t.n && has_earlier_sums(c, *t.s)) {
            const float *state = forward_state(c, query_row_at(t, own + 8 * half));
            rows.state[half] = {state[0], state[1]};
            load_sums<D>(rows.o, half, state + 2, (int)c.D);
        }
        place::state(total, half)[0] = rows.state[half].m;
        place::state(total, half)[THREADS] = rows.state[half].l;
        TESS_CUDA_UNROLL
        for (int n = 0; n < D / 8; n++) {
            TESS_CUDA_UNROLL
            for (int i = 2 * half; i < 2 * half + 2; i++)
                *place::sum(total, n, i) = rows.o[n][i];
        }
    }
}

/* The sums of a row over one chunk, for the kernel that merges chunks: D sums, m and l. */
template <int D> struct forward_part {
    float o[D];
    softmax_state state;
};

template <int D>
static __device__ __forceinline__ void store_part(forward_part<D> *part, const forward_rows<D> &rows, int half)
{
    int lane = (int)threadIdx.x % WARP;
    TESS_CUDA_UNROLL
    for (int n = 0; n < D / 8; n++) {
        part->o[n * 8 + lane % 4 * 2] = rows.o[n][2 * half];
        part->o[n * 8 + lane % 4 * 2 + 1] = rows.o[n][2 * half + 1];
    }
    if (lane % 4 == 0)
        part->state = rows.state[half];
}

static __device__ __forceinline__ void store_lse(const attention_call &c, const query_row &row, softmax_state state)
{
    if (c.lse != NULL)
        c.lse[row.token * c.H + row.head] = fmaf(state.m, c.scale, v_log(state.l));
}

static __device__ inline uint16_t *out_at(const attention_call &c, const query_row &row)
{
    return (uint16_t *)c.out + row.token * c.out_stride + row.head * c.D;
}

/* The forward kernel, for heads of at most D channels. A warp has R fragments of ROWS rows. The buffers receive blocks
 * of keys and of values alternately. PARTS: the call has a part of the keys. */
template <int D, int WARPS, int R, int BUFFERS, bool PARTS>
static __global__ void __launch_bounds__(WARPS *WARP, WARPS == 1 ? 8 : 2)
    tensor_forward_kernel(attention_call c, forward_plan plan)
{
    enum { THREADS = WARPS * WARP, OWN = R * ROWS, TILE = WARPS * OWN, PIECES = KEYS * D / PIECE };
    TESS_CUDA_DYNAMIC_SHARED(tensor_line, lines);
    tensor_piece *const memory = lines->pieces, *const queries = memory + BUFFERS * PIECES;
    const int64_t number = (int64_t)gridDim.x - 1 - blockIdx.x; /* tiles with long rows run first */
    const int kv = (int)(number % c.G), part = (int)(number / c.G % plan.n_parts), warp = (int)threadIdx.x / WARP;
    const int64_t tile = number / c.G / plan.n_parts;
    const head_tile t = head_tile_at(c, tile, kv, TILE);
    const key_range all_first = key_range_of(c, t, 0), all_last = key_range_of(c, t, t.n - 1);
    const int key_end = (int)key_end_of(PARTS, *t.s);
    int begin = PARTS ? (int)first_block(c, *t.s, all_first.last, KEYS) : all_first.first / KEYS * KEYS;
    int end = PARTS && key_end <= all_last.last ? key_end : all_last.last + 1;
    if (plan.n_parts > 1) {
        begin = begin > part * CHUNK ? begin : part * CHUNK;
        end = end < (part + 1) * CHUNK ? end : (part + 1) * CHUNK;
    }
    if (begin >= end && !PARTS)
        return; /* the kernel that merges does not read this part */
    const int n_items = !PARTS || begin < end ? (end - begin + KEYS - 1) / KEYS * 2 : 0;
    const int row0 = warp * OWN, own = row0 + (int)threadIdx.x % WARP / 4;
    const key_range first = key_range_of(c, t, row0), last = key_range_of(c, t, warp_last<OWN>(t, row0));
    float *const totals = (float *)(queries + TILE * D / PIECE) + threadIdx.x;
    auto total_of = [&](int r) { return totals + r * forward_total<D, THREADS>::ELEMENTS * THREADS; };
    const tensor_address buffers = tensor_address_of(memory), place = left_place<D>();
    const tensor_address own_queries = tensor_address_of(queries) + row0 * D * 2 + place;
    forward_rows<D> rows[R];

    auto copy = [&](int item) {
        if (item < n_items) {
            int base = begin + item / 2 * KEYS;
            int64_t stride = item % 2 == 0 ? c.k_stride : c.v_stride, present = key_end - base;
            const uint16_t *x = (const uint16_t *)(item % 2 == 0 ? t.s->k : t.s->v) +
                                block_at(c, *t.s, PARTS ? t.s->k_begin : 0, base, stride) + kv * c.D;
            copy_rows<D, KEYS, THREADS>(memory + item % BUFFERS * PIECES, (int)c.D, x, stride, present);
        }
        tensor_copies_end();
    };
    auto await = [&](int item) { /* waits until the item is loaded and the previous buffer is free */
                                 tensor_copies_wait<BUFFERS - 2>();
                                 __syncthreads();
                                 copy(item + BUFFERS - 1);
                                 return buffers + item % BUFFERS * PIECES * 16;
    };

    if (t.n_rep == 1)
        copy_rows<D, TILE, THREADS>(queries, (int)c.D, query_at(t, 0, c.q, c.q_stride, c.D), c.q_stride, t.n);
    else
        copy_tile<D, TILE, THREADS>(queries, (int)c.D, [&](int row) { return query_at(t, row, c.q, c.q_stride, c.D); });
    for (int item = 0; item < BUFFERS - 1; item++)
        copy(item);
    TESS_CUDA_UNROLL
    for (int r = 0; r < R; r++) {
        if (PARTS)
            load_total<D, THREADS>(total_of(r), c, t, own + r * ROWS, rows[r]);
        if (!PARTS || n_items > 0)
            begin_chunk(rows[r]);
    }
    for (int item = 0; item < n_items; item += 2) {
        const int base = begin + item / 2 * KEYS;
        const bool sees = base <= last.last && base + KEYS > first.first; /* whether the warp's rows see any of them */
        const float zeros[4] = {};
        float score[R][KEYS / 8][4];
        tensor_address block = await(item);
        if (sees) {
            multiply_rows<D, KEYS, 0, R>(
                score, block + right_place<D>(),
                [&](auto k, uint32_t(*x)[4]) {
                    each_constant<R>([&](auto r) { load_at<D, r.value * ROWS, k.value>(x[r.value], own_queries); });
                },
                [&](int, int) { return zeros; });
            TESS_CUDA_UNROLL
            for (int r = 0; r < R; r++) {
                if (base < last.first || base + KEYS > first.last + 1)
                    hide_keys(c, t, score[r], own + r * ROWS, base);
                take_scores(rows[r], score[r], plan.scale2);
            }
        }
        block = await(item + 1);
        if (sees)
            multiply_columns<D, KEYS, 0, R>([&](int r) { return rows[r].o; }, score, block + place);
        if ((base + KEYS) % CHUNK != 0 && item + 2 < n_items)
            continue;
        TESS_CUDA_UNROLL
        for (int r = 0; r < R; r++) {
            TESS_CUDA_UNROLL
            for (int half = 0; half < 2; half++)
                rows[r].state[half].l = sum_of_row(rows[r].state[half].l);
            if (plan.merges) {
                merge_chunk<D, THREADS>(total_of(r), !PARTS && base / CHUNK == begin / CHUNK, rows[r], plan.scale2);
                if (item + 2 < n_items)
                    begin_chunk(rows[r]);
            }
        }
    }
    if (PARTS && n_items == 0)
        tensor_copies_wait<0>();
    TESS_CUDA_UNROLL
    for (int r = 0; r < 2 * R; r++) {
        const int i = own + 8 * r, half = r % 2;
        const forward_rows<D> &mine = rows[r / 2];
        if (i >= t.n)
            continue;
        if (plan.n_parts > 1) {
            store_part((forward_part<D> *)c.scratch + ((tile * c.G + kv) * TILE + i) * plan.n_parts + part, mine, half);
            continue;
        }
        const query_row row = query_row_at(t, i);
        if (PARTS && keeps_sums(c, *t.s)) {
            float *state = forward_state(c, row);
            store_sums<D>(state + 2, (int)c.D, mine.o, half);
            if (threadIdx.x % 4 == 0) {
                state[0] = mine.state[half].m;
                state[1] = mine.state[half].l;
            }
            continue;
        }
        store_row<D>(out_at(c, row), (int)c.D, mine.o, half, 1 / mine.state[half].l);
        if (threadIdx.x % 4 == 0)
            store_lse(c, row, mine.state[half]);
    }
}

/* Each warp merges the parts of one row. */
template <int D>
static __global__ void __launch_bounds__(4 * WARP)
    tensor_merge_kernel(attention_call c, forward_plan plan, int64_t n_rows, int tile_rows)
{
    const int64_t number = (int64_t)blockIdx.x * 4 + threadIdx.x / WARP, tile = number / tile_rows / c.G;
    const int i = (int)(number % tile_rows), kv = (int)(number / tile_rows % c.G), lane = (int)threadIdx.x % WARP;
    if (number >= n_rows)
        return;
    const head_tile t = head_tile_at(c, tile, kv, tile_rows);
    if (i >= t.n)
        return;
    const key_range keys = key_range_of(c, t, i);
    const forward_part<D> *parts = (const forward_part<D> *)c.scratch + number * plan.n_parts;
    softmax_state state = {-INFINITY, 0};
    float o[D / WARP] = {};
    for (int k = keys.first / CHUNK; k <= keys.last / CHUNK; k++) {
        softmax_factors f = merge_largest(&state.m, parts[k].state.m, plan.scale2);
        state.l = merge_sums(state.l, parts[k].state.l, f);
        TESS_CUDA_UNROLL
        for (int n = 0; n < D / WARP; n++)
            o[n] = merge_sums(o[n], parts[k].o[n * WARP + lane], f);
    }
    const query_row row = query_row_at(t, i);
    const float factor = 1 / state.l;
    TESS_CUDA_UNROLL
    for (int n = 0; n < D / WARP; n++)
        if (n * WARP + lane < c.D)
            cuda_store((cuda_bf16 *)out_at(c, row) + n * WARP + lane, o[n] * factor + 0.0f);
    if (lane == 0)
        store_lse(c, row, state);
}

template <int D, int WARPS, int R, int BUFFERS, bool PARTS>
static tess_status launch_cut(tess_stream *s, attention_call *c, int64_t n_chunks)
{
    enum { TILE = WARPS * R * ROWS };
    const int64_t tiles = attention_cut_tiles(c, c->H / c->G, TILE) * c->G;
    const bool shares = n_chunks > 1 && tiles < FULL && !PARTS;
    const int64_t blocks = tiles * (shares ? n_chunks : 1), n_rows = tiles * TILE;
    forward_plan plan = {shares ? (int)n_chunks : 1, PARTS || (n_chunks > 1 && !shares), c->scale * LOG2_E};
    const size_t bytes =
        (BUFFERS * KEYS + TILE) * D * sizeof(uint16_t) +
        (plan.merges ? R * WARPS * WARP * forward_total<D, WARPS * WARP>::ELEMENTS * sizeof(float) : 0);
    TESS_CHECK(blocks <= INT32_MAX, TESS_E_UNSUPPORTED, "attention: %lld heads of rows are more than a GPU takes",
               (long long)blocks);
    TESS_TRY(attention_take_scratch(
        s, c, shares ? n_rows * n_chunks * (int64_t)(sizeof(forward_part<D>) / sizeof(float)) : 0));
    if (blocks == 0)
        return TESS_OK;
    TESS_CUDA_ASK_SHARED((tensor_forward_kernel<D, WARPS, R, BUFFERS, PARTS>), bytes, s);
    TESS_TRY(TESS_CUDA_LAUNCH((tensor_forward_kernel<D, WARPS, R, BUFFERS, PARTS>), blocks, WARPS * WARP, bytes, s, *c,
                              plan));
    if (!shares)
        return TESS_OK;
    return TESS_CUDA_LAUNCH(tensor_merge_kernel<D>, (n_rows + 3) / 4, 4 * WARP, 0, s, *c, plan, n_rows, TILE);
}

template <int D> static tess_status launch(tess_stream *s, attention_call *c)
{
    enum { R = D == 64 ? 2 : 1 };
    int64_t most_rows = 0, most_keys = 0;
    for (int i = 0; i < c->n_seqs; i++) {
        const int64_t rows = c->seqs[i].s.q_len * (c->H / c->G), keys = c->seqs[i].s.k_len;
        most_rows = rows > most_rows ? rows : most_rows;
        most_keys = keys > most_keys ? keys : most_keys;
    }
    TESS_CHECK(most_rows <= INT32_MAX - 4 * R * ROWS, TESS_E_UNSUPPORTED, "attention: %lld rows of a head",
               (long long)most_rows);
    const int64_t n_chunks = (most_keys + CHUNK - 1) / CHUNK;
    if (c->state != NULL)
        return launch_cut<D, 4, R, 2, true>(s, c, n_chunks);
    return most_rows <= ROWS       ? launch_cut<D, 1, 1, 4, false>(s, c, n_chunks)
           : most_rows <= 4 * ROWS ? launch_cut<D, 4, 1, 2, false>(s, c, n_chunks)
                                   : launch_cut<D, 4, R, 2, false>(s, c, n_chunks);
}

/* Checks that each call has whole chunks of keys. */
static tess_status check_chunks(const tess_attention *a)
{
    for (int64_t i = 0; i < a->n_seqs && a->state != NULL; i++) {
        const tess_attention_seq *seq = &a->seqs[i];
        TESS_CHECK(seq->k_begin % CHUNK == 0 && (seq->k_end % CHUNK == 0 || seq->k_end == seq->k_len), TESS_E_INVALID,
                   "attention in parts: sequence %lld: keys %lld to %lld of %lld; tensor cores take multiples of %d",
                   (long long)i, (long long)seq->k_begin, (long long)seq->k_end, (long long)seq->k_len, (int)CHUNK);
    }
    return TESS_OK;
}

static tess_status attention_forward(tess_stream *s, const tess_attention *a)
{
    TESS_TRY(tess_attention_check(a, NULL));
    if (!tensor_attention_takes(a))
        return tess_cuda_attention_forward(s, a);
    TESS_TRY(check_chunks(a));
    attention_call c = attention_call_of(a);
    for (int64_t i = 0; i < a->n_seqs; i += c.n_seqs) {
        attention_take_seqs(&c, a, i);
        TESS_TRY(a->head_size <= 64 ? launch<64>(s, &c) : launch<TENSOR_HEAD>(s, &c));
    }
    return TESS_OK;
}

void tess_kernels_cuda_tensor_attention_forward(tess_kernels *k)
{
    k->attention_forward = attention_forward;
}
