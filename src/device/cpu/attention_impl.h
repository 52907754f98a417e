/* Divides the work of the CPU's attention kernels: forward into tiles of query rows, backward into units of one
 * sequence and one key/value head. A thread takes the next piece when it is free. Which thread computes a piece never
 * changes its bits. */
#ifndef TESS_DEVICE_CPU_ATTENTION_IMPL_H
#define TESS_DEVICE_CPU_ATTENTION_IMPL_H

#include "device/bf16.h"
#include "device/cpu/sizes.h"
#include "device/kernels.h"

enum {
    ATTENTION_KEYS = TESS_ATTENTION_BLOCK, /* number of keys in a block */
    ATTENTION_ROWS = 32,                   /* number of query rows in a forward tile */
    ATTENTION_SINKS = 16                   /* number of heads whose sinks' gradients are computed together */
};

static inline size_t attention_align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Returns the first key that position `p` sees. */
static inline int64_t attention_first_key(const tess_attention *a, int64_t p)
{
    return a->window > 0 && p + 1 > a->window ? p + 1 - a->window : 0;
}

/* ---- Forward ---- */
/* A tile: rows of one sequence and key/value head. Row r of the sequence is query r / n_rep of query head kv_head *
 * n_rep + r % n_rep, so that in generation the query heads of a key head share its keys. */
typedef struct attention_tile {
    const tess_attention_seq *seq;
    int64_t seq_index, kv_head, row_begin, n_rows, n_rep;
    int64_t key_begin, key_end; /* range of keys that some row sees */
} attention_tile;

typedef struct attention_forward_job {
    const tess_attention *a;
    void *worker_memory; /* (workers, worker_bytes) memory of all workers */
    size_t worker_bytes;
    const void *context; /* used only by the kernel */
    /* Called once per worker, before and after its tiles. May be NULL. */
    void (*enter)(void);
    void (*leave)(void);
    void (*tile)(const struct attention_forward_job *job, const attention_tile *tile, void *memory);
} attention_forward_job;

/* Returns the token (row of q, out, lse) and the query head of row r. */
static inline void attention_row(const attention_tile *t, int64_t r, int64_t *token, int64_t *head)
{
    *token = t->seq->q_begin + (t->row_begin + r) / t->n_rep;
    *head = t->kv_head * t->n_rep + (t->row_begin + r) % t->n_rep;
}

/* Like attention_row, for n rows from row r on, with only one division. */
static inline void attention_rows(const attention_tile *t, int64_t r, int64_t n, int64_t *token, int64_t *head)
{
    const int64_t first = t->row_begin + r, kv_begin = t->kv_head * t->n_rep;
    int64_t query = first / t->n_rep, rep = first - query * t->n_rep;
    for (int64_t i = 0; i < n; i++) {
        token[i] = t->seq->q_begin + query;
        head[i] = kv_begin + rep;
        if (++rep == t->n_rep) {
            rep = 0;
            query++;
        }
    }
}

/* Sets the sinks of n rows from row r on; -inf if there are none. */
static inline void attention_sinks(const tess_attention *a, const attention_tile *t, int64_t r, int64_t n, float *sink)
{
    for (int64_t i = 0; i < n; i++)
        sink[i] = a->sinks == NULL
                      ? -__builtin_inff()
                      : tess_get_float(a->sinks, a->dtype,
                                       (size_t)(t->kv_head * t->n_rep + (t->row_begin + r + i) % t->n_rep));
}

/* The sums of a row that the call's state keeps: m, l and o (D). */
static inline float *attention_row_state(const tess_attention *a, int64_t token, int64_t head)
{
    return a->state + (token * a->n_heads + head) * (a->head_size + 2);
}

/* Whether the sums of a sequence's rows begin with this call, and whether they end with it. */
static inline bool attention_begins(const tess_attention *a, const tess_attention_seq *s)
{
    return a->state == NULL || s->first;
}

static inline bool attention_ends(const tess_attention *a, const tess_attention_seq *s)
{
    return a->state == NULL || s->last;
}

/* Returns the key position of row r. */
static inline int64_t attention_position(const attention_tile *t, int64_t r)
{
    return t->seq->k_len - t->seq->q_len + (t->row_begin + r) / t->n_rep;
}

/* ---- Prefetching ---- */
/* Prefetches n rows: a head is a short part of each row, and rows are far apart, so the hardware does not predict
 * them. */
static inline void attention_ask_for_rows(const tess_attention *a, const void *x, int64_t at, int64_t stride, int64_t n)
{
    const int64_t size = (int64_t)tess_dtype_size(a->dtype);
    for (int64_t j = 0; j < n; j++)
        for (int64_t byte = 0; byte < a->head_size * size; byte += 64)
            __builtin_prefetch((const char *)x + (at + j * stride) * size + byte);
}

/* Prefetches the keys that are multiplied after the block `base`: the next block, or the first block of the next head,
 * which the same thread usually takes. */
