/* Attention backward in bf16 on AMX: steps of 64 queries by 64 keys, five products of tiles each (Dao,
 * arXiv:2307.08691): S^T = K Q^T    dP^T = V dO^T    dV += P^T dO    dK += dS^T Q    dQ^T += K^T dS^T with P^T =
 * exp(scale S^T - lse) and dS^T = P^T (dP^T - delta), a query a lane. P and dS go to bf16 as they are made: as rows of
 * A tiles for dV and dK, dS also in pairs of keys as B tiles for dQ. The scale of dK, dQ waits for the end. */
#include "device/cpu/attention_tiles_amx.h"

#include <string.h>

#include "device/ref/attention.h"
#include "device/stream.h"

enum {
    QUERIES = 64,
    PARTS = 4, /* tiles of 16 among 64 queries or keys */
    STEPS = 2  /* steps of k among them */
};

/* Packed operands of a unit, in A and B tiles. Keys of a block: rows (PARTS, steps of D), turned (D / 16, STEPS).
 * Queries of a tile, for q and dout: columns (PARTS, steps of D), pairs (STEPS, D / 16); dq as C tiles (D / 16, PARTS).
 */
typedef struct unit_layout {
    uint16_t *k_rows, *k_turned, *v_rows; /* of the unit, 64 ld elements a block */
} unit_layout;

typedef struct query_tile {
    uint16_t *q_columns, *q_pairs, *dout_columns, *dout_pairs; /* 64 ld elements each */
    float *dq;
    float *lse, *delta; /* (64); lse in units of log 2 */
} query_tile;

static size_t query_tile_bytes(const tess_attention *a)
{
    return QUERIES * (size_t)padded_head(a) * (4 * sizeof(uint16_t) + sizeof(float)) + 2 * QUERIES * sizeof(float);
}

static size_t unit_bytes(const tess_attention *a, int64_t length)
{
    const size_t n_blocks = (size_t)attention_div_up(length, ATTENTION_KEYS),
                 n_rep = (size_t)(a->n_heads / a->n_kv_heads);
    return n_blocks * (3 * ATTENTION_KEYS * (size_t)padded_head(a) * sizeof(uint16_t) + n_rep * query_tile_bytes(a));
}

static unit_layout unit_layout_of(const attention_unit *u, int64_t block)
{
    const int64_t size = ATTENTION_KEYS * padded_head(u->a);
    unit_layout l;
    l.k_rows = (uint16_t *)u->memory + 3 * size * block;
    l.k_turned = l.k_rows + size;
    l.v_rows = l.k_turned + size;
    return l;
}

static query_tile query_tile_of(const attention_unit *u, int64_t rep, int64_t tile)
{
    const int64_t size = QUERIES * padded_head(u->a);
    char *at =
        (char *)unit_layout_of(u, u->n_blocks).k_rows + (size_t)(rep * u->n_tiles + tile) * query_tile_bytes(u->a);
    query_tile q;
    q.q_columns = (uint16_t *)at;
    q.q_pairs = q.q_columns + size;
    q.dout_columns = q.q_pairs + size;
    q.dout_pairs = q.dout_columns + size;
    q.dq = (float *)(q.dout_pairs + size);
    q.lse = q.dq + size;
    q.delta = q.lse + QUERIES;
    return q;
}

/* Up to 64 rows of one head. */
static void rows_of(const void *x, int64_t at, int64_t stride, const uint16_t *rows[QUERIES])
{
    for (int64_t i = 0; i < QUERIES; i++)
        rows[i] = (const uint16_t *)x + at + i * stride;
}

static void pack_keys(const attention_unit *u, int64_t block)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, ld = padded_head(a), base = block * ATTENTION_KEYS, left = u->seq->k_len - base;
    const unit_layout l = unit_layout_of(u, block);
    const uint16_t *k[QUERIES], *v[QUERIES];
    rows_of(u->seq->k, base * a->k_stride + u->kv_head * D, a->k_stride, k);
    rows_of(u->seq->v, base * a->v_stride + u->kv_head * D, a->v_stride, v);
    for (int64_t j = 0; j < ATTENTION_KEYS; j += TILE_ROWS) {
        pack_rows(k + j, left - j, D, l.k_rows + j * ld);
        pack_rows(v + j, left - j, D, l.v_rows + j * ld);
    }
    for (int64_t j = 0; j < STEPS; j++)
        pack_pairs(k + j * TILE_K, left - j * TILE_K, D, true, l.k_turned + j * TILE_BF16, STEPS * TILE_BF16);
}

