/* The common parts of all attention kernels: the arguments of a launch, the keys that a row sees, and the tiles of
 * sequences. */
#ifndef TESS_DEVICE_CUDA_KERNELS_CUDA_ATTENTION_H
#define TESS_DEVICE_CUDA_KERNELS_CUDA_ATTENTION_H

#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda_types.h"
#include "device/ref/ref_attention.h"

/* The largest number of sequences that the arguments of a launch have room for: these are at most 4096 bytes. */
enum { ATTENTION_SEQS = 40 };

typedef struct attention_seq {
    tess_attention_seq s;
    int64_t first_tile; /* number of the sequence's first tile in the launch */
} attention_seq;

/* The arguments of a launch. */
typedef struct attention_call {
    attention_seq seqs[ATTENTION_SEQS];
    int n_seqs;
    int64_t H, G, D, window;
    float scale, soft_cap, inverse_cap; /* the soft cap of scores that are not scaled yet; 0: none */
    const void *q, *dout, *sinks;       /* sinks (H), or NULL */
    void *out, *dq, *dk, *dv;
    float *dsinks; /* (H), or NULL */
    int64_t page_stride, q_stride, k_stride, v_stride, out_stride, dout_stride, dq_stride, dk_stride, dv_stride;
    float *lse;     /* (T, H) */
    float *state;   /* the sums of a call that is one of several (tess_attention), or NULL */
    float *delta;   /* (T, H) dout . out */
    float *scratch; /* work space of the kernels */
    /* The wanted rows of dq, its heads, and the wanted rows of dk and dv. */
    int64_t query_begin, query_end, head_begin, head_end, key_begin, key_end;
} attention_call;

static_assert(sizeof(attention_call) <= 4000, "CUDA before 12.1 passes 4096 bytes to a kernel");

/* ---- Functions of the GPU ---- */
static __device__ inline const attention_seq *seq_of_tile(const attention_call &c, int64_t tile)
{
    int i = 0;
    while (i + 1 < c.n_seqs && c.seqs[i + 1].first_tile <= tile)
        i++;
    return &c.seqs[i];
}

/* The row of query number `i` of the launch. Tiles must be single queries (attention_cut_tiles with a tile of 1). */
static __device__ inline int64_t row_of_query(const attention_call &c, int64_t i)
{
    const attention_seq *seq = seq_of_tile(c, i);
    return seq->s.q_begin + i - seq->first_tile;
}

/* The same as tess_attention_block. `begin`: the sequence's k_begin, or 0 if the call has all keys. */
static __device__ inline int64_t block_at(const attention_call &c, const tess_attention_seq &s, int64_t begin,
                                          int64_t base, int64_t stride)
{
    return s.pages == NULL ? (base - begin) * stride : s.pages[base / TESS_ATTENTION_BLOCK] * c.page_stride;
}

static __device__ inline int64_t first_key(const attention_call &c, int64_t position)
{
    return c.window > 0 && position + 1 > c.window ? position + 1 - c.window : 0;
}

/* Returns one more than the position of the last query that sees a key. */
static __device__ inline int64_t last_query(const attention_call &c, const tess_attention_seq &s, int64_t key)
{
    return c.window > 0 ? cuda_least(key + c.window, s.k_len) : s.k_len;
}

/* The end of the keys that the call has of a sequence. In kernels that are compiled for parts, `parts` is a constant.
 */
static __device__ inline int64_t key_end_of(bool parts, const tess_attention_seq &s)
{
    return parts ? s.k_end : s.k_len;
}

/* Returns the first of these keys, in whole blocks of `block`, that a query at `position` may see. */
static __device__ inline int64_t first_block(const attention_call &c, const tess_attention_seq &s, int64_t position,
                                             int64_t block)
{
    const int64_t first = first_key(c, position);
    return first > s.k_begin ? first / block * block : s.k_begin;
}

/* Returns the first position of queries, in whole blocks of `block`, that may see a key. */
static __device__ inline int64_t first_query_block(const tess_attention_seq &s, int64_t key, int64_t block)
{
    const int64_t first = s.k_len - s.q_len;
    return key > first ? key / block * block : first;
}

/* The row of dk, dv and their state that belongs to the first key of a sequence. */
static __device__ inline int64_t key_row_of(const attention_call &c, const tess_attention_seq &s)
{
    return c.state != NULL ? s.k_row : s.q_begin;
}

/* Whether sums of a sequence come from an earlier call, and whether they go on in a later one. */
static __device__ inline bool has_earlier_sums(const attention_call &c, const tess_attention_seq &s)
{
    return c.state != NULL && !s.first;
}

static __device__ inline bool keeps_sums(const attention_call &c, const tess_attention_seq &s)
{
    return c.state != NULL && !s.last;
}

/* Whether [begin, begin + n) and [wanted, wanted_end) have rows in common. */
static __device__ inline bool ranges_meet(int64_t begin, int64_t n, int64_t wanted, int64_t wanted_end)
{
    return begin < wanted_end && wanted < begin + n;
}