static inline void attention_ask_for_keys(const tess_attention *a, const attention_tile *t, int64_t base)
{
    int64_t head = t->kv_head, next = base + ATTENTION_KEYS;
    if (next >= t->key_end) {
        head++;
        next = t->key_begin / ATTENTION_KEYS * ATTENTION_KEYS;
    }
    if (head < a->n_kv_heads)
        attention_ask_for_rows(a, t->seq->k, tess_attention_block(a, t->seq, next, a->k_stride) + head * a->head_size,
                               a->k_stride, min64(ATTENTION_KEYS, t->key_end - next));
}

void tess_attention_run_forward(tess_stream *stream, const attention_forward_job *job);

/* ---- Backward ---- */
/* The state that all steps of one sequence and key/value head share. `memory` contains packed operands and
 * accumulators, in the kernel's layout. */
typedef struct attention_unit {
    const tess_attention_grad *g;
    const tess_attention *a; /* &g->forward */
    const tess_attention_seq *seq;
    int64_t kv_head, n_rep;
    int64_t n_keys;           /* keys of the call; rows of k and v are counted from the first of them */
    int64_t q_first, k_first; /* positions of the first query and the first key; 0 if the call has all keys */
    int64_t n_blocks;         /* number of key blocks */
    int64_t n_tiles;          /* number of query tiles per query head */
    char *memory;
    float *delta;    /* (T, H) receives dout.out of each row, or NULL: it is not wanted */
    bool keeps_sums; /* the call is one of several: sums begin, and are kept, in the state */
} attention_unit;

/* The sums that a unit keeps between calls: dq of a row of a query head (D), dk and dv of a key (2 D). */
static inline float *attention_query_sum(const attention_unit *u, int64_t row, int64_t head)
{
    return u->a->state + (row * u->a->n_heads + head) * u->a->head_size;
}

static inline float *attention_key_sum(const attention_unit *u, int64_t key)
{
    return u->a->state + ((u->seq->k_row + key) * u->a->n_kv_heads + u->kv_head) * 2 * u->a->head_size;
}

/* The row of dk and dv of a key of the call. */
static inline int64_t attention_key_row(const attention_unit *u, int64_t key)
{
    return (u->keeps_sums ? u->seq->k_row : u->seq->q_begin) + key;
}

/* The first key of the call that query `i` sees, and the number of its own key, which is the last one. Either may lie
 * before the call's keys, and the last one after them. */
static inline int64_t attention_first_seen(const attention_unit *u, int64_t i)
{
    return attention_first_key(u->a, u->q_first + i) - u->k_first;
}

static inline int64_t attention_last_seen(const attention_unit *u, int64_t i)
{
    return u->q_first + i - u->k_first;
}

/* The operands of the gradient of the sinks. */
typedef struct attention_sinks_job {
    const tess_attention_grad *g;
    float *delta;           /* (T, H) */
    int64_t head, head_end; /* the heads whose gradients are wanted: delta of the others may be undefined */
} attention_sinks_job;

/* The steps of a kernel. A unit runs pack_keys and pack_queries for all blocks and tiles, then either
 *   key_blocks(with_dq) for all blocks at once and write_dq for all tiles (one thread), or
 *   key_blocks(without) for all blocks and query_tile for all tiles, in any order (many threads).
 * dk and dv are summed over (query head, query) in ascending order, dq over keys in ascending order, so both give the
 * same bits. */
typedef struct attention_backward_steps {
    int64_t tile_rows, block_keys; /* number of queries in a tile, number of keys in a block */
    size_t worker_bytes;
    size_t (*unit_bytes)(const tess_attention *a, int64_t length);
    void (*enter)(void);
    void (*leave)(void);
    void (*pack_keys)(const attention_unit *u, int64_t block);
    void (*pack_queries)(const attention_unit *u, int64_t rep, int64_t tile, void *memory);
    void (*key_blocks)(const attention_unit *u, int64_t begin, int64_t end, bool with_dq, void *memory);
    void (*query_tile)(const attention_unit *u, int64_t rep, int64_t tile, void *memory);
    void (*write_dq)(const attention_unit *u, int64_t rep, int64_t tile, void *memory);
    /* Computes dsinks of groups [begin, end) of ATTENTION_SINKS wanted heads. context: attention_sinks_job */
    void (*sinks)(void *context, int64_t begin, int64_t end, int worker);
} attention_backward_steps;

tess_status tess_attention_run_backward(tess_stream *stream, const tess_attention_grad *g,
                                        const attention_backward_steps *steps);

/* The kernels of the AVX-512 table, which also serve float32 where the CPU has AMX. */
tess_status tess_attention_forward_avx512(tess_stream *stream, const tess_attention *a);
tess_status tess_attention_backward_avx512(tess_stream *stream, const tess_attention_grad *g);

/* The forward kernel of the AMX table. The table's entry is next to the backward pass. */
tess_status tess_attention_forward_amx(tess_stream *stream, const tess_attention *a);

#endif
