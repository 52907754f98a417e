/* The backward pass on `vec` (Dao, arXiv:2307.08691, algorithm 2). P is recomputed from the scores and lse, and never
 * read from memory:
 *   P = exp(scale q.k - lse)   dP = dout.v   dS = P (dP - delta), delta = dout.out; a soft cap multiplies by its slope
 *   dv = P^T dout   dk = scale dS^T q   dq = scale dS k */
#ifndef TESS_DEVICE_CPU_ATTENTION_BACKWARD_VEC_H
#define TESS_DEVICE_CPU_ATTENTION_BACKWARD_VEC_H

#include "device/cpu/attention_sinks_vec.h"
#include "device/cpu/attention_vec.h"
#include "device/stream_impl.h"

/* Arrays of a query tile of one head, in the order in memory. ld: D rounded up to a vector. */
typedef struct query_tile {
    float *q_rows, *dout_rows;     /* (32, ld) */
    float *q_turned, *dout_turned; /* (ld, 32) */
    float *dq;                     /* (ld, 32) */
    float *lse, *delta;            /* (32) */
} query_tile;

static int64_t padded_head(const tess_attention *a)
{
    return divide_up(a->head_size, LANES) * LANES;
}

static int64_t query_tile_floats(const tess_attention *a)
{
    return (5 * padded_head(a) + 2) * ATTENTION_ROWS;
}

static query_tile query_tile_of(const attention_unit *u, int64_t rep, int64_t tile)
{
    const int64_t part = padded_head(u->a) * ATTENTION_ROWS;
    query_tile q;
    q.q_rows = (float *)u->memory + (rep * u->n_tiles + tile) * query_tile_floats(u->a);
    q.dout_rows = q.q_rows + part;
    q.q_turned = q.dout_rows + part;
    q.dout_turned = q.q_turned + part;
    q.dq = q.dout_turned + part;
    q.lse = q.dq + part;
    q.delta = q.lse + ATTENTION_ROWS;
    return q;
}

/* Size of a unit's memory: query tiles, then (BF16 only) k and v of all blocks as floats. */
static size_t unit_bytes(const tess_attention *a, int64_t length)
{
    const int64_t n_tiles = divide_up(length, ATTENTION_ROWS) * (a->n_heads / a->n_kv_heads);
    const int64_t keys =
        a->dtype == TESS_BF16 ? 2 * divide_up(length, ATTENTION_KEYS) * ATTENTION_KEYS * padded_head(a) : 0;
    return sizeof(float) * (size_t)(n_tiles * query_tile_floats(a) + keys);
}

/* Returns the rows of k (`which` 0) or v (1) from row `base` on. */
static matrix keys_of(const attention_unit *u, int which, int64_t base)
{
    const tess_attention *a = u->a;
    if (a->dtype == TESS_F32) {
        const float *x = which == 0 ? u->seq->k : u->seq->v;
        const int64_t stride = which == 0 ? a->k_stride : a->v_stride;
        return (matrix){x + base * stride + u->kv_head * a->head_size, stride, 1};
    }
    const int64_t ld = padded_head(a);
    const float *packed = (float *)u->memory + u->n_rep * u->n_tiles * query_tile_floats(a);
    return (matrix){packed + (which * u->n_blocks * ATTENTION_KEYS + base) * ld, ld, 1};
}

static void pack_keys(const attention_unit *u, int64_t block)
{
    const tess_attention *a = u->a;
    if (a->dtype == TESS_F32)
        return;
    const int64_t base = block * ATTENTION_KEYS, n = min64(ATTENTION_KEYS, u->n_keys - base);
    const int64_t column = u->kv_head * a->head_size;
    widen_rows(u->seq->k, base * a->k_stride + column, a->k_stride, n, a->head_size, a->dtype,
               (float *)keys_of(u, 0, base).at);
    widen_rows(u->seq->v, base * a->v_stride + column, a->v_stride, n, a->head_size, a->dtype,
               (float *)keys_of(u, 1, base).at);
}

