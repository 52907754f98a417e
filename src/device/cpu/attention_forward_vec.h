/* The forward pass on `vec`. A tile of 32 query rows goes through its key blocks with the online softmax of Milakov &
 * Gimelshein (arXiv:1805.02867). The output is kept transposed, (D, 32), in scratch memory. */
#ifndef TESS_DEVICE_CPU_ATTENTION_FORWARD_VEC_H
#define TESS_DEVICE_CPU_ATTENTION_FORWARD_VEC_H

#include "device/cpu/attention_few_rows_vec.h"
#include "device/cpu/attention_vec.h"
#include "device/stream_impl.h"

typedef struct softmax_state {
    vec m[GROUPS], l[GROUPS]; /* maximum so far (-inf: none), and sum of exponentials */
    vec correction[GROUPS];   /* factor for the sums of earlier blocks */
} softmax_state;

/* Turns raw scores (n, 32) into probabilities relative to the new maximum; n must be a multiple of 4. The state of a
 * lane that sees none of the keys does not change: its correction is 1 (or multiplies zeros) and its probabilities are
 * 0. */
static void softmax_block(float *scores, int64_t n, int groups, float scale, bool round_bf16, softmax_state *state)
{
    const vec hidden = v_set(-INFINITY), factor = v_set(scale);
    for (int g = 0; g < groups; g++) {
        float *s = scores + g * LANES;
        vec top = hidden;
        for (int64_t j = 0; j < n; j++)
            top = v_max(top, v_load(s + j * ATTENTION_ROWS, LANES));
        const vec m = v_max(state->m[g], v_mul(top, factor));
        const vec base = v_select(v_equal(m, hidden), v_set(0), m);
        const vec correction = v_exp(v_sub(state->m[g], base));
        vec sum[4] = {v_set(0), v_set(0), v_set(0), v_set(0)};
        for (int64_t j = 0; j < n; j += 4)
            for (int i = 0; i < 4; i++) {
                vec p = v_exp(v_sub(v_mul(v_load(s + (j + i) * ATTENTION_ROWS, LANES), factor), base));
                sum[i] = v_add(sum[i], p);
                v_store(s + (j + i) * ATTENTION_ROWS, round_bf16 ? v_round_bf16(p) : p, LANES);
            }
        const vec total = v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]));
        state->l[g] = v_fma(state->l[g], correction, total);
        state->m[g] = m;
        state->correction[g] = correction;
    }
}

typedef struct forward_memory {
    float *q;      /* (D, 32) */
    float *out;    /* (D, 32) */
    float *rows;   /* (32, D) */
    float *scores; /* (64, 32) */
    float *keys;   /* (64, D) k as floats, then v; BF16 only */
} forward_memory;

/* Size of the memory. D is rounded up to a vector in all buffers. */
static size_t forward_bytes(const tess_attention *a)
{
    const size_t D = (size_t)divide_up(a->head_size, LANES) * LANES;
    return sizeof(float) * (3 * ATTENTION_ROWS * D + ATTENTION_KEYS * ATTENTION_ROWS + ATTENTION_KEYS * D);
}

static forward_memory lay_out_forward(const tess_attention *a, void *memory)
{
    const int64_t D = divide_up(a->head_size, LANES) * LANES;
    forward_memory m;
    m.q = memory;
    m.out = m.q + ATTENTION_ROWS * D;
    m.rows = m.out + ATTENTION_ROWS * D;
    m.scores = m.rows + ATTENTION_ROWS * D;
    m.keys = m.scores + ATTENTION_KEYS * ATTENTION_ROWS;
    return m;
}

static void begin_tile(const tess_attention *a, const attention_tile *t, const forward_memory *m, visible *keys)
{
    const int64_t D = a->head_size, ld = divide_up(D, LANES) * LANES;
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t token, head;
        attention_row(t, r, &token, &head);
        widen_row(a->q, token * a->q_stride + head * D, D, a->dtype, m->rows + r * ld, ld);
    }
    turn_rows(m->rows, ld, t->n_rows, D, m->q, ATTENTION_ROWS);
    for (int64_t r = 0; r < ATTENTION_ROWS; r++) {
        const int64_t p = attention_position(t, min64(r, t->n_rows - 1));
        keys->first[r] = attention_first_key(a, p);
        keys->last[r] = p;
    }
    memset(m->out, 0, sizeof(float) * (size_t)(ATTENTION_ROWS * ld));
}

static void begin_state(const tess_attention *a, const attention_tile *t, softmax_state *state)
{
    float sink[ATTENTION_ROWS];
    attention_sinks(a, t, 0, ATTENTION_ROWS, sink);
    for (int g = 0; g < GROUPS; g++) {
        state->m[g] = v_load(sink + g * LANES, LANES);
        state->l[g] = v_set(a->sinks != NULL ? 1 : 0);
    }
}

/* Takes the sums of earlier calls. */
static void load_state(const tess_attention *a, const attention_tile *t, const forward_memory *m, softmax_state *state)
{
    const int64_t D = a->head_size, ld = divide_up(D, LANES) * LANES;
    float most[ATTENTION_ROWS] = {0}, sum[ATTENTION_ROWS] = {0};
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t token, head;
        attention_row(t, r, &token, &head);
        const float *from = attention_row_state(a, token, head);
        most[r] = from[0];
        sum[r] = from[1];
        widen_row(from, 2, D, TESS_F32, m->rows + r * ld, ld);
    }
    turn_rows(m->rows, ld, t->n_rows, D, m->out, ATTENTION_ROWS);
    for (int g = 0; g < GROUPS; g++) {
        state->m[g] = v_load(most + g * LANES, LANES);
        state->l[g] = v_load(sum + g * LANES, LANES);
    }
}

