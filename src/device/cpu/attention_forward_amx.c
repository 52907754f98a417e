/* Attention forward in bf16 on AMX: per tile of 32 query rows and block of 64 keys, scores S^T = K Q^T, softmax with a
 * query a lane, O^T += V^T P^T. Keys and values are packed once per sequence and key head when several tiles share
 * them, and block by block when one tile is all there is (generation). Both run the same steps on the same numbers.
 *
 * The exponentials, not the products, set the pace: about 10 instructions for 16 of them against 0.5 D / 32 tile
 * instructions. */
#include "device/cpu/attention_tiles_amx.h"

#include <string.h>

#include "device/ref/attention.h"
#include "device/stream.h"

enum {
    GROUPS = ATTENTION_ROWS / TILE_ROWS,
    KEY_TILES = ATTENTION_KEYS / TILE_ROWS,
    KEY_STEPS = ATTENTION_KEYS / TILE_K
};

/* Packed keys (KEY_TILES, steps of k) and values (D / 16, KEY_STEPS) of one block: as many elements each. */
static int64_t block_elements(const tess_attention *a)
{
    return 2 * ATTENTION_KEYS * padded_head(a);
}

static void pack_block(const tess_attention *a, const tess_attention_seq *s, int64_t kv_head, int64_t base, int64_t n,
                       uint16_t *packed)
{
    const int64_t D = a->head_size, ld = padded_head(a);
    const uint16_t *rows[TILE_K];
    uint16_t *values = packed + ATTENTION_KEYS * ld;
    for (int64_t j = 0; j < n; j += TILE_ROWS) {
        for (int64_t i = 0; i < attention_min(TILE_ROWS, n - j); i++)
            rows[i] = (const uint16_t *)s->k + (base + j + i) * a->k_stride + kv_head * D;
        pack_rows(rows, attention_min(TILE_ROWS, n - j), D, packed + j * ld);
    }
    /* Scores come in pairs of key tiles: the second of a pair is there even if no key is. */
    if (n % TILE_K != 0 && n % TILE_K <= TILE_ROWS)
        memset(packed + attention_div_up(n, TILE_ROWS) * TILE_ROWS * ld, 0,
               sizeof(uint16_t) * (size_t)(TILE_ROWS * ld));
    for (int64_t j = 0; j < n; j += TILE_K) {
        for (int64_t i = 0; i < attention_min(TILE_K, n - j); i++)
            rows[i] = (const uint16_t *)s->v + (base + j + i) * a->v_stride + kv_head * D;
        pack_pairs(rows, attention_min(TILE_K, n - j), D, true, values + j / TILE_K * TILE_BF16, KEY_STEPS * TILE_BF16);
    }
}

/* s (KEY_TILES, GROUPS) tiles, for the first n keys, n 32 or 64. */
static void scores_of(const uint16_t *keys, const uint16_t *q, int64_t ld, int64_t n, float *s)
{
    const int64_t row = ld * TILE_ROWS;
    tess_tiles_fence();
    for (int64_t j = 0; j < n / TILE_ROWS; j += 2) {
        const uint16_t *k = keys + j * row;
        float *c = s + j * GROUPS * TILE_FLOATS;
        sums_zero();
        for (int64_t d = 0; d < row; d += TILE_BF16)
            sums_add(k + d, k + row + d, 64, q + d, q + row + d);
        sums_store(c, c + TILE_FLOATS, c + 2 * TILE_FLOATS, c + 3 * TILE_FLOATS);
    }
}

static void mask_scores(float *s, int64_t n, int64_t base, const lane_keys *keys)
{
    for (int64_t j = 0; j < n; j++)
        for (int g = 0; g < GROUPS; g++) {
            float *at = s + (j / TILE_ROWS * GROUPS + g) * TILE_FLOATS + j % TILE_ROWS * 16;
            _mm512_store_ps(at, hide(_mm512_load_ps(at), &keys[g], base + j));
        }
}

