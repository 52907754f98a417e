/* Attention forward in bf16 on AMX. For each tile of 32 query rows and block of 64 keys: scores S^T = K Q^T, softmax
 * with one query per lane, O^T += V^T P^T. The products of the next block's scores and the previous block's values run
 * during the softmax. If several tiles share keys and values, these are packed once per sequence and key head; if there
 * is only one tile (generation), block by block. Both ways run the same steps on the same numbers.
 *
 * For 16 probabilities the softmax takes about 10 vector instructions, and the products take D / 256 TDPBF16PS of 16
 * cycles. */
#include "device/cpu/attention_softmax_amx.h"

#include <string.h>

#include "device/ref/ref_attention.h"
#include "device/stream_impl.h"

enum {
    GROUPS = ATTENTION_ROWS / TILE_ROWS,
    KEY_TILES = ATTENTION_KEYS / TILE_ROWS,
    KEY_STEPS = ATTENTION_KEYS / TILE_K,
    OWN_BLOCKS = 3,  /* blocks that a tile packs for itself: previous, current and next */
    ROUND_SEQS = 512 /* a round has room for this many sequences without packed keys */
};

/* Number of elements of one packed block: keys (KEY_TILES, steps of k) and values (D / 16, KEY_STEPS), the same number
 * each. */
static int64_t block_elements(const tess_attention *a)
{
    return 2 * ATTENTION_KEYS * padded_head(a);
}

