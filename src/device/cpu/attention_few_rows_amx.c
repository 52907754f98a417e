/* Generation: at most 16 query rows (the query heads of one key head, a few tokens) over a long cache. Every key and
 * value is read only once, so packing them is not worth while. K tiles are loaded directly from the rows. O = P V takes
 * V in pairs of rows, with two instructions per register, instead of transposing it. Only factors are exchanged, and
 * the sums are the same, so the bits are those of attention_forward_amx.c. Floor: the bytes of the cache. */
#include "device/cpu/attention_softmax_amx.h"

#include <string.h>

enum {
    KEY_TILES = ATTENTION_KEYS / TILE_ROWS,
    KEY_STEPS = ATTENTION_KEYS / TILE_K,
    FEWEST_ROWS = 4 /* up to this number of rows, keys fill the lanes */
};

typedef struct few_memory {
    float scores[KEY_TILES * TILE_FLOATS];
    uint16_t p_turned[KEY_STEPS * TILE_BF16]; /* B tiles, as softmax writes them */
    uint16_t p[KEY_STEPS * TILE_BF16];        /* A tiles */
    char rest[];                              /* out (rows, ld), q, one pair of key tiles, v */
} few_memory;

size_t tess_attention_few_rows_bytes(const tess_attention *a)
{
    const size_t ld = (size_t)padded_head(a);
    return sizeof(few_memory) +
           ld * (TILE_ROWS * sizeof(float) + (TILE_ROWS + TILE_K + ATTENTION_KEYS) * sizeof(uint16_t));
}

/* Computes the scores of 32 keys as two C tiles. k0 and k1 are the first rows of A tiles; rows are row_bytes apart, and
 * tiles of the next step of D are `step` apart. */
static void score_pair(const uint16_t *k0, const uint16_t *k1, int64_t row_bytes, int64_t step, const uint16_t *q,
                       int64_t steps, float *scores)
{
    tess_tiles_fence();
    _tile_zero(0);
    _tile_zero(1);
    for (int64_t i = 0; i < steps; i++) {
        _tile_loadd(6, q + i * TILE_BF16, 64);
        _tile_loadd(4, k0 + i * step, row_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, k1 + i * step, row_bytes);
        _tile_dpbf16ps(1, 5, 6);
    }
    _tile_stored(0, scores, 64);
    _tile_stored(1, scores + TILE_FLOATS, 64);
}

/* Computes the scores of 32 keys from k, n of which exist. */
static void score_keys(const tess_attention *a, const uint16_t *k, int64_t n, const uint16_t *q, uint16_t *buffer,
                       float *scores)
{
    const int64_t ld = padded_head(a), steps = ld / TILE_K;
    if (n >= TILE_K && a->head_size == ld) {
        score_pair(k, k + TILE_ROWS * a->k_stride, a->k_stride * (int64_t)sizeof(*k), TILE_K, q, steps, scores);
        return;
    }
    const uint16_t *rows[TILE_K] = {NULL};
    for (int64_t i = 0; i < TILE_K && i < n; i++)
        rows[i] = k + i * a->k_stride;
    pack_rows(rows, a->head_size, buffer);
    pack_rows(rows + TILE_ROWS, a->head_size, buffer + TILE_ROWS * ld);
    score_pair(buffer, buffer + TILE_ROWS * ld, 64, TILE_BF16, q, steps, scores);
}