/* out (D / 16, GROUPS) tiles = out * correction + V^T P^T; `sums`: four tiles. */
static void add_values(const uint16_t *values, const uint16_t *p, int64_t ld, int64_t n, const softmax_lanes *state,
                       float *out, float *sums)
{
    for (int64_t d = 0; d < ld; d += TILE_K, values += 2 * KEY_STEPS * TILE_BF16, out += 2 * GROUPS * TILE_FLOATS) {
        tess_tiles_fence();
        sums_zero();
        for (int64_t step = 0; step < n / TILE_K; step++) {
            const uint16_t *v = values + step * TILE_BF16, *b = p + step * GROUPS * TILE_BF16;
            sums_add(v, v + KEY_STEPS * TILE_BF16, 64, b, b + TILE_BF16);
        }
        sums_store(sums, sums + TILE_FLOATS, sums + 2 * TILE_FLOATS, sums + 3 * TILE_FLOATS);
        for (int t = 0; t < 2 * GROUPS; t++)
            for (int i = 0; i < TILE_FLOATS; i += 16) {
                float *o = out + t * TILE_FLOATS + i;
                _mm512_store_ps(o, _mm512_fmadd_ps(_mm512_load_ps(o), state[t % GROUPS].correction,
                                                   _mm512_load_ps(sums + t * TILE_FLOATS + i)));
            }
    }
}

typedef struct forward_memory {
    float scores[KEY_TILES * GROUPS * TILE_FLOATS];
    float sums[4 * TILE_FLOATS];
    uint16_t p[KEY_STEPS * GROUPS * TILE_BF16];
    char rest[]; /* out, q, one packed block */
} forward_memory;

static size_t worker_bytes(const tess_attention *a)
{
    const size_t ld = (size_t)padded_head(a), few = tess_attention_few_rows_bytes(a);
    const size_t bytes = sizeof(forward_memory) + ATTENTION_ROWS * ld * (sizeof(float) + sizeof(uint16_t)) +
                         sizeof(uint16_t) * (size_t)block_elements(a);
    return bytes > few ? bytes : few;
}

static void pack_tile_queries(const tess_attention *a, const attention_tile *t, uint16_t *q)
{
    for (int64_t r = 0; r < ATTENTION_ROWS; r += TILE_ROWS)
        pack_query_rows(a, t, r, q + r * padded_head(a));
}

static void write_tile(const tess_attention *a, const attention_tile *t, const softmax_lanes *state, const float *out)
{
    const int64_t D = a->head_size;
    float lse[ATTENTION_ROWS];
    for (int g = 0; g < GROUPS && g * TILE_ROWS < t->n_rows; g++) {
        const __m512 factor = _mm512_div_ps(_mm512_set1_ps(1), state[g].l);
        _mm512_storeu_ps(lse + g * 16, softmax_lse(&state[g]));
        for (int64_t d = 0; d < D; d += TILE_ROWS) {
            __m512i square[TILE_ROWS];
            /* Adding 0 makes -0 of a sum that underflowed the 0 that it would be beside other rows. */
            for (int i = 0; i < TILE_ROWS; i++)
                square[i] = _mm512_castps_si512(_mm512_add_ps(
                    _mm512_mul_ps(_mm512_load_ps(out + (d / TILE_ROWS * GROUPS + g) * TILE_FLOATS + i * 16), factor),
                    _mm512_setzero_ps()));
            transpose_16x16_avx512(square);
            for (int i = 0; i < TILE_ROWS && g * TILE_ROWS + i < t->n_rows; i++) {
                int64_t token, head;
                attention_row(t, g * TILE_ROWS + i, &token, &head);
                v_store_bf16((uint16_t *)a->out + token * a->out_stride + head * D + d, _mm512_castsi512_ps(square[i]),
                             attention_min(TILE_ROWS, D - d));
            }
        }
    }
    for (int64_t r = 0; a->lse != NULL && r < t->n_rows; r++) {
        int64_t token, head;
        attention_row(t, r, &token, &head);
        a->lse[token * a->n_heads + head] = lse[r];
    }
}

/* Blocks that were packed before, of sequence i at block first[i] of all; -1 where tiles pack their own. */
typedef struct packed_keys {
    int64_t *first;
    uint16_t *blocks;
} packed_keys;