static void pack_queries(const attention_unit *u, int64_t rep, int64_t tile, TESS_UNUSED void *memory)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, ld = padded_head(a), head = u->kv_head * u->n_rep + rep;
    const int64_t begin = u->seq->q_begin + tile * ATTENTION_ROWS;
    const int64_t n = min64(ATTENTION_ROWS, u->seq->q_len - tile * ATTENTION_ROWS);
    const query_tile q = query_tile_of(u, rep, tile);
    memset(q.q_rows, 0, sizeof(float) * (size_t)query_tile_floats(a)); /* rows that do not exist add zeros */
    const bool has_delta = u->g->wanted == TESS_ATTENTION_KEYS;
    for (int64_t r = 0; r < n; r++) {
        const int64_t token = begin + r;
        if (!has_delta)
            widen_row(a->out, token * a->out_stride + head * D, D, a->dtype, q.q_rows + r * ld, ld);
        widen_row(u->g->dout, token * u->g->dout_stride + head * D, D, a->dtype, q.dout_rows + r * ld, ld);
        q.lse[r] = a->lse[token * a->n_heads + head];
    }
    turn_rows(q.q_rows, ld, n, D, q.q_turned, ATTENTION_ROWS);
    turn_rows(q.dout_rows, ld, n, D, q.dout_turned, ATTENTION_ROWS);
    for (int64_t r = 0; has_delta && r < n; r++)
        q.delta[r] = u->g->delta[(begin + r) * a->n_heads + head];
    for (int g = 0; !has_delta && g < GROUPS; g++) {
        vec delta = v_set(0);
        for (int64_t d = 0; d < D; d++)
            delta = v_fma(v_load(q.dout_turned + d * ATTENTION_ROWS + g * LANES, LANES),
                          v_load(q.q_turned + d * ATTENTION_ROWS + g * LANES, LANES), delta);
        v_store(q.delta + g * LANES, delta, LANES);
    }
    for (int64_t r = 0; u->delta != NULL && r < n; r++)
        u->delta[(begin + r) * a->n_heads + head] = q.delta[r];
    for (int64_t r = 0; r < n; r++)
        widen_row(a->q, (begin + r) * a->q_stride + head * D, D, a->dtype, q.q_rows + r * ld, ld);
    turn_rows(q.q_rows, ld, n, D, q.q_turned, ATTENTION_ROWS);
    for (int64_t r = 0; u->g->wanted == TESS_ATTENTION_QUERIES && !u->seq->first && r < n; r++)
        for (int64_t d = 0; d < D; d++)
            q.dq[d * ATTENTION_ROWS + r] = attention_query_sum(u, begin + r, head)[d];
}

typedef struct backward_memory {
    float p[ATTENTION_KEYS * ATTENTION_ROWS], ds[ATTENTION_KEYS * ATTENTION_ROWS];
    float gradients[]; /* dk and dv, each (64, ld) */
} backward_memory;

