/* Generation: a few query rows (the query heads of one key head, one or two tokens) over a long cache. Lanes of queries
 * would be mostly empty, so lanes are keys for the scores and channels for the output. A block of keys is transposed;
 * its values are used as they are in memory. Each sum is the same chain, and each lane uses the same function, as in
 * attention_forward_vec.h, so the bits are the same. Floor: the bytes of the cache. */
#ifndef TESS_DEVICE_CPU_ATTENTION_FEW_ROWS_VEC_H
#define TESS_DEVICE_CPU_ATTENTION_FEW_ROWS_VEC_H

#include "device/cpu/attention_vec.h"

enum { ATTENTION_FEW_ROWS = 8 };

/* Arrays in the worker's memory; they need less than forward_memory. */
typedef struct few_rows_memory {
    float *q, *out; /* (8, D) each */
    float *turned;  /* (D, 64) transposed keys */
    float *keys;    /* (64, D) k as floats, then v; BF16 only */
} few_rows_memory;

/* The softmax state of one query. All lanes of a vector have the same value. */
typedef struct few_rows_state {
    int64_t first, last; /* the first and the last key that the query sees */
    vec m, l;
} few_rows_state;

static bool attention_takes_few_rows(const tess_attention *a, const attention_tile *t)
{
    return t->n_rows <= ATTENTION_FEW_ROWS && a->head_size % LANES == 0 && a->state == NULL;
}

/* c (n) = [c +] a (k) b (k,n); n must be a multiple of 16. */
static void row_product(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb, float *c, bool add)
{
    const matrix row = {a, 0, 1};
    int64_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES)
        product_tile(1, 4, k, row, b + j, ldb, c + j, 0, add, NULL);
    for (; j < n; j += LANES)
        product_tile(1, 1, k, row, b + j, ldb, c + j, 0, add, NULL);
}

/* Turns the raw scores of keys base .. base + n (n at most 64) into probabilities relative to the new maximum; hidden
 * keys and those beyond n get 0. Returns the factor that corrects the earlier sums. */
static vec few_rows_softmax(float *scores, int64_t base, int64_t n, float scale, bool round_bf16, few_rows_state *state)
{
    const vec hidden = v_set(-INFINITY), factor = v_set(scale);
    const int64_t width = divide_up(n, LANES) * LANES;
    float sum[4] = {0};
    for (int64_t j = 0; j < state->first - base && j < n; j++)
        scores[j] = -INFINITY;
    for (int64_t j = min64(max64(state->last - base + 1, 0), n); j < width; j++)
        scores[j] = -INFINITY;
    vec top = hidden;
    for (int64_t j = 0; j < width; j += LANES)
        top = v_max(top, v_load(scores + j, LANES));
    const vec m = v_max(state->m, v_mul(v_set(v_largest(top)), factor));
    const vec from = v_select(v_equal(m, hidden), v_set(0), m);
    const vec correction = v_exp(v_sub(state->m, from));
    for (int64_t j = 0; j < width; j += LANES)
        v_store(scores + j, v_exp(v_sub(v_mul(v_load(scores + j, LANES), factor), from)), LANES);
    for (int64_t j = 0; j < width; j += 4)
        for (int i = 0; i < 4; i++)
            sum[i] += scores[j + i];
    for (int64_t j = 0; round_bf16 && j < width; j += LANES)
        v_store(scores + j, v_round_bf16(v_load(scores + j, LANES)), LANES);
    state->l = v_fma(state->l, correction, v_set((sum[0] + sum[1]) + (sum[2] + sum[3])));
    state->m = m;
    return correction;
}

static few_rows_state begin_row(const tess_attention *a, const attention_tile *t, int64_t r, const few_rows_memory *m)
{
    const int64_t D = a->head_size, p = attention_position(t, r);
    int64_t token, head;
    attention_row(t, r, &token, &head);
    widen_row(a->q, token * a->q_stride + head * D, D, a->dtype, m->q + r * D, D);
    memset(m->out + r * D, 0, sizeof(float) * (size_t)D);
    float sink;
    attention_sinks(a, t, r, 1, &sink);
    return (few_rows_state){attention_first_key(a, p), p, v_set(sink), v_set(a->sinks != NULL ? 1 : 0)};
}

static void end_row(const tess_attention *a, const attention_tile *t, int64_t r, const float *out,
                    const few_rows_state *state)
{
    const int64_t D = a->head_size;
    int64_t token, head;
    float lse[LANES];
    attention_row(t, r, &token, &head);
    for (int64_t d = 0; d < D; d += LANES) /* adding 0: see end_tile */
        store_any(a->out, token * a->out_stride + head * D + d,
                  v_add(v_div(v_load(out + d, LANES), state->l), v_set(0)), LANES, a->dtype);
    v_store(lse, v_add(state->m, v_log(state->l)), LANES);
    if (a->lse != NULL)
        a->lse[token * a->n_heads + head] = lse[0];
}

static void few_rows_of_tile(const tess_attention *a, const attention_tile *t, void *memory)
{
    const int64_t D = a->head_size;
    few_rows_memory m = {.q = memory};
    m.out = m.q + ATTENTION_FEW_ROWS * D;
    m.turned = m.out + ATTENTION_FEW_ROWS * D;
    m.keys = m.turned + ATTENTION_KEYS * D;
    few_rows_state state[ATTENTION_FEW_ROWS];
    float scores[ATTENTION_FEW_ROWS][ATTENTION_KEYS];
    vec correction[ATTENTION_FEW_ROWS];
    for (int64_t r = 0; r < t->n_rows; r++)
        state[r] = begin_row(a, t, r, &m);
    for (int64_t base = t->key_begin / ATTENTION_KEYS * ATTENTION_KEYS; base < t->key_end; base += ATTENTION_KEYS) {
        const int64_t n = min64(ATTENTION_KEYS, t->key_end - base), width = divide_up(n, LANES) * LANES;
        const int64_t v_at = tess_attention_block(a, t->seq, base, a->v_stride) + t->kv_head * D;
        const matrix k = widen_rows(t->seq->k, tess_attention_block(a, t->seq, base, a->k_stride) + t->kv_head * D,
                                    a->k_stride, n, D, a->dtype, m.keys);
        attention_ask_for_rows(a, t->seq->v, v_at, a->v_stride, n);
        turn_rows(k.at, k.row, n, D, m.turned, width);
        for (int64_t r = 0; r < t->n_rows; r++) {
            row_product(width, D, m.q + r * D, m.turned, width, scores[r], false);
            if (a->soft_cap != 0)
                cap_scores(scores[r], 1, width, tess_score_cap_of(a));
            correction[r] = few_rows_softmax(scores[r], base, n, a->scale, a->dtype == TESS_BF16, &state[r]);
        }
        attention_ask_for_keys(a, t, base);
        const matrix v = widen_rows(t->seq->v, v_at, a->v_stride, n, D, a->dtype, m.keys);
        for (int64_t r = 0; r < t->n_rows; r++) {
            for (int64_t d = 0; d < D; d += LANES)
                v_store(m.out + r * D + d, v_mul(v_load(m.out + r * D + d, LANES), correction[r]), LANES);
            row_product(D, n, scores[r], v.at, v.row, m.out + r * D, true);
        }
    }
    for (int64_t r = 0; r < t->n_rows; r++)
        end_row(a, t, r, m.out + r * D, &state[r]);
}

#endif