static void forward_tile(const attention_forward_job *job, const attention_tile *t, void *memory)
{
    const tess_attention *a = job->a;
    const packed_keys *packed = job->context;
    const int64_t ld = padded_head(a), first = packed->first[t->seq_index];
    const int64_t n_blocks = attention_div_up(t->seq->k_len, ATTENTION_KEYS);
    if (first < 0 && t->n_rows <= TILE_ROWS) {
        tess_attention_few_rows_amx(a, t, memory);
        return;
    }
    forward_memory *m = memory;
    float *out = (float *)m->rest;
    uint16_t *q = (uint16_t *)(out + ATTENTION_ROWS * ld), *own = q + ATTENTION_ROWS * ld;
    lane_keys keys[GROUPS];
    softmax_lanes state[GROUPS];
    pack_tile_queries(a, t, q);
    memset(out, 0, sizeof(float) * (size_t)(ATTENTION_ROWS * ld));
    for (int g = 0; g < GROUPS; g++) {
        keys[g] = lane_keys_of(a, t, g * TILE_ROWS);
        state[g] = softmax_begin();
    }
    for (int64_t block = t->key_begin / ATTENTION_KEYS; block * ATTENTION_KEYS < t->key_end; block++) {
        const int64_t base = block * ATTENTION_KEYS, n = attention_min(ATTENTION_KEYS, t->key_end - base);
        const int64_t whole = attention_div_up(n, TILE_K) * TILE_K;
        const uint16_t *kv = own;
        if (first < 0)
            pack_block(a, t->seq, t->kv_head, base, n, own);
        else
            kv = packed->blocks + (first + t->kv_head * n_blocks + block) * block_elements(a);
        scores_of(kv, q, ld, whole, m->scores);
        if (some_hidden(a, t, base, whole))
            mask_scores(m->scores, whole, base, keys);
        for (int g = 0; g < GROUPS; g++)
            softmax_block(m->scores + g * TILE_FLOATS, GROUPS * TILE_FLOATS, whole, a->scale * 0x1.715476p+0f,
                          &state[g], m->p + g * TILE_BF16, GROUPS * TILE_BF16);
        add_values(kv + ATTENTION_KEYS * ld, m->p, ld, whole, state, out, m->sums);
    }
    write_tile(a, t, state, out);
}

typedef struct pack_job {
    const tess_attention *a;
    packed_keys packed;
} pack_job;

static void pack_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const pack_job *job = context;
    const tess_attention *a = job->a;
    (void)worker;
    int64_t i = 0;
    for (int64_t block = begin; block < end; block++) {
        const tess_attention_seq *s;
        int64_t n_blocks;
        for (;; i++) {
            s = &a->seqs[i];
            n_blocks = attention_div_up(s->k_len, ATTENTION_KEYS);
            if (job->packed.first[i] >= 0 && block < job->packed.first[i] + n_blocks * a->n_kv_heads)
                break;
        }
        const int64_t at = block - job->packed.first[i], base = at % n_blocks * ATTENTION_KEYS;
        if (base + ATTENTION_KEYS > attention_first_key(a, s->k_len - s->q_len))
            pack_block(a, s, at / n_blocks, base, attention_min(ATTENTION_KEYS, s->k_len - base),
                       job->packed.blocks + block * block_elements(a));
    }
}

tess_status tess_attention_forward_amx(tess_stream *stream, const tess_attention *a)
{
    if (a->dtype != TESS_BF16)
        return tess_attention_forward_avx512(stream, a);
    TESS_TRY(tess_attention_check(a, NULL));
    int64_t n_blocks = 0;
    for (int64_t i = 0; i < a->n_seqs; i++)
        if (a->seqs[i].q_len * (a->n_heads / a->n_kv_heads) > ATTENTION_ROWS)
            n_blocks += attention_div_up(a->seqs[i].k_len, ATTENTION_KEYS) * a->n_kv_heads;
    const size_t packed_bytes = sizeof(uint16_t) * (size_t)(n_blocks * block_elements(a));
    const size_t first_bytes = attention_align(sizeof(int64_t) * (size_t)a->n_seqs);
    pack_job job = {.a = a};
    attention_forward_job tiles = {.a = a,
                                   .worker_bytes = worker_bytes(a),
                                   .context = &job.packed,
                                   .enter = tess_tiles_enter,
                                   .leave = tess_tiles_leave,
                                   .tile = forward_tile};
    void *scratch;
    TESS_TRY(tess_stream_scratch(
        stream, packed_bytes + first_bytes + tiles.worker_bytes * (size_t)tess_threads_count(stream->threads),
        &scratch));
    job.packed.blocks = scratch;
    job.packed.first = (int64_t *)((char *)scratch + packed_bytes);
    tiles.worker_memory = (char *)job.packed.first + first_bytes;
    n_blocks = 0;
    for (int64_t i = 0; i < a->n_seqs; i++) {
        const bool shared = a->seqs[i].q_len * (a->n_heads / a->n_kv_heads) > ATTENTION_ROWS;
        job.packed.first[i] = shared ? n_blocks : -1;
        n_blocks += shared ? attention_div_up(a->seqs[i].k_len, ATTENTION_KEYS) * a->n_kv_heads : 0;
    }
    tess_threads_run(stream->threads, pack_blocks, &job, n_blocks, 1);
    tess_attention_run_forward(stream, &tiles);
    return TESS_OK;
}