/* Computes P and dS for `n` keys from `base` on and one query tile. */
static void probabilities(const attention_unit *u, const query_tile *q, int64_t tile, int64_t base, int64_t n,
                          backward_memory *m)
{
    const tess_attention *a = u->a;
    const bool round_bf16 = a->dtype == TESS_BF16;
    product(n, ATTENTION_ROWS, a->head_size, keys_of(u, 0, base), q->q_turned, ATTENTION_ROWS, m->p, ATTENTION_ROWS,
            false, NULL);
    product(n, ATTENTION_ROWS, a->head_size, keys_of(u, 1, base), q->dout_turned, ATTENTION_ROWS, m->ds, ATTENTION_ROWS,
            false, NULL);
    const tess_score_cap cap = tess_score_cap_of(a);
    if (cap.cap != 0)
        cap_scores(m->p, n, ATTENTION_ROWS, cap);
    visible keys;
    for (int64_t r = 0; r < ATTENTION_ROWS; r++) {
        const int64_t i = min64(tile * ATTENTION_ROWS + r, u->seq->q_len - 1);
        keys.first[r] = attention_first_seen(u, i);
        keys.last[r] = attention_last_seen(u, i);
    }
    if (!sees_all(&keys, base, n))
        mask_scores(m->p, n, base, &keys);
    const vec scale = v_set(a->scale);
    for (int g = 0; g < GROUPS; g++) {
        const vec lse = v_load(q->lse + g * LANES, LANES), delta = v_load(q->delta + g * LANES, LANES);
        for (int64_t j = 0; j < n; j++) {
            float *p_at = m->p + j * ATTENTION_ROWS + g * LANES, *ds_at = m->ds + j * ATTENTION_ROWS + g * LANES;
            const vec score = v_load(p_at, LANES), p = v_exp(v_sub(v_mul(score, scale), lse));
            vec ds = v_mul(p, v_sub(v_load(ds_at, LANES), delta));
            if (cap.cap != 0)
                ds = v_mul(ds, v_soft_cap_slope(score, cap.inverse));
            v_store(p_at, round_bf16 ? v_round_bf16(p) : p, LANES);
            v_store(ds_at, round_bf16 ? v_round_bf16(ds) : ds, LANES);
        }
    }
}

static void add_dq(const attention_unit *u, const query_tile *q, int64_t base, int64_t n, const backward_memory *m)
{
    product(u->a->head_size, ATTENTION_ROWS, n, transposed(keys_of(u, 0, base)), m->ds, ATTENTION_ROWS, q->dq,
            ATTENTION_ROWS, true, NULL);
}

/* Finds the tiles with queries that see a key of [base, base + n). */
static void tiles_that_see(const attention_unit *u, int64_t base, int64_t n, int64_t *first, int64_t *end)
{
    const int64_t own = u->k_first + base - u->q_first; /* the query at the position of the first key */
    const int64_t last =
        u->a->window > 0 ? min64(u->seq->q_len - 1, own + n - 1 + u->a->window - 1) : u->seq->q_len - 1;
    *first = max64(own, 0) / ATTENTION_ROWS;
    *end = last < 0 ? 0 : last / ATTENTION_ROWS + 1;
}

static void write_row(void *x, int64_t at, const float *row, vec factor, int64_t D, tess_dtype dtype)
{
    for (int64_t d = 0; d < D; d += LANES)
        store_any(x, at + d, v_add(v_mul(v_load(row + d, LANES), factor), v_set(0)), min64(LANES, D - d), dtype);
}

static void key_block(const attention_unit *u, int64_t block, bool with_dq, void *memory)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, ld = padded_head(a), base = block * ATTENTION_KEYS;
    const int64_t n = min64(ATTENTION_KEYS, u->n_keys - base);
    backward_memory *m = memory;
    float *dk = m->gradients, *dv = dk + ATTENTION_KEYS * ld;
    memset(dk, 0, sizeof(float) * (size_t)(2 * ATTENTION_KEYS * ld));
    for (int64_t j = 0; u->keeps_sums && !u->seq->first && j < n; j++) {
        memcpy(dk + j * ld, attention_key_sum(u, base + j), sizeof(float) * (size_t)D);
        memcpy(dv + j * ld, attention_key_sum(u, base + j) + D, sizeof(float) * (size_t)D);
    }
    int64_t first, end;
    tiles_that_see(u, base, n, &first, &end);
    for (int64_t rep = 0; rep < u->n_rep; rep++)
        for (int64_t tile = first; tile < end; tile++) {
            const query_tile q = query_tile_of(u, rep, tile);
            probabilities(u, &q, tile, base, n, m);
            product(n, ld, ATTENTION_ROWS, (matrix){m->p, ATTENTION_ROWS, 1}, q.dout_rows, ld, dv, ld, true, NULL);
            product(n, ld, ATTENTION_ROWS, (matrix){m->ds, ATTENTION_ROWS, 1}, q.q_rows, ld, dk, ld, true, NULL);
            if (with_dq)
                add_dq(u, &q, base, n, m);
        }
    for (int64_t j = 0; u->keeps_sums && j < n; j++) {
        memcpy(attention_key_sum(u, base + j), dk + j * ld, sizeof(float) * (size_t)D);
        memcpy(attention_key_sum(u, base + j) + D, dv + j * ld, sizeof(float) * (size_t)D);
    }
    for (int64_t j = 0; attention_ends(a, u->seq) && j < n; j++) {
        const int64_t row = attention_key_row(u, base + j);
        write_row(u->g->dk, row * u->g->dk_stride + u->kv_head * D, dk + j * ld, v_set(a->scale), D, a->dtype);
        write_row(u->g->dv, row * u->g->dv_stride + u->kv_head * D, dv + j * ld, v_set(1), D, a->dtype);
    }
}