/* ---- Functions of the host ---- */
static inline attention_call attention_call_of(const tess_attention *a)
{
    attention_call c = {};
    c.H = a->n_heads;
    c.G = a->n_kv_heads;
    c.D = a->head_size;
    c.window = a->window;
    c.scale = a->scale;
    c.soft_cap = tess_score_cap_of(a).cap;
    c.inverse_cap = tess_score_cap_of(a).inverse;
    c.sinks = a->sinks;
    c.q = a->q;
    c.out = a->out;
    c.page_stride = a->page_stride;
    c.q_stride = a->q_stride;
    c.k_stride = a->k_stride;
    c.v_stride = a->v_stride;
    c.out_stride = a->out_stride;
    c.lse = a->lse;
    c.state = a->state;
    c.query_end = c.head_end = c.key_end = INT64_MAX;
    return c;
}

static inline attention_call attention_grad_call_of(const tess_attention_grad *g)
{
    attention_call c = attention_call_of(&g->forward);
    c.dout = g->dout;
    c.dq = g->dq;
    c.dk = g->dk;
    c.dv = g->dv;
    c.dsinks = g->dsinks;
    c.dout_stride = g->dout_stride;
    c.dq_stride = g->dq_stride;
    c.dk_stride = g->dk_stride;
    c.dv_stride = g->dv_stride;
    c.delta = g->delta;
    if (!g->in_part)
        return c;
    c.query_begin = g->query_begin;
    c.query_end = g->query_end;
    c.head_begin = g->head_begin;
    c.head_end = g->head_end;
    c.key_begin = g->key_begin;
    c.key_end = g->key_end;
    return c;
}

/* Takes the next sequences, from `first` on, into a launch. */
static inline void attention_take_seqs(attention_call *c, const tess_attention *a, int64_t first)
{
    c->n_seqs = (int)cuda_least(a->n_seqs - first, ATTENTION_SEQS);
    for (int i = 0; i < c->n_seqs; i++)
        c->seqs[i].s = a->seqs[first + i];
}

/* Sets the first tile of each sequence, with tiles of `tile` rows and `rows` rows for each query. Returns the number of
 * tiles. */
static inline int64_t attention_cut_tiles(attention_call *c, int64_t rows, int64_t tile)
{
    int64_t tiles = 0;
    for (int i = 0; i < c->n_seqs; i++) {
        c->seqs[i].first_tile = tiles;
        tiles += (c->seqs[i].s.q_len * rows + tile - 1) / tile;
    }
    return tiles;
}

/* The same for tiles of keys. */
static inline int64_t attention_cut_key_tiles(attention_call *c, int64_t tile)
{
    int64_t tiles = 0;
    for (int i = 0; i < c->n_seqs; i++) {
        const tess_attention_seq *s = &c->seqs[i].s;
        c->seqs[i].first_tile = tiles;
        tiles += ((c->state != NULL ? s->k_end - s->k_begin : s->k_len) + tile - 1) / tile;
    }
    return tiles;
}

static inline int64_t attention_pages_of(const tess_attention_seq *s)
{
    return s->pages != NULL ? (s->k_len + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK : 0;
}

/* Copies the page tables of the launch's sequences to the device, in one piece. */
static inline tess_status attention_upload_pages(tess_stream *s, attention_call *c, int64_t n_pages, int32_t *to)
{
    int32_t *const tables = (int32_t *)malloc((size_t)n_pages * sizeof(int32_t));
    int64_t done = 0;
    TESS_CHECK(tables != NULL, TESS_E_NOMEM, "attention: no memory for tables of %lld pages", (long long)n_pages);
    for (int i = 0; i < c->n_seqs; i++) {
        tess_attention_seq *seq = &c->seqs[i].s;
        const int64_t n = attention_pages_of(seq);
        if (n == 0)
            continue;
        memcpy(tables + done, seq->pages, (size_t)n * sizeof(int32_t));
        seq->pages = to + done;
        done += n;
    }
    const tess_status status = tess_cuda_upload(s, to, tables, (size_t)done * sizeof(int32_t));
    free(tables);
    return status;
}

/* Takes work space for the page tables of the launch's sequences, which it copies there, and for `floats` floats, which
 * c->scratch points to. */
static inline tess_status attention_take_scratch(tess_stream *s, attention_call *c, int64_t floats)
{
    int64_t n_pages = 0;
    for (int i = 0; i < c->n_seqs; i++)
        n_pages += attention_pages_of(&c->seqs[i].s);
    if (n_pages + floats == 0)
        return TESS_OK;
    n_pages = (n_pages + 3) / 4 * 4; /* keeps the floats aligned to 16 bytes */
    void *memory;
    TESS_TRY(tess_cuda_scratch(s, (size_t)n_pages * sizeof(int32_t) + (size_t)floats * sizeof(float), &memory));
    c->scratch = (float *)((int32_t *)memory + n_pages);
    return n_pages > 0 ? attention_upload_pages(s, c, n_pages, (int32_t *)memory) : TESS_OK;
}

/* Returns the number of rows of q, out and lse that the call covers. */
static inline int64_t attention_tokens(const tess_attention *a)
{
    int64_t T = 0;
    for (int64_t i = 0; i < a->n_seqs; i++)
        if (a->seqs[i].q_begin + a->seqs[i].q_len > T)
            T = a->seqs[i].q_begin + a->seqs[i].q_len;
    return T;
}

#endif