static void pack_block(const tess_attention *a, const tess_attention_seq *s, int64_t kv_head, int64_t base, int64_t n,
                       uint16_t *packed)
{
    const int64_t D = a->head_size, ld = padded_head(a);
    const uint16_t *keys = (const uint16_t *)s->k + tess_attention_block(a, s, base, a->k_stride) + kv_head * D,
                   *all_values = (const uint16_t *)s->v + tess_attention_block(a, s, base, a->v_stride) + kv_head * D;
    uint16_t *values = packed + ATTENTION_KEYS * ld;
    for (int64_t j = 0; j < n; j += TILE_K) {
        const uint16_t *k[TILE_K] = {NULL}, *v[TILE_K] = {NULL};
        for (int64_t i = 0; i < TILE_K && j + i < n; i++) {
            k[i] = keys + (j + i) * a->k_stride;
            v[i] = all_values + (j + i) * a->v_stride;
        }
        pack_rows(k, D, packed + j * ld);
        pack_rows(k + TILE_ROWS, D, packed + (j + TILE_ROWS) * ld);
        pack_pairs(v, 1, D, true, values + j / TILE_K * TILE_BF16, KEY_STEPS * TILE_BF16);
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

/* Lists the products s (KEY_TILES, GROUPS) = K Q^T for the first n keys; n is 32 or 64. Returns the number of
 * products. */
static int64_t add_scores(const uint16_t *keys, const uint16_t *q, int64_t ld, int64_t n, float *s, product *list)
{
    const int64_t row = ld * TILE_ROWS;
    for (int64_t i = 0; i < n / TILE_K; i++)
        list[i] = (product){.a = keys + 2 * i * row,
                            .b = q,
                            .a_pair = row,
                            .a_step = TILE_BF16,
                            .b_pair = row,
                            .b_step = TILE_BF16,
                            .n_steps = ld / TILE_K,
                            .c = s + 2 * i * GROUPS * TILE_FLOATS,
                            .c_row = GROUPS * TILE_FLOATS};
    return n / TILE_K;
}

/* Lists the products out (D / 16, GROUPS) [+]= V^T P^T. */
static int64_t add_values(const uint16_t *values, const uint16_t *p, int64_t ld, int64_t n, bool add, float *out,
                          product *list)
{
    for (int64_t i = 0; i < ld / TILE_K; i++)
        list[i] = (product){.a = values + 2 * i * KEY_STEPS * TILE_BF16,
                            .b = p,
                            .a_pair = KEY_STEPS * TILE_BF16,
                            .a_step = TILE_BF16,
                            .b_pair = TILE_BF16,
                            .b_step = GROUPS * TILE_BF16,
                            .n_steps = n / TILE_K,
                            .c = out + 2 * i * GROUPS * TILE_FLOATS,
                            .c_row = GROUPS * TILE_FLOATS,
                            .add = add};
    return ld / TILE_K;
}

static void correct(const softmax_lanes *state, int64_t ld, float *out)
{
    for (int64_t t = 0; t < ld / TILE_ROWS * GROUPS; t++)
        for (int i = 0; i < TILE_FLOATS; i += 16) {
            float *o = out + t * TILE_FLOATS + i;
            _mm512_store_ps(o, _mm512_mul_ps(_mm512_load_ps(o), state[t % GROUPS].correction));
        }
}

typedef struct forward_memory_amx {
    float scores[2][KEY_TILES * GROUPS * TILE_FLOATS];
    uint16_t p[2][KEY_STEPS * GROUPS * TILE_BF16];
    float nowhere[4 * TILE_FLOATS];
    char rest[]; /* out, q, packed blocks, the list of products */
} forward_memory_amx;

static size_t worker_bytes(const tess_attention *a)
{
    const size_t ld = (size_t)padded_head(a), few = tess_attention_few_rows_bytes(a);
    const size_t bytes = sizeof(forward_memory_amx) + ATTENTION_ROWS * ld * (sizeof(float) + sizeof(uint16_t)) +
                         OWN_BLOCKS * sizeof(uint16_t) * (size_t)block_elements(a) +
                         attention_align((2 + ld / TILE_K) * sizeof(product));
    return bytes > few ? bytes : few;
}

static void pack_tile_queries(const tess_attention *a, const attention_tile *t, uint16_t *q)
{
    for (int64_t r = 0; r < ATTENTION_ROWS; r += TILE_ROWS)
        pack_query_rows(a, t, r, q + r * padded_head(a));
}

/* Takes the sums of earlier calls: from rows to tiles with a query in each lane. */
static void load_state(const tess_attention *a, const attention_tile *t, softmax_lanes *state, float *out)
{
    const int64_t D = a->head_size;
    int64_t token[ATTENTION_ROWS], head[ATTENTION_ROWS];
    attention_rows(t, 0, t->n_rows, token, head);
    for (int g = 0; g < GROUPS; g++) {
        float m[TILE_ROWS] = {0}, l[TILE_ROWS] = {0};
        const int64_t first = g * TILE_ROWS, n = min64(t->n_rows - first, TILE_ROWS);
        for (int64_t r = 0; r < n; r++) {
            m[r] = attention_row_state(a, token[first + r], head[first + r])[0];
            l[r] = attention_row_state(a, token[first + r], head[first + r])[1];
        }
        state[g].m = _mm512_loadu_ps(m);
        state[g].l = _mm512_loadu_ps(l);
        for (int64_t d = 0; d < D; d += TILE_ROWS) {
            __m512i square[TILE_ROWS];
            for (int64_t r = 0; r < TILE_ROWS; r++)
                square[r] =
                    r < n
                        ? _mm512_castps_si512(v_load(attention_row_state(a, token[first + r], head[first + r]) + 2 + d,
                                                     min64(TILE_ROWS, D - d)))
                        : _mm512_setzero_si512();
            transpose_16x16_avx512(square);
            for (int i = 0; i < TILE_ROWS; i++)
                _mm512_store_si512(out + (d / TILE_ROWS * GROUPS + g) * TILE_FLOATS + i * 16, square[i]);
        }
    }
}

static void store_state(const tess_attention *a, const attention_tile *t, const softmax_lanes *state, const float *out)
{
    const int64_t D = a->head_size;
    int64_t token[ATTENTION_ROWS], head[ATTENTION_ROWS];
    attention_rows(t, 0, t->n_rows, token, head);
    for (int64_t first = 0; first < t->n_rows; first += TILE_ROWS) {
        const int64_t g = first / TILE_ROWS, n = min64(t->n_rows - first, TILE_ROWS);
        float m[TILE_ROWS], l[TILE_ROWS], *to[TILE_ROWS];
        _mm512_storeu_ps(m, state[g].m);
        _mm512_storeu_ps(l, state[g].l);
        for (int64_t r = 0; r < n; r++) {
            to[r] = attention_row_state(a, token[first + r], head[first + r]);
            to[r][0] = m[r];
            to[r][1] = l[r];
        }
        for (int64_t d = 0; d < D; d += TILE_ROWS) {
            __m512i square[TILE_ROWS];
            for (int i = 0; i < TILE_ROWS; i++)
                square[i] = _mm512_load_si512(out + (d / TILE_ROWS * GROUPS + g) * TILE_FLOATS + i * 16);
            transpose_16x16_avx512(square);
            for (int64_t r = 0; r < n; r++)
                v_store(to[r] + 2 + d, _mm512_castsi512_ps(square[r]), min64(TILE_ROWS, D - d));
        }
    }
}

static void write_tile(const tess_attention *a, const attention_tile *t, const softmax_lanes *state, const float *out)
{
    const int64_t D = a->head_size;
    int64_t token[ATTENTION_ROWS], head[ATTENTION_ROWS];
    float lse[ATTENTION_ROWS];
    attention_rows(t, 0, t->n_rows, token, head);
    for (int g = 0; g < GROUPS && g * TILE_ROWS < t->n_rows; g++) {
        const __m512 factor = _mm512_div_ps(_mm512_set1_ps(1), state[g].l);
        _mm512_storeu_ps(lse + g * 16, softmax_lse(&state[g]));
        for (int64_t d = 0; d < D; d += TILE_ROWS) {
            __m512i square[TILE_ROWS];
            /* Adding 0 turns a -0 from a sum that underflowed into the 0 that it would be if other rows were in the
             * tile. */
            for (int i = 0; i < TILE_ROWS; i++)
                square[i] = _mm512_castps_si512(_mm512_add_ps(
                    _mm512_mul_ps(_mm512_load_ps(out + (d / TILE_ROWS * GROUPS + g) * TILE_FLOATS + i * 16), factor),
                    _mm512_setzero_ps()));
            transpose_16x16_avx512(square);
            for (int64_t r = g * TILE_ROWS, i = 0; i < TILE_ROWS && r + i < t->n_rows; i++)
                v_store_bf16((uint16_t *)a->out + token[r + i] * a->out_stride + head[r + i] * D + d,
                             _mm512_castsi512_ps(square[i]), min64(TILE_ROWS, D - d));
        }
    }
    for (int64_t r = 0; a->lse != NULL && r < t->n_rows; r++)
        a->lse[token[r] * a->n_heads + head[r]] = lse[r];
}

/* Whether the blocks of a sequence are packed in advance: several tiles use them, or tiles keep their sums between
 * calls. */
static bool packs_in_advance(const tess_attention *a, const tess_attention_seq *s)
{
    return s->q_len * (a->n_heads / a->n_kv_heads) > ATTENTION_ROWS || (a->state != NULL && !(s->first && s->last));
}

/* The place of a sequence's packed keys. Neighbours whose keys begin at the same row have one copy. A sequence whose
 * keys are not packed in advance has none. */
typedef struct packed_seq {
    int64_t first, n_blocks; /* head h has blocks from first + h n_blocks on; first -1: its tiles pack their own */
    int64_t begin, end;      /* the keys of the copy that some query sees */
} packed_seq;

/* The packed keys of a round, which all of its tiles read. */
typedef struct packed_keys {
    packed_seq *seqs;
    uint16_t *blocks;
} packed_keys;

/* The packed keys of one block that a tile sees. */
typedef struct key_block {
    int64_t base, n; /* n: number of keys, in whole steps of k */
    const uint16_t *packed;
} key_block;

static key_block key_block_of(const attention_forward_job *job, const attention_tile *t, int64_t block, uint16_t *own)
{
    const packed_keys *packed = job->context;
    const packed_seq *keys = &packed->seqs[t->seq_index];
    const int64_t base = block * ATTENTION_KEYS;
    const int64_t n = min64(ATTENTION_KEYS, t->key_end - base), k_begin = t->seq->k_begin;
    key_block b = {.base = base, .n = divide_up(n, TILE_K) * TILE_K, .packed = own};
    if (keys->first < 0)
        pack_block(job->a, t->seq, t->kv_head, base, n, own);
    else
        b.packed = packed->blocks + (keys->first + t->kv_head * keys->n_blocks + block - k_begin / ATTENTION_KEYS) *
                                        block_elements(job->a);
    return b;
}

/* Arrays of a worker's memory. */
typedef struct tile_memory {
    forward_memory_amx *m;
    float *out;    /* (D / 16, GROUPS) */
    uint16_t *q;   /* packed queries */
    uint16_t *own; /* OWN_BLOCKS packed blocks */
    product *list;
} tile_memory;

static tile_memory tile_memory_of(const tess_attention *a, void *memory)
{
    const int64_t ld = padded_head(a);
    forward_memory_amx *m = memory;
    float *out = (float *)m->rest;
    uint16_t *q = (uint16_t *)(out + ATTENTION_ROWS * ld), *own = q + ATTENTION_ROWS * ld;
    return (tile_memory){m, out, q, own, (product *)(own + OWN_BLOCKS * block_elements(a))};
}

/* The position of a tile in the blocks that it sees. */
typedef struct block_walk {
    int64_t first, end, block;
    bool adds; /* the output has a value before the first block */
    key_block before, now, next;
} block_walk;

/* Lists the products that run during the softmax of w->block: the scores of the next block, if there is one, and the
 * values of the previous block. Returns the number of products. */
static int64_t list_products(const attention_forward_job *job, const attention_tile *t, const tile_memory *at,
                             block_walk *w)
{
    const int64_t ld = padded_head(job->a), next = w->block + 1;
    int64_t n = 0;
    w->next = (key_block){0};
    if (next < w->end) {
        w->next = key_block_of(job, t, next, at->own + (next - w->first) % OWN_BLOCKS * block_elements(job->a));
        n = add_scores(w->next.packed, at->q, ld, w->next.n, at->m->scores[next % 2], at->list);
    }
    if (w->block > w->first)
        n += add_values(w->before.packed + ATTENTION_KEYS * ld, at->m->p[(w->block - 1) % 2], ld, w->before.n,
                        w->adds || w->block - 1 > w->first, at->out, at->list + n);
    return n;
}

/* Processes all blocks, which completes the state and the output of whole rows. */
static void forward_blocks(const attention_forward_job *job, const attention_tile *t, const tile_memory *at,
                           softmax_lanes *state)
{
    const tess_attention *a = job->a;
    const int64_t first = t->key_begin / ATTENTION_KEYS, end = divide_up(t->key_end, ATTENTION_KEYS);
    const bool adds = a->state != NULL;
    block_walk w = {.first = first, .end = end, .block = first - 1, .adds = adds};
    product_stream products = products_none(at->m->nowhere);
    lane_keys keys[GROUPS];
    for (int g = 0; g < GROUPS; g++)
        keys[g] = lane_keys_of(a, t, g * TILE_ROWS);
    products_begin(&products, at->list, list_products(job, t, at, &w), 1);
    products_finish(&products);
    for (w.block = first; w.block < end; w.block++) {
        float *scores = at->m->scores[w.block % 2];
        w.before = w.now;
        w.now = w.next;
        const int64_t n = list_products(job, t, at, &w);
        if (a->soft_cap != 0)
            cap_scores(scores, w.now.n * ATTENTION_ROWS, tess_score_cap_of(a));
        if (some_hidden(a, t, w.now.base, w.now.n))
            mask_scores(scores, w.now.n, w.now.base, keys);
        products_begin(&products, at->list, n, softmax_calls(w.now.n));
        const bool moved =
            softmax_block(scores, GROUPS, w.now.n, a->scale * 0x1.715476p+0f, state, at->m->p[w.block % 2], &products);
        if (moved || w.block == first) {
            products_finish(&products);
            if (adds || w.block > first)
                correct(state, padded_head(a), at->out);
        }
    }
    w.before = w.now;
    products_begin(&products, at->list, list_products(job, t, at, &w), 1);
    products_finish(&products);
}

static void forward_tile(const attention_forward_job *job, const attention_tile *t, void *memory)
{
    if (t->n_rows <= TILE_ROWS && ((const packed_keys *)job->context)->seqs[t->seq_index].first < 0) {
        tess_attention_few_rows_amx(job->a, t, memory);
        return;
    }
    const tile_memory at = tile_memory_of(job->a, memory);
    softmax_lanes state[GROUPS];
    float sink[ATTENTION_ROWS];
    attention_sinks(job->a, t, 0, ATTENTION_ROWS, sink);
    for (int g = 0; g < GROUPS; g++)
        state[g] = softmax_begin(job->a, _mm512_loadu_ps(sink + g * 16));
    if (job->a->state != NULL)
        memset(at.out, 0, sizeof(float) * (size_t)(ATTENTION_ROWS * padded_head(job->a)));
    if (!attention_begins(job->a, t->seq))
        load_state(job->a, t, state, at.out);
    pack_tile_queries(job->a, t, at.q);
    forward_blocks(job, t, &at, state);
    if (attention_ends(job->a, t->seq))
        write_tile(job->a, t, state, at.out);
    else
        store_state(job->a, t, state, at.out);
}

/* ---- Rounds ---- */
/* Sequences whose keys are packed together: as many neighbours as there is room for. Many short sequences take more
 * blocks than one long sequence of as many keys, because each has a last block that is not full. With room that depends
 * on the number of keys alone, a plan for full rows holds for short documents, too. */
typedef struct pack_job {
    const tess_attention *a; /* the sequences of the round */
    packed_keys packed;
    int64_t n_blocks;
} pack_job;

static size_t blocks_bytes(const tess_attention *a, int64_t n_blocks)
{
    return sizeof(uint16_t) * (size_t)(n_blocks * block_elements(a));
}

static size_t seqs_bytes(int64_t n)
{
    return attention_align(sizeof(packed_seq) * (size_t)n);
}

/* Whether two neighbours share the copy of their keys. */
static bool shares_keys(const tess_attention *a, const tess_attention_seq *s, const tess_attention_seq *next)
{
    return s->k == next->k && s->v == next->v && s->pages == next->pages && s->k_begin == next->k_begin &&
           packs_in_advance(a, s) && packs_in_advance(a, next);
}

/* Returns the end of the neighbours from sequence i on that share their keys, and the number of these keys in *n. */
static int64_t sharing_end(const tess_attention *a, int64_t i, int64_t *n)
{
    const tess_attention_seq *s = &a->seqs[i];
    int64_t end = i + 1, last = tess_attention_key_end(a, s);
    for (; end < a->n_seqs && shares_keys(a, s, &a->seqs[end]); end++)
        last = max64(last, tess_attention_key_end(a, &a->seqs[end]));
    *n = packs_in_advance(a, s) ? last - s->k_begin : 0;
    return end;
}

/* Returns the size of the room for packed keys: for all of them and an eighth more, if sequences are long. */
static size_t room_bytes(const tess_attention *a)
{
    int64_t all = 0, n;
    for (int64_t i = 0; i < a->n_seqs;) {
        i = sharing_end(a, i, &n);
        all += n;
    }
    if (a->most_keys > 0)
        all = a->most_keys;
    return blocks_bytes(a, divide_up(all + all / 8, ATTENTION_KEYS) * a->n_kv_heads) + seqs_bytes(ROUND_SEQS);
}

/* Takes sequences from the first one on until the room is full, at least one with those that share its keys. Returns
 * their number. */
static int64_t take_round(const tess_attention *a, size_t room, pack_job *job)
{
    int64_t i = 0;
    job->n_blocks = 0;
    while (i < a->n_seqs) {
        int64_t n;
        const int64_t end = sharing_end(a, i, &n), n_blocks = divide_up(n, ATTENTION_KEYS);
        const int64_t all = job->n_blocks + n_blocks * a->n_kv_heads;
        if (i > 0 && blocks_bytes(a, all) + seqs_bytes(end) > room)
            break;
        i = end;
        job->n_blocks = all;
    }
    return i;
}

/* Places the blocks of a round. */
static void place_blocks(pack_job *job)
{
    const tess_attention *a = job->a;
    int64_t first = 0, n;
    for (int64_t i = 0; i < a->n_seqs;) {
        const int64_t begin = i;
        i = sharing_end(a, i, &n);
        packed_seq p = {.first = n > 0 ? first : -1, .n_blocks = divide_up(n, ATTENTION_KEYS), .begin = INT64_MAX};
        p.end = a->seqs[begin].k_begin + n;
        first += p.n_blocks * a->n_kv_heads;
        for (int64_t k = begin; k < i; k++)
            p.begin = min64(p.begin, attention_first_key(a, a->seqs[k].k_len - a->seqs[k].q_len));
        for (int64_t k = begin; k < i; k++)
            job->packed.seqs[k] = p;
    }
}

static void pack_blocks(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const pack_job *job = context;
    const tess_attention *a = job->a;
    int64_t i = 0;
    for (int64_t block = begin; block < end; block++) {
        const packed_seq *p = &job->packed.seqs[i];
        while (p->first < 0 || block >= p->first + p->n_blocks * a->n_kv_heads)
            p = &job->packed.seqs[++i];
        const tess_attention_seq *s = &a->seqs[i];
        const int64_t at = block - p->first, base = s->k_begin + at % p->n_blocks * ATTENTION_KEYS;
        if (base + ATTENTION_KEYS > p->begin)
            pack_block(a, s, at / p->n_blocks, base, min64(ATTENTION_KEYS, p->end - base),
                       job->packed.blocks + block * block_elements(a));
    }
}

tess_status tess_attention_forward_amx(tess_stream *stream, const tess_attention *a)
{
    if (a->dtype != TESS_BF16)
        return tess_attention_forward_avx512(stream, a);
    TESS_TRY(tess_attention_check(a, NULL));
    const size_t room = room_bytes(a);
    tess_attention round = *a;
    pack_job job = {.a = &round};
    attention_forward_job tiles = {.a = &round,
                                   .worker_bytes = worker_bytes(a),
                                   .context = &job.packed,
                                   .enter = tess_tiles_enter,
                                   .leave = tess_tiles_leave,
                                   .tile = forward_tile};
    void *scratch;
    for (int64_t i = 0; i < a->n_seqs; i += round.n_seqs) {
        round.seqs = a->seqs + i;
        round.n_seqs = a->n_seqs - i;
        round.n_seqs = take_round(&round, room, &job);
        /* A call with more keys than most_keys may still need more room. */
        const size_t bytes = blocks_bytes(a, job.n_blocks) + seqs_bytes(round.n_seqs);
        const size_t keys_bytes = bytes > room ? bytes : room;
        TESS_TRY(tess_stream_scratch(
            stream, keys_bytes + tiles.worker_bytes * (size_t)tess_threads_count(stream->threads), &scratch));
        job.packed.blocks = scratch;
        job.packed.seqs = (packed_seq *)((char *)scratch + blocks_bytes(a, job.n_blocks));
        tiles.worker_memory = (char *)scratch + keys_bytes;
        place_blocks(&job);
        tess_threads_run(stream->threads, pack_blocks, &job, job.n_blocks, 1);
        tess_attention_run_forward(stream, &tiles);
    }
    return TESS_OK;
}
