/* Packs the operands of bf16 attention backward and writes its results: see attention_unit_amx.h. */
#include "device/cpu/attention_unit_amx.h"

#include <string.h>

/* Lists BLOCK rows of one head; rows from the n-th on are NULL. */
static void rows_of(const void *x, int64_t at, int64_t stride, int64_t n, const uint16_t *rows[BLOCK])
{
    for (int64_t i = 0; i < BLOCK; i++)
        rows[i] = i < n ? (const uint16_t *)x + at + i * stride : NULL;
}

void tess_attention_pack_keys_amx(const attention_unit *u, int64_t block)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, ld = padded_head(a), base = block * BLOCK, left = u->n_keys - base;
    const unit_layout l = unit_layout_of(u, block);
    const uint16_t *k[BLOCK], *v[BLOCK];
    rows_of(u->seq->k, base * a->k_stride + u->kv_head * D, a->k_stride, left, k);
    rows_of(u->seq->v, base * a->v_stride + u->kv_head * D, a->v_stride, left, v);
    for (int64_t j = 0; j < min64(left, BLOCK); j += TILE_K) {
        for (int64_t i = j; i < j + TILE_K; i += TILE_ROWS) {
            pack_rows(k + i, D, l.k_rows + i * ld);
            pack_rows(v + i, D, l.v_rows + i * ld);
        }
        if (u->g->wanted != TESS_ATTENTION_KEYS) /* dq alone reads them */
            pack_pairs(k + j, 1, D, true, l.k_turned + j / TILE_K * TILE_BF16, STEPS * TILE_BF16);
    }
}

/* Sum of x[d] y[d]: element d is added to partial sum d % 16, and the partial sums are added in halves. */
static float dot(const uint16_t *x, const uint16_t *y, int64_t D)
{
    __m512 sum = _mm512_setzero_ps();
    for (int64_t d = 0; d < D; d += 16) {
        const int64_t n = min64(16, D - d);
        sum = _mm512_fmadd_ps(v_load_bf16(x + d, n), v_load_bf16(y + d, n), sum);
    }
    return v_sum(sum);
}

/* Returns dout.out of a row, or takes it from an earlier call. */
static float delta_of(const attention_unit *u, const uint16_t *dout, int64_t token, int64_t head)
{
    const tess_attention *a = u->a;
    if (u->g->wanted == TESS_ATTENTION_KEYS)
        return u->g->delta[token * a->n_heads + head];
    return dot(dout, (const uint16_t *)a->out + token * a->out_stride + head * a->head_size, a->head_size);
}

/* Returns where tiles of dq (D / 16, PARTS) have element d of query r. */
static int64_t dq_at(int64_t r, int64_t d)
{
    return (d / TILE_ROWS * PARTS + r / TILE_ROWS) * TILE_FLOATS + d % TILE_ROWS * 16 + r % TILE_ROWS;
}

/* Takes the sums of earlier calls. Sixteen rows and columns at a time, because tiles have a query in each lane. */
static void load_dq(const attention_unit *u, int64_t rep, int64_t tile, float *dq)
{
    const int64_t D = u->a->head_size, row = u->seq->q_begin + tile * BLOCK, head = u->kv_head * u->n_rep + rep;
    const int64_t n = u->seq->first ? 0 : min64(BLOCK, u->seq->q_len - tile * BLOCK);
    memset(dq, 0, sizeof(float) * (size_t)(BLOCK * padded_head(u->a)));
    for (int64_t r = 0; r < n; r += TILE_ROWS)
        for (int64_t d = 0; d < D; d += TILE_ROWS) {
            __m512i square[TILE_ROWS];
            for (int64_t i = 0; i < TILE_ROWS; i++)
                square[i] = r + i < n ? _mm512_castps_si512(v_load(attention_query_sum(u, row + r + i, head) + d,
                                                                   min64(TILE_ROWS, D - d)))
                                      : _mm512_setzero_si512();
            transpose_16x16_avx512(square);
            for (int i = 0; i < TILE_ROWS; i++)
                _mm512_store_si512(dq + dq_at(r, d) + i * 16, square[i]);
        }
}

void tess_attention_pack_queries_amx(const attention_unit *u, int64_t rep, int64_t tile, TESS_UNUSED void *memory)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, ld = padded_head(a), head = u->kv_head * u->n_rep + rep;
    const int64_t begin = u->seq->q_begin + tile * BLOCK, n = min64(BLOCK, u->seq->q_len - tile * BLOCK);
    const query_tile_amx t = query_tile_of(u, rep, tile);
    const uint16_t *q[BLOCK], *dout[BLOCK];
    rows_of(a->q, begin * a->q_stride + head * D, a->q_stride, n, q);
    rows_of(u->g->dout, begin * u->g->dout_stride + head * D, u->g->dout_stride, n, dout);
    for (int64_t j = 0; j < n; j += TILE_K) {
        for (int64_t i = j; i < j + TILE_K; i += TILE_ROWS) {
            pack_rows_turned(q + i, D, t.q_columns + i * ld);
            pack_rows_turned(dout + i, D, t.dout_columns + i * ld);
        }
        if (u->g->wanted != TESS_ATTENTION_QUERIES) { /* dk and dv alone read them */
            pack_pairs(q + j, TILE_ROWS, D, false, t.q_pairs + j * ld, TILE_BF16);
            pack_pairs(dout + j, TILE_ROWS, D, false, t.dout_pairs + j * ld, TILE_BF16);
        }
    }
    for (int64_t i = 0; i < BLOCK; i++) {
        const int64_t token = begin + i;
        t.lse[i] = i < n ? a->lse[token * a->n_heads + head] * 0x1.715476p+0f : 0;
        t.delta[i] = i < n ? delta_of(u, dout[i], token, head) : 0;
        if (u->delta != NULL && i < n)
            u->delta[token * a->n_heads + head] = t.delta[i];
    }
    if (u->g->wanted == TESS_ATTENTION_QUERIES)
        load_dq(u, rep, tile, t.dq);
}