/* Adds P V over n keys (32 or 64) to out (16, ld). */
static void add_values(const uint16_t *p, const uint16_t *v, int64_t ld, int64_t n, float *out)
{
    const int64_t columns = ld / 16, row_bytes = ld * (int64_t)sizeof(float);
    tess_tiles_fence();
    for (int64_t d = 0; d < columns; d += 2) {
        _tile_loadd(0, out + d * 16, row_bytes);
        _tile_loadd(1, out + d * 16 + 16, row_bytes);
        for (int64_t step = 0; step < n / TILE_K; step++) {
            const uint16_t *b = v + (step * columns + d) * TILE_BF16;
            _tile_loadd(4, p + step * TILE_BF16, 64);
            _tile_loadd(6, b, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + TILE_BF16, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        _tile_stored(0, out + d * 16, row_bytes);
        _tile_stored(1, out + d * 16 + 16, row_bytes);
    }
}

static void correct(const float *correction, int64_t n_rows, int64_t ld, float *out)
{
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t d = 0; d < ld; d += 16)
            _mm512_store_ps(out + r * ld + d,
                            _mm512_mul_ps(_mm512_load_ps(out + r * ld + d), _mm512_set1_ps(correction[r])));
}

static void write_rows(const tess_attention *a, const attention_tile *t, const softmax_lanes *state, const float *out)
{
    const int64_t D = a->head_size, ld = padded_head(a);
    float factor[16], lse[16];
    _mm512_storeu_ps(factor, _mm512_div_ps(_mm512_set1_ps(1), state->l));
    _mm512_storeu_ps(lse, softmax_lse(state));
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t token, head;
        attention_row(t, r, &token, &head);
        for (int64_t d = 0; d < D; d += 16) {
            const __m512 o = _mm512_mul_ps(_mm512_load_ps(out + r * ld + d), _mm512_set1_ps(factor[r]));
            v_store_bf16((uint16_t *)a->out + token * a->out_stride + head * D + d,
                         _mm512_add_ps(o, _mm512_setzero_ps()), min64(16, D - d));
        }
        if (a->lse != NULL)
            a->lse[token * a->n_heads + head] = lse[r];
    }
}

static void turn_tile(const uint16_t *from, uint16_t *to)
{
    __m512i square[TILE_ROWS];
    for (int i = 0; i < TILE_ROWS; i++)
        square[i] = _mm512_load_si512((const void *)(from + i * TILE_K));
    transpose_16x16_avx512(square);
    store_tile(to, square);
}

/* Softmax of keys base .. base + n for query r (scores: C tiles of 16 keys by 16 queries), with the functions and the
 * two partial sums of softmax_block. p: A tiles. True: the row's correction is not 1. */
static bool softmax_row(const attention_tile *t, int64_t first, int64_t r, int64_t base, int64_t n, const float *scores,
                        float scale_log2, softmax_lanes *x, uint16_t *p)
{
    const __m512 none = _mm512_set1_ps(-__builtin_inff()), scale = _mm512_set1_ps(scale_log2);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i columns = _mm512_slli_epi32(lane, 4);
    const __m512i begin = _mm512_set1_epi32((int32_t)(first - base)),
                  end = _mm512_set1_epi32((int32_t)(attention_position(t, r) - base));
    __m512 score[KEY_TILES], most = none, from;
    float exponentials[ATTENTION_KEYS], even = 0, odd = 0;
    for (int64_t i = 0; i < n / TILE_ROWS; i++) {
        const __m512i key = _mm512_add_epi32(lane, _mm512_set1_epi32((int32_t)(i * TILE_ROWS)));
        const __mmask16 seen = _mm512_cmple_epi32_mask(begin, key) & _mm512_cmple_epi32_mask(key, end);
        score[i] = _mm512_mask_i32gather_ps(none, seen, columns, scores + i * TILE_FLOATS + r, sizeof(float));
        most = _mm512_max_ps(most, score[i]);
    }
    const bool moved = softmax_move(x, _mm512_mul_ps(_mm512_set1_ps(v_largest(most)), scale), &from);
    for (int64_t i = 0; i < n / TILE_ROWS; i++) {
        const __m512 e = exp2_bf16(_mm512_fmsub_ps(score[i], scale, from));
        _mm512_storeu_ps(exponentials + i * TILE_ROWS, e);
        _mm256_store_si256((void *)(p + i / 2 * TILE_BF16 + r * TILE_K + i % 2 * TILE_ROWS),
                           _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_bits(e), 16)));
    }
    for (int64_t j = 0; j < n; j += 2) {
        even += exponentials[j];
        odd += exponentials[j + 1];
    }
    x->l = _mm512_add_ps(x->l, _mm512_set1_ps(even + odd));
    return moved;
}