static void key_blocks(const attention_unit *u, int64_t begin, int64_t end, bool with_dq, void *memory)
{
    for (int64_t block = begin; block < end; block++)
        key_block(u, block, with_dq, memory);
}

static void query_tile_alone(const attention_unit *u, int64_t rep, int64_t tile, void *memory)
{
    const query_tile q = query_tile_of(u, rep, tile);
    const int64_t begin = tile * ATTENTION_ROWS, last = min64(begin + ATTENTION_ROWS, u->seq->q_len) - 1;
    const int64_t end = min64(attention_last_seen(u, last) + 1, u->n_keys);
    for (int64_t base = max64(attention_first_seen(u, begin), 0) / ATTENTION_KEYS * ATTENTION_KEYS; base < end;
         base += ATTENTION_KEYS) {
        const int64_t n = min64(ATTENTION_KEYS, u->n_keys - base);
        probabilities(u, &q, tile, base, n, memory);
        add_dq(u, &q, base, n, memory);
    }
}

static void write_dq(const attention_unit *u, int64_t rep, int64_t tile, TESS_UNUSED void *memory)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, head = u->kv_head * u->n_rep + rep;
    const query_tile q = query_tile_of(u, rep, tile);
    const int64_t n = min64(ATTENTION_ROWS, u->seq->q_len - tile * ATTENTION_ROWS);
    for (int64_t r = 0; u->keeps_sums && r < n; r++) {
        float *sum = attention_query_sum(u, u->seq->q_begin + tile * ATTENTION_ROWS + r, head);
        for (int64_t d = 0; d < D; d++)
            sum[d] = q.dq[d * ATTENTION_ROWS + r];
    }
    for (int64_t d = 0; attention_ends(a, u->seq) && d < D; d += LANES)
        for (int64_t r = 0; r < n; r += LANES) {
            vec square[LANES];
            for (int i = 0; i < LANES; i++)
                square[i] = v_load(q.dq + (d + i) * ATTENTION_ROWS + r, LANES);
            turn_square(square);
            for (int64_t i = 0; i < LANES && r + i < n; i++) {
                const int64_t row = u->seq->q_begin + tile * ATTENTION_ROWS + r + i;
                const vec dq = v_add(v_mul(square[i], v_set(a->scale)), v_set(0));
                store_any(u->g->dq, row * u->g->dq_stride + head * D + d, dq, min64(LANES, D - d), a->dtype);
            }
        }
}

static tess_status backward(tess_stream *stream, const tess_attention_grad *g)
{
    const tess_attention *a = &g->forward;
    TESS_TRY(tess_attention_check(a, g));
    const attention_backward_steps steps = {
        .tile_rows = ATTENTION_ROWS,
        .block_keys = ATTENTION_KEYS,
        .worker_bytes =
            sizeof(backward_memory) + attention_align(sizeof(float) * (size_t)(2 * ATTENTION_KEYS * padded_head(a))),
        .unit_bytes = unit_bytes,
        .pack_keys = pack_keys,
        .pack_queries = pack_queries,
        .key_blocks = key_blocks,
        .query_tile = query_tile_alone,
        .write_dq = write_dq,
        .sinks = sink_gradients};
    return tess_attention_run_backward(stream, g, &steps);
}

#endif