/* Sum of x[d] y[d], element d in sum d % 16, then in halves. */
static float dot(const uint16_t *x, const uint16_t *y, int64_t D)
{
    __m512 sum = _mm512_setzero_ps();
    for (int64_t d = 0; d < D; d += 16) {
        const int64_t n = attention_min(16, D - d);
        sum = _mm512_fmadd_ps(v_load_bf16(x + d, n), v_load_bf16(y + d, n), sum);
    }
    return v_sum(sum);
}

static void pack_queries(const attention_unit *u, int64_t rep, int64_t tile, void *memory)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, ld = padded_head(a), head = u->kv_head * u->n_rep + rep;
    const int64_t begin = u->seq->q_begin + tile * QUERIES, n = attention_min(QUERIES, u->seq->q_len - tile * QUERIES);
    const query_tile t = query_tile_of(u, rep, tile);
    const uint16_t *q[QUERIES], *dout[QUERIES];
    (void)memory;
    rows_of(a->q, begin * a->q_stride + head * D, a->q_stride, q);
    rows_of(u->g->dout, begin * u->g->dout_stride + head * D, u->g->dout_stride, dout);
    for (int64_t i = 0; i < QUERIES; i += TILE_ROWS) {
        pack_rows_turned(q + i, n - i, D, t.q_columns + i * ld);
        pack_rows_turned(dout + i, n - i, D, t.dout_columns + i * ld);
    }
    for (int64_t i = 0; i < STEPS; i++) {
        pack_pairs(q + i * TILE_K, n - i * TILE_K, D, false, t.q_pairs + i * TILE_K * ld, TILE_BF16);
        pack_pairs(dout + i * TILE_K, n - i * TILE_K, D, false, t.dout_pairs + i * TILE_K * ld, TILE_BF16);
    }
    memset(t.dq, 0, sizeof(float) * (size_t)(QUERIES * ld));
    for (int64_t i = 0; i < QUERIES; i++) {
        const int64_t token = begin + i;
        t.lse[i] = i < n ? a->lse[token * a->n_heads + head] * 0x1.715476p+0f : 0;
        t.delta[i] = i < n ? dot(dout[i], (const uint16_t *)a->out + token * a->out_stride + head * D, D) : 0;
    }
}

typedef struct backward_memory {
    float s[PARTS * PARTS * TILE_FLOATS], dp[PARTS * PARTS * TILE_FLOATS]; /* (keys, queries) in C tiles */
    uint16_t p[PARTS * STEPS * TILE_BF16], ds[PARTS * STEPS * TILE_BF16];  /* A tiles (keys, steps of queries) */
    uint16_t ds_pairs[STEPS * PARTS * TILE_BF16];                          /* B tiles (steps of keys, queries) */
    float gradients[];                                                     /* dk, dv: C tiles (PARTS, D / 16) */
} backward_memory;

/* What is visible in a step's quadrants of 32 keys by 32 queries. */
typedef enum quadrant { QUADRANT_NONE, QUADRANT_SOME, QUADRANT_ALL } quadrant;

static quadrant quadrant_of(const attention_unit *u, int64_t query, int64_t key)
{
    const int64_t last_query = attention_min(query + TILE_K, u->seq->q_len) - 1, last_key = key + TILE_K - 1;
    if (query > last_query || key > last_query || last_key < attention_first_key(u->a, query))
        return QUADRANT_NONE;
    return last_key <= query && key >= attention_first_key(u->a, last_query) ? QUADRANT_ALL : QUADRANT_SOME;
}

/* c (2 x 2 tiles of a quadrant) = rows (32 keys) by columns (32 queries), summed over D. */
static void quadrant_product(const uint16_t *rows, const uint16_t *columns, int64_t ld, float *c)
{
    const int64_t part = ld * TILE_ROWS;
    sums_zero();
    for (int64_t d = 0; d < part; d += TILE_BF16)
        sums_add(rows + d, rows + part + d, 64, columns + d, columns + part + d);
    sums_store(c, c + TILE_FLOATS, c + PARTS * TILE_FLOATS, c + (PARTS + 1) * TILE_FLOATS);
}