/* Turns the scores of n keys into probabilities, as A tiles. True: the correction of some row is not 1. */
static bool softmax_few(const tess_attention *a, const attention_tile *t, int64_t base, int64_t n, few_memory *m,
                        softmax_lanes *state, float correction[TILE_ROWS])
{
    const float scale_log2 = a->scale * 0x1.715476p+0f;
    product_stream no_products = products_none(NULL);
    bool moved = false;
    if (t->n_rows <= FEWEST_ROWS) {
        for (int64_t r = 0; r < t->n_rows; r++) {
            moved |= softmax_row(t, attention_first_key(a, attention_position(t, r)), r, base, n, m->scores, scale_log2,
                                 &state[r], m->p);
            correction[r] = _mm512_cvtss_f32(state[r].correction);
        }
        tess_tiles_fence();
        return moved;
    }
    const lane_keys keys = lane_keys_of(a, t, 0);
    for (int64_t j = 0; j < n && some_hidden(a, t, base, n); j++)
        _mm512_store_ps(m->scores + j * 16, hide(_mm512_load_ps(m->scores + j * 16), &keys, base + j));
    moved = softmax_block(m->scores, 1, n, scale_log2, state, m->p_turned, &no_products);
    for (int64_t step = 0; step < n / TILE_K; step++)
        turn_tile(m->p_turned + step * TILE_BF16, m->p + step * TILE_BF16);
    _mm512_storeu_ps(correction, state->correction);
    return moved;
}

/* Joins the states of rows, which each have the row's values in all lanes, into one state with a row per lane. */
static void join_rows(softmax_lanes *state, int64_t n_rows)
{
    for (int64_t r = 1; r < n_rows; r++) {
        state->m = _mm512_mask_mov_ps(state->m, (__mmask16)(1u << r), state[r].m);
        state->l = _mm512_mask_mov_ps(state->l, (__mmask16)(1u << r), state[r].l);
    }
}

void tess_attention_few_rows_amx(const tess_attention *a, const attention_tile *t, void *memory)
{
    const int64_t D = a->head_size, ld = padded_head(a);
    few_memory *m = memory;
    float *out = (float *)m->rest;
    uint16_t *q = (uint16_t *)(out + TILE_ROWS * ld), *k_buffer = q + TILE_ROWS * ld, *v = k_buffer + TILE_K * ld;
    /* One state per row; if there are more rows than this, the first one is the state of all */
    softmax_lanes state[FEWEST_ROWS];
    float sink[TILE_ROWS];
    attention_sinks(a, t, 0, TILE_ROWS, sink);
    for (int r = 0; r < FEWEST_ROWS; r++)
        state[r] = softmax_begin(a, t->n_rows <= FEWEST_ROWS ? _mm512_set1_ps(sink[r]) : _mm512_loadu_ps(sink));
    memset(m->p, 0, sizeof(m->p));
    pack_query_rows(a, t, 0, q);
    memset(out, 0, sizeof(float) * (size_t)(TILE_ROWS * ld));
    for (int64_t base = t->key_begin / ATTENTION_KEYS * ATTENTION_KEYS; base < t->key_end; base += ATTENTION_KEYS) {
        const int64_t n = min64(ATTENTION_KEYS, t->key_end - base), whole = divide_up(n, TILE_K) * TILE_K;
        const int64_t k_at = tess_attention_block(a, t->seq, base, a->k_stride) + t->kv_head * D;
        const int64_t v_at = tess_attention_block(a, t->seq, base, a->v_stride) + t->kv_head * D;
        attention_ask_for_rows(a, t->seq->v, v_at, a->v_stride, n);
        for (int64_t j = 0; j < whole; j += TILE_K) {
            const uint16_t *rows[TILE_K] = {NULL};
            score_keys(a, (const uint16_t *)t->seq->k + k_at + j * a->k_stride, n - j, q, k_buffer,
                       m->scores + j / TILE_ROWS * TILE_FLOATS);
            for (int64_t i = 0; i < TILE_K && j + i < n; i++)
                rows[i] = (const uint16_t *)t->seq->v + v_at + (j + i) * a->v_stride;
            pack_pairs(rows, 1, D, false, v + j * ld, TILE_BF16);
        }
        if (a->soft_cap != 0)
            cap_scores(m->scores, whole * 16, tess_score_cap_of(a));
        float correction[TILE_ROWS];
        if (softmax_few(a, t, base, whole, m, state, correction))
            correct(correction, t->n_rows, ld, out);
        attention_ask_for_keys(a, t, base);
        add_values(m->p, v, ld, whole, out);
    }
    if (t->n_rows <= FEWEST_ROWS)
        join_rows(state, t->n_rows);
    write_rows(a, t, state, out);
}
