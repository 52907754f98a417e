/* The memory of the AMX backward pass for a unit (one sequence and key head): packed operands of its keys and queries.
 * Declares how they are packed and written. The sums are computed in attention_backward_amx.c. */
#ifndef TESS_DEVICE_CPU_ATTENTION_UNIT_AMX_H
#define TESS_DEVICE_CPU_ATTENTION_UNIT_AMX_H

#include "device/cpu/attention_tiles_amx.h"

enum {
    /* Number of keys, and of queries, of a step: tiles of sums are loaded and stored once per 128 products */
    BLOCK = 128,
    PARTS = BLOCK / TILE_ROWS,
    STEPS = BLOCK / TILE_K
};

/* Packed operands of a block of keys, as A and B tiles: rows (PARTS, steps of D), transposed (D / 16, STEPS). A tile
 * of queries has for q and dout columns (PARTS, steps of D) and pairs (STEPS, D / 16), and dq as C tiles (D / 16,
 * PARTS). */
typedef struct unit_layout {
    uint16_t *k_rows, *k_turned, *v_rows; /* operands of the unit, BLOCK ld elements per block */
} unit_layout;

typedef struct query_tile_amx {
    uint16_t *q_columns, *q_pairs, *dout_columns, *dout_pairs; /* BLOCK ld elements each */
    float *dq;
    float *lse, *delta; /* (BLOCK) each; lse in units of log 2 */
} query_tile_amx;

static inline size_t query_tile_bytes(const tess_attention *a)
{
    return BLOCK * (size_t)padded_head(a) * (4 * sizeof(uint16_t) + sizeof(float)) + 2 * BLOCK * sizeof(float);
}

static inline size_t unit_bytes(const tess_attention *a, int64_t length)
{
    const size_t n_blocks = (size_t)divide_up(length, BLOCK), n_rep = (size_t)(a->n_heads / a->n_kv_heads);
    return n_blocks * (3 * BLOCK * (size_t)padded_head(a) * sizeof(uint16_t) + n_rep * query_tile_bytes(a));
}

static inline unit_layout unit_layout_of(const attention_unit *u, int64_t block)
{
    const int64_t size = BLOCK * padded_head(u->a);
    unit_layout l;
    l.k_rows = (uint16_t *)u->memory + 3 * size * block;
    l.k_turned = l.k_rows + size;
    l.v_rows = l.k_turned + size;
    return l;
}

static inline query_tile_amx query_tile_of(const attention_unit *u, int64_t rep, int64_t tile)
{
    const int64_t size = BLOCK * padded_head(u->a);
    char *at =
        (char *)unit_layout_of(u, u->n_blocks).k_rows + (size_t)(rep * u->n_tiles + tile) * query_tile_bytes(u->a);
    query_tile_amx q;
    q.q_columns = (uint16_t *)at;
    q.q_pairs = q.q_columns + size;
    q.dout_columns = q.q_pairs + size;
    q.dout_pairs = q.dout_columns + size;
    q.dq = (float *)(q.dout_pairs + size);
    q.lse = q.dq + size;
    q.delta = q.lse + BLOCK;
    return q;
}

/* The steps of the backward pass: see attention_backward_steps. */
void tess_attention_pack_keys_amx(const attention_unit *u, int64_t block);
void tess_attention_pack_queries_amx(const attention_unit *u, int64_t rep, int64_t tile, void *memory);
void tess_attention_write_dq_amx(const attention_unit *u, int64_t rep, int64_t tile, void *memory);

/* Takes the sums dk and dv of earlier calls for a block. */
void tess_attention_load_keys_amx(const attention_unit *u, int64_t block, float *dk, float *dv);

/* Writes dk and dv of a block, which are C tiles (PARTS, D / 16). */
void tess_attention_write_keys_amx(const attention_unit *u, int64_t block, const float *dk, const float *dv);

#endif
