/* The common part of the forward and backward pass of attention on tensor cores: the keys that a row of a tile sees.
 *
 * The rows of a tile belong to one key head. Row r of a sequence is query r / n_rep of its query head r % n_rep. So the
 * heads of a group share the keys that a tile loads, in training and in generation. */
#ifndef TESS_DEVICE_CUDA_KERNELS_TENSOR_ATTENTION_H
#define TESS_DEVICE_CUDA_KERNELS_TENSOR_ATTENTION_H

#include "device/cuda/kernels/cuda_attention.h"
#include "device/cuda/kernels/tensor_tiles.h"

#include "device/ref/vec_ref.h"
#include "device/vmath.h"

enum { TENSOR_HEAD = 128 /* most channels of a head, which is padded to 64 or 128 with zeros */ };

#define LOG2_E 0x1.715476p+0f

/* Returns whether tensor cores compute the heads; otherwise attention.cu does. The model alone decides, because a row's
 * bits must not depend on the addresses of its operands, nor on the number of calls. */
static inline bool tensor_attention_takes(const tess_attention *a)
{
    return a->dtype == TESS_BF16 && a->head_size <= TENSOR_HEAD && a->soft_cap == 0 && a->sinks == NULL;
}

/* `n` rows of one key head, beginning with row `first` of the sequence. */
typedef struct head_tile {
    const tess_attention_seq *s;
    int n_rep, first, n, kv;
} head_tile;

/* Returns tile `number` of the launch, with `rows` rows. */
static __device__ inline head_tile head_tile_at(const attention_call &c, int64_t number, int kv, int rows)
{
    const attention_seq *seq = seq_of_tile(c, number);
    head_tile t;
    t.s = &seq->s;
    t.n_rep = (int)(c.H / c.G);
    t.first = (int)(number - seq->first_tile) * rows;
    t.n = (int)cuda_least(t.s->q_len * t.n_rep - t.first, rows);
    t.kv = kv;
    return t;
}

/* Row i of the tile: its row in the batch, its head, and its position among the keys. */
typedef struct query_row {
    int64_t token;
    int head, position;
} query_row;

static __device__ inline query_row query_row_at(const head_tile &t, int i)
{
    int query = (t.first + i) / t.n_rep;
    query_row row;
    row.token = t.s->q_begin + query;
    row.head = t.kv * t.n_rep + (t.first + i) % t.n_rep;
    row.position = (int)(t.s->k_len - t.s->q_len) + query;
    return row;
}

/* Returns the address of row i of the tile in `x`, or NULL if the row does not exist. */
static __device__ inline const uint16_t *query_at(const head_tile &t, int i, const void *x, int64_t stride, int64_t D)
{
    if (i >= t.n)
        return NULL;
    query_row row = query_row_at(t, i);
    return (const uint16_t *)x + row.token * stride + row.head * D;
}

/* The keys that a row sees; `last` is included. */
typedef struct key_range {
    int first, last;
} key_range;

static __device__ inline key_range key_range_of(const attention_call &c, const head_tile &t, int i)
{
    key_range keys = {0, -1};
    if (i < t.n) {
        keys.last = query_row_at(t, i).position;
        keys.first = (int)first_key(c, keys.last);
    }
    return keys;
}

/* Returns the last row of the warp, whose first is row0, that exists; row0 if none does. */
template <int OWN> static __device__ __forceinline__ int warp_last(const head_tile &t, int row0)
{
    return row0 + OWN <= t.n ? row0 + OWN - 1 : row0 < t.n ? t.n - 1 : row0;
}

/* Loads this thread's elements of row `half` (0, or 1: 8 further) of a product from `width` floats. */
template <int D>
static __device__ __forceinline__ void load_sums(float (*sum)[4], int half, const float *from, int width)
{
    int column = (int)threadIdx.x % 4 * 2;
    TESS_CUDA_UNROLL
    for (int n = 0; n < D / 8; n++, column += 8) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < 2; i++)
            sum[n][2 * half + i] = column + i < width ? from[column + i] : 0;
    }
}

template <int D>
static __device__ __forceinline__ void store_sums(float *to, int width, const float (*sum)[4], int half)
{
    int column = (int)threadIdx.x % 4 * 2;
    TESS_CUDA_UNROLL
    for (int n = 0; n < D / 8; n++, column += 8) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < 2; i++)
            if (column + i < width)
                to[column + i] = sum[n][2 * half + i];
    }
}

#endif