static void zero_quadrant(int kq, int qq, backward_memory *m)
{
    for (int part = 2 * kq; part < 2 * kq + 2; part++) {
        memset(m->p + (part * STEPS + qq) * TILE_BF16, 0, sizeof(uint16_t) * TILE_BF16);
        memset(m->ds + (part * STEPS + qq) * TILE_BF16, 0, sizeof(uint16_t) * TILE_BF16);
    }
    memset(m->ds_pairs + (kq * PARTS + 2 * qq) * TILE_BF16, 0, 2 * sizeof(uint16_t) * TILE_BF16);
}

/* The element-wise part of one quadrant: two keys by 32 queries at a time. */
static void softmax_quadrant(const attention_unit *u, const query_tile *t, int64_t tile, int64_t base, int kq, int qq,
                             bool masked, backward_memory *m)
{
    const __m512 scale = _mm512_set1_ps(u->a->scale * 0x1.715476p+0f);
    __m512 lse[2], delta[2];
    lane_keys keys[2];
    for (int g = 0; g < 2; g++) {
        int32_t first[16], last[16];
        for (int i = 0; i < 16; i++) {
            const int64_t query = tile * QUERIES + qq * TILE_K + g * 16 + i;
            first[i] = (int32_t)attention_first_key(u->a, query);
            last[i] = query < u->seq->q_len ? (int32_t)query : -1;
        }
        keys[g] = (lane_keys){_mm512_loadu_si512(first), _mm512_loadu_si512(last)};
        lse[g] = _mm512_load_ps(t->lse + qq * TILE_K + g * 16);
        delta[g] = _mm512_load_ps(t->delta + qq * TILE_K + g * 16);
    }
    for (int j = 0; j < TILE_K; j += 2) {
        const int part = 2 * kq + j / TILE_ROWS, row = j % TILE_ROWS;
        __m512 p[2][2], ds[2][2];
        for (int i = 0; i < 2; i++)
            for (int g = 0; g < 2; g++) {
                const int64_t at = (part * PARTS + 2 * qq + g) * TILE_FLOATS + (row + i) * 16;
                __m512 s = _mm512_load_ps(m->s + at);
                if (masked)
                    s = hide(s, &keys[g], base + kq * TILE_K + j + i);
                p[i][g] = exp2_bf16(_mm512_fmsub_ps(s, scale, lse[g]));
                ds[i][g] = _mm512_mul_ps(p[i][g], _mm512_sub_ps(_mm512_load_ps(m->dp + at), delta[g]));
            }
        const int64_t to = (part * STEPS + qq) * TILE_BF16 + row * TILE_K;
        for (int i = 0; i < 2; i++) {
            _mm512_store_si512((void *)(m->p + to + i * TILE_K), round_pair(p[i][0], p[i][1]));
            _mm512_store_si512((void *)(m->ds + to + i * TILE_K), round_pair(ds[i][0], ds[i][1]));
        }
        for (int g = 0; g < 2; g++)
            _mm512_store_si512((void *)(m->ds_pairs + (kq * PARTS + 2 * qq + g) * TILE_BF16 + j / 2 * TILE_K),
                               interleave_pair(round_pair(ds[0][g], ds[1][g])));
    }
}

/* P and dS of a step; seen[keys][queries] says which quadrants are not all zeros. */
static void probabilities(const attention_unit *u, const query_tile *t, int64_t tile, int64_t block, backward_memory *m,
                          bool seen[STEPS][STEPS])
{
    const int64_t ld = padded_head(u->a), base = block * ATTENTION_KEYS;
    const unit_layout l = unit_layout_of(u, block);
    for (int kq = 0; kq < STEPS; kq++)
        for (int qq = 0; qq < STEPS; qq++) {
            const quadrant q = quadrant_of(u, tile * QUERIES + qq * TILE_K, base + kq * TILE_K);
            seen[kq][qq] = q != QUADRANT_NONE;
            if (q == QUADRANT_NONE) {
                zero_quadrant(kq, qq, m);
                continue;
            }
            const int64_t c = (2 * kq * PARTS + 2 * qq) * TILE_FLOATS;
            tess_tiles_fence();
            quadrant_product(l.k_rows + kq * TILE_K * ld, t->q_columns + qq * TILE_K * ld, ld, m->s + c);
            quadrant_product(l.v_rows + kq * TILE_K * ld, t->dout_columns + qq * TILE_K * ld, ld, m->dp + c);
            softmax_quadrant(u, t, tile, base, kq, qq, q == QUADRANT_SOME, m);
        }
}