/* Writes row j of C tiles (PARTS, D / 16), times factor, as bf16. */
static void write_key_row(const float *sum, int64_t j, int64_t ld, float factor, int64_t D, uint16_t *out)
{
    for (int64_t d = 0; d < D; d += 16) {
        const float *at = sum + (j / TILE_ROWS * (ld / TILE_ROWS) + d / TILE_ROWS) * TILE_FLOATS + j % TILE_ROWS * 16;
        const __m512 x = _mm512_add_ps(_mm512_mul_ps(_mm512_load_ps(at), _mm512_set1_ps(factor)), _mm512_setzero_ps());
        v_store_bf16(out + d, x, min64(16, D - d));
    }
}

/* Returns where tiles of dk and dv (PARTS, D / 16) have element d of key j; d is a multiple of 16. */
static int64_t key_at(int64_t j, int64_t d, int64_t ld)
{
    return (j / TILE_ROWS * (ld / TILE_ROWS) + d / TILE_ROWS) * TILE_FLOATS + j % TILE_ROWS * 16;
}

void tess_attention_load_keys_amx(const attention_unit *u, int64_t block, float *dk, float *dv)
{
    const int64_t D = u->a->head_size, ld = padded_head(u->a), base = block * BLOCK;
    memset(dk, 0, sizeof(float) * (size_t)(BLOCK * ld));
    memset(dv, 0, sizeof(float) * (size_t)(BLOCK * ld));
    for (int64_t j = 0; !u->seq->first && j < min64(BLOCK, u->n_keys - base); j++) {
        const float *sum = attention_key_sum(u, base + j);
        for (int64_t d = 0; d < D; d += 16) {
            const int64_t n = min64(16, D - d);
            _mm512_store_ps(dk + key_at(j, d, ld), v_load(sum + d, n));
            _mm512_store_ps(dv + key_at(j, d, ld), v_load(sum + D + d, n));
        }
    }
}

void tess_attention_write_keys_amx(const attention_unit *u, int64_t block, const float *dk, const float *dv)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, ld = padded_head(a), base = block * BLOCK, n = min64(BLOCK, u->n_keys - base);
    if (attention_ends(a, u->seq)) {
        for (int64_t j = 0; j < n; j++) {
            const int64_t row = attention_key_row(u, base + j);
            write_key_row(dk, j, ld, a->scale, D, (uint16_t *)u->g->dk + row * u->g->dk_stride + u->kv_head * D);
            write_key_row(dv, j, ld, 1, D, (uint16_t *)u->g->dv + row * u->g->dv_stride + u->kv_head * D);
        }
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        float *sum = attention_key_sum(u, base + j);
        for (int64_t d = 0; d < D; d += 16) {
            v_store(sum + d, _mm512_load_ps(dk + key_at(j, d, ld)), min64(16, D - d));
            v_store(sum + D + d, _mm512_load_ps(dv + key_at(j, d, ld)), min64(16, D - d));
        }
    }
}

/* Loads sixteen queries and columns of tiles of dq, times factor, as a row for each query. */
static void load_square(const float *dq, int64_t r, int64_t d, __m512 factor, __m512i square[TILE_ROWS])
{
    for (int i = 0; i < TILE_ROWS; i++)
        square[i] = _mm512_castps_si512(_mm512_mul_ps(_mm512_load_ps(dq + dq_at(r, d) + i * 16), factor));
    transpose_16x16_avx512(square);
}

void tess_attention_write_dq_amx(const attention_unit *u, int64_t rep, int64_t tile, TESS_UNUSED void *memory)
{
    const tess_attention *a = u->a;
    const int64_t D = a->head_size, n = min64(BLOCK, u->seq->q_len - tile * BLOCK), head = u->kv_head * u->n_rep + rep;
    const int64_t row = u->seq->q_begin + tile * BLOCK;
    const bool ends = attention_ends(a, u->seq);
    const query_tile_amx t = query_tile_of(u, rep, tile);
    uint16_t *out = (uint16_t *)u->g->dq + row * u->g->dq_stride + head * D;
    const __m512 factor = _mm512_set1_ps(ends ? a->scale : 1);
    for (int64_t r = 0; r < n; r += TILE_ROWS)
        for (int64_t d = 0; d < D; d += TILE_ROWS) {
            const int64_t width = min64(TILE_ROWS, D - d);
            __m512i square[TILE_ROWS];
            load_square(t.dq, r, d, factor, square);
            for (int64_t i = 0; i < TILE_ROWS && r + i < n; i++) {
                const __m512 x = _mm512_castsi512_ps(square[i]);
                if (ends)
                    v_store_bf16(out + (r + i) * u->g->dq_stride + d, _mm512_add_ps(x, _mm512_setzero_ps()), width);
                else
                    v_store(attention_query_sum(u, row + r + i, head) + d, x, width);
            }
        }
}