static void store_state(const tess_attention *a, const attention_tile *t, const forward_memory *m,
                        const softmax_state *state)
{
    const int64_t D = a->head_size;
    float most[ATTENTION_ROWS], sum[ATTENTION_ROWS];
    for (int g = 0; g < GROUPS; g++) {
        v_store(most + g * LANES, state->m[g], LANES);
        v_store(sum + g * LANES, state->l[g], LANES);
    }
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t token, head;
        attention_row(t, r, &token, &head);
        float *to = attention_row_state(a, token, head);
        to[0] = most[r];
        to[1] = sum[r];
        for (int64_t d = 0; d < D; d++)
            to[2 + d] = m->out[d * ATTENTION_ROWS + r];
    }
}

static void end_tile(const tess_attention *a, const attention_tile *t, const forward_memory *m,
                     const softmax_state *state)
{
    const int64_t D = a->head_size;
    float lse[ATTENTION_ROWS];
    for (int g = 0; g < GROUPS && g * LANES < t->n_rows; g++)
        v_store(lse + g * LANES, v_add(state->m[g], v_log(state->l[g])), LANES);
    for (int64_t d = 0; d < D; d += LANES)
        for (int g = 0; g < GROUPS && g * LANES < t->n_rows; g++) {
            vec square[LANES];
            /* Adding 0 turns a -0 from a sum that underflowed into the 0 that it would be if other rows were in the
             * tile. */
            for (int i = 0; i < LANES; i++)
                square[i] =
                    v_add(v_div(v_load(m->out + (d + i) * ATTENTION_ROWS + g * LANES, LANES), state->l[g]), v_set(0));
            turn_square(square);
            for (int i = 0; i < LANES && g * LANES + i < t->n_rows; i++) {
                int64_t token, head;
                attention_row(t, g * LANES + i, &token, &head);
                store_any(a->out, token * a->out_stride + head * D + d, square[i], min64(LANES, D - d), a->dtype);
            }
        }
    for (int64_t r = 0; a->lse != NULL && r < t->n_rows; r++) {
        int64_t token, head;
        attention_row(t, r, &token, &head);
        a->lse[token * a->n_heads + head] = lse[r];
    }
}

/* Prefetches this block's values, which are needed after its keys, and the next block's keys. */
static void ask_for_blocks(const tess_attention *a, const attention_tile *t, int64_t base)
{
    const int64_t column = t->kv_head * a->head_size, next = base + ATTENTION_KEYS;
    attention_ask_for_rows(a, t->seq->v, tess_attention_block(a, t->seq, base, a->v_stride) + column, a->v_stride,
                           min64(ATTENTION_KEYS, t->key_end - base));
    if (next < t->key_end)
        attention_ask_for_rows(a, t->seq->k, tess_attention_block(a, t->seq, next, a->k_stride) + column, a->k_stride,
                               min64(ATTENTION_KEYS, t->key_end - next));
}

static void forward_tile(const attention_forward_job *job, const attention_tile *t, void *memory)
{
    const tess_attention *a = job->a;
    if (attention_takes_few_rows(a, t)) {
        few_rows_of_tile(a, t, memory);
        return;
    }
    const forward_memory m = lay_out_forward(a, memory);
    const int64_t D = a->head_size;
    const int groups = t->n_rows > LANES ? GROUPS : 1, lanes = groups * LANES;
    visible keys;
    begin_tile(a, t, &m, &keys);
    softmax_state state;
    if (attention_begins(a, t->seq))
        begin_state(a, t, &state);
    else
        load_state(a, t, &m, &state);
    for (int64_t base = t->key_begin / ATTENTION_KEYS * ATTENTION_KEYS; base < t->key_end; base += ATTENTION_KEYS) {
        const int64_t n = min64(ATTENTION_KEYS, t->key_end - base), n4 = divide_up(n, 4) * 4;
        ask_for_blocks(a, t, base);
        const matrix k = widen_rows(t->seq->k, tess_attention_block(a, t->seq, base, a->k_stride) + t->kv_head * D,
                                    a->k_stride, n, D, a->dtype, m.keys);
        product(n, lanes, D, k, m.q, ATTENTION_ROWS, m.scores, ATTENTION_ROWS, false, NULL);
        if (a->soft_cap != 0)
            cap_scores(m.scores, n, lanes, tess_score_cap_of(a));
        if (n < n4 || !sees_all(&keys, base, n))
            mask_scores(m.scores, n4, base, &keys);
        softmax_block(m.scores, n4, groups, a->scale, a->dtype == TESS_BF16, &state);
        const matrix v = widen_rows(t->seq->v, tess_attention_block(a, t->seq, base, a->v_stride) + t->kv_head * D,
                                    a->v_stride, n, D, a->dtype, m.keys);
        product(D, lanes, n, transposed(v), m.scores, ATTENTION_ROWS, m.out, ATTENTION_ROWS, true, state.correction);
    }
    if (attention_ends(a, t->seq))
        end_tile(a, t, &m, &state);
    else
        store_state(a, t, &m, &state);
}

static tess_status forward(tess_stream *stream, const tess_attention *a)
{
    TESS_TRY(tess_attention_check(a, NULL));
    attention_forward_job job = {.a = a, .worker_bytes = forward_bytes(a), .tile = forward_tile};
    TESS_TRY(tess_stream_scratch(stream, job.worker_bytes * (size_t)tess_threads_count(stream->threads),
                                 &job.worker_memory));
    tess_attention_run_forward(stream, &job);
    return TESS_OK;
}

#endif