/* sum (PARTS, D / 16) += left (keys, queries) by pairs (queries, D). */
static void add_keys(const uint16_t *left, const uint16_t *pairs, int64_t ld, bool seen[STEPS][STEPS], float *sum)
{
    const int64_t columns = ld / TILE_ROWS, row = columns * TILE_FLOATS;
    tess_tiles_fence();
    for (int kq = 0; kq < STEPS; kq++)
        for (int64_t d = 0; d < columns; d += 2) {
            float *c = sum + 2 * kq * row + d * TILE_FLOATS;
            const uint16_t *a = left + 2 * kq * STEPS * TILE_BF16;
            sums_load(c, c + TILE_FLOATS, c + row, c + row + TILE_FLOATS);
            for (int qq = 0; qq < STEPS; qq++)
                if (seen[kq][qq]) {
                    const uint16_t *b = pairs + (qq * columns + d) * TILE_BF16;
                    sums_add(a + qq * TILE_BF16, a + (STEPS + qq) * TILE_BF16, 64, b, b + TILE_BF16);
                }
            sums_store(c, c + TILE_FLOATS, c + row, c + row + TILE_FLOATS);
        }
}

/* dq (D / 16, PARTS) += K^T dS^T. */
static void add_dq(const attention_unit *u, const query_tile *t, int64_t block, const backward_memory *m,
                   bool seen[STEPS][STEPS])
{
    const uint16_t *keys = unit_layout_of(u, block).k_turned;
    const int64_t rows = padded_head(u->a) / TILE_ROWS, row = PARTS * TILE_FLOATS;
    tess_tiles_fence();
    for (int64_t d = 0; d < rows; d += 2)
        for (int qq = 0; qq < STEPS; qq++) {
            float *c = t->dq + d * row + 2 * qq * TILE_FLOATS;
            const uint16_t *a = keys + d * STEPS * TILE_BF16;
            sums_load(c, c + TILE_FLOATS, c + row, c + row + TILE_FLOATS);
            for (int kq = 0; kq < STEPS; kq++)
                if (seen[kq][qq]) {
                    const uint16_t *b = m->ds_pairs + (kq * PARTS + 2 * qq) * TILE_BF16;
                    sums_add(a + kq * TILE_BF16, a + (STEPS + kq) * TILE_BF16, 64, b, b + TILE_BF16);
                }
            sums_store(c, c + TILE_FLOATS, c + row, c + row + TILE_FLOATS);
        }
}

/* Row j of C tiles (PARTS, D / 16), times factor, to bf16. */
static void write_key_row(const float *sum, int64_t j, int64_t ld, float factor, int64_t D, uint16_t *out)
{
    for (int64_t d = 0; d < D; d += 16) {
        const float *at = sum + (j / TILE_ROWS * (ld / TILE_ROWS) + d / TILE_ROWS) * TILE_FLOATS + j % TILE_ROWS * 16;
        const __m512 x = _mm512_add_ps(_mm512_mul_ps(_mm512_load_ps(at), _mm512_set1_ps(factor)), _mm512_setzero_ps());
        v_store_bf16(out + d, x, attention_min(16, D - d));
    }
}

static void key_block(const attention_unit *u, int64_t block, bool with_dq, void *memory)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, ld = padded_head(a), base = block * ATTENTION_KEYS;
    const int64_t n = attention_min(ATTENTION_KEYS, u->seq->k_len - base);
    int64_t last = u->seq->q_len - 1; /* query that sees a key of the block */
    if (a->window > 0)
        last = attention_min(last, base + n - 1 + a->window - 1);
    backward_memory *m = memory;
    float *dk = m->gradients, *dv = dk + ATTENTION_KEYS * ld;
    memset(dk, 0, sizeof(float) * (size_t)(2 * ATTENTION_KEYS * ld));
    for (int64_t rep = 0; rep < u->n_rep; rep++)
        for (int64_t tile = base / QUERIES; tile <= last / QUERIES; tile++) {
            const query_tile t = query_tile_of(u, rep, tile);
            bool seen[STEPS][STEPS];
            probabilities(u, &t, tile, block, m, seen);
            add_keys(m->p, t.dout_pairs, ld, seen, dv);
            add_keys(m->ds, t.q_pairs, ld, seen, dk);
            if (with_dq)
                add_dq(u, &t, block, m, seen);
        }
    for (int64_t j = 0; j < n; j++) {
        const int64_t row = u->seq->q_begin + base + j;
        write_key_row(dk, j, ld, a->scale, D, (uint16_t *)u->g->dk + row * u->g->dk_stride + u->kv_head * D);
        write_key_row(dv, j, ld, 1, D, (uint16_t *)u->g->dv + row * u->g->dv_stride + u->kv_head * D);
    }
}

static void query_tile_alone(const attention_unit *u, int64_t rep, int64_t tile, void *memory)
{
    const query_tile t = query_tile_of(u, rep, tile);
    const int64_t first = attention_first_key(u->a, tile * QUERIES) / ATTENTION_KEYS;
    const int64_t last = attention_min((tile + 1) * QUERIES, u->seq->q_len) - 1;
    for (int64_t block = first; block * ATTENTION_KEYS <= last; block++) {
        bool seen[STEPS][STEPS];
        probabilities(u, &t, tile, block, memory, seen);
        add_dq(u, &t, block, memory, seen);
    }
}

static void write_dq(const attention_unit *u, int64_t rep, int64_t tile, void *memory)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, n = attention_min(QUERIES, u->seq->q_len - tile * QUERIES);
    const query_tile t = query_tile_of(u, rep, tile);
    uint16_t *out =
        (uint16_t *)u->g->dq + (u->seq->q_begin + tile * QUERIES) * u->g->dq_stride + (u->kv_head * u->n_rep + rep) * D;
    const __m512 scale = _mm512_set1_ps(a->scale);
    (void)memory;
    for (int64_t r = 0; r < n; r += TILE_ROWS)
        for (int64_t d = 0; d < D; d += TILE_ROWS) {
            __m512i square[TILE_ROWS];
            for (int i = 0; i < TILE_ROWS; i++) {
                const float *at = t.dq + (d / TILE_ROWS * PARTS + r / TILE_ROWS) * TILE_FLOATS + i * 16;
                square[i] =
                    _mm512_castps_si512(_mm512_add_ps(_mm512_mul_ps(_mm512_load_ps(at), scale), _mm512_setzero_ps()));
            }
            transpose_16x16_avx512(square);
            for (int64_t i = 0; i < TILE_ROWS && r + i < n; i++)
                v_store_bf16(out + (r + i) * u->g->dq_stride + d, _mm512_castsi512_ps(square[i]),
                             attention_min(TILE_ROWS, D - d));
        }
}

static tess_status backward(tess_stream *stream, const tess_attention *a, const tess_attention_grad *g)
{
    if (a->dtype != TESS_BF16)
        return tess_attention_backward_avx512(stream, a, g);
    TESS_TRY(tess_attention_check(a, g));
    const attention_backward_steps steps = {
        .tile_rows = QUERIES,
        .worker_bytes = sizeof(backward_memory) + sizeof(float) * (size_t)(2 * ATTENTION_KEYS * padded_head(a)),
        .unit_bytes = unit_bytes,
        .enter = tess_tiles_enter,
        .leave = tess_tiles_leave,
        .pack_keys = pack_keys,
        .pack_queries = pack_queries,
        .key_block = key_block,
        .query_tile = query_tile_alone,
        .write_dq = write_dq};
    return tess_attention_run_backward(stream, a, g, &steps);
}

void tess_kernels_amx_attention(tess_kernels *k)
{
    k->attention_forward = tess_attention_forward_amx;
    k->attention_backward = backward;
}
