/* Points: the exchanges between ranks that share a layer. nn does not know comm: the owner of the ranks' team
 * supplies the callback.
 *
 * Tensor parallelism here adds up no partial sums, so its bits are those of one rank. (If the model defines a tree
 * of sums, ranks may exchange the partial sums of whole subtrees instead: layers/split_sum.c.)
 *
 * Weights are cut as in Megatron-LM: q, k, v, gate and up by rows of outputs (whole heads), o and down by inputs. A
 * linear layer has three products (forward, input gradient, weight gradient). Exactly one of them then sums over the
 * index that is cut: the input gradient of q, k, v, gate and up, or the forward of o and down. That product is split
 * over another index instead (layers/split_product.c). One choice is its C outputs: ranks then gather the operand,
 * exchange the weight and gather the result. The other choice is the rows of a shared stream. The two other
 * products, attention and activations need no communication.
 *
 * The tables of the embedding and the head (V, C) are cut by columns: layers/embedding.c and layers/head.c say what
 * ranks exchange there. */
#ifndef TESS_NN_POINTS_H
#define TESS_NN_POINTS_H

#include "tessera/types.h"

/* How `size` elements are distributed over ranks: in whole units, as tess_shard_rows says; unit 0: every rank has
 * all. */
typedef struct tess_cut {
    int64_t size, unit;
} tess_cut;

static inline void tess_cut_range(tess_cut cut, int degree, int rank, int64_t *begin, int64_t *size)
{
    *begin = 0;
    *size = cut.size;
    if (cut.unit == 0)
        return;
    tess_shard_rows(cut.size / cut.unit, degree, rank, begin, size);
    *begin *= cut.unit;
    *size *= cut.unit;
}

/* A matrix in memory of the executor's device. Each rank holds one box of it and receives another one. held and
 * wanted give the cuts of its rows and of its columns. */
typedef struct tess_exchange {
    const char *what; /* a word for messages, of at most nine letters */
    tess_cut held[2], wanted[2];
    size_t element;   /* bytes of one element */
    const void *mine; /* the box that this rank holds, rows `ld` elements apart */
    /* Receives the box that this rank wants, rows `into_ld` elements apart; either it does not overlap `mine`, or it
     * contains `mine` at its own position */
    void *into;
    int64_t ld, into_ld;
} tess_exchange;

/* exchange: a collective of all ranks that share the model, called in the same order on all of them. When it
 * returns, `into` is complete and the caller may change `mine`. */
typedef struct tess_points {
    void *self;
    int rank, degree;
    tess_status (*exchange)(void *self, const tess_exchange *exchange);
} tess_points;

/* A leaf on its way from one rank to another. */
typedef struct tess_hop {
    const char *what; /* a word for messages, of at most nine letters */
    int leaf;         /* number of the piece of tokens */
    int peer;         /* the rank that sends it, or that receives it */
    void *memory;     /* it lies in one of the ring's buffers */
    size_t bytes;
} tess_hop;

/* Leaves that travel between ranks while these compute. Each rank has two buffers, and each buffer has at most one leaf
 * that arrives and one that leaves. Ranks agree on what they send, leaf by leaf.
 * begin: begins to send, or to receive, a hop of buffer `turn`. Its memory then belongs to the hop
 * end: waits until that hop is complete. Returns at once if there is none */
typedef struct tess_ring_points {
    void *self;
    char *buffers[2]; /* memory of the executor's device */
    tess_status (*begin)(void *self, int turn, bool sends, const tess_hop *hop);
    tess_status (*end)(void *self, int turn, bool sends);
} tess_ring_points;

/* How ranks divide the tokens of a micro-batch, and how sums over its tokens are formed.
 *
 * The tokens are cut in n_leaves equal pieces of neighbours. Leaf i of a sum over tokens is piece i, or, if `folded`,
 * the i-th of the pieces 0, n - 1, 1, n - 2, ... Leaves are added as a binary tree, neighbours first. Each rank has
 * n_leaves / degree of them, in that order, which are a subtree. So the bits depend on n_leaves and folded alone.
 * Only attention mixes tokens: layers/context_attention.c. */
typedef struct tess_context {
    tess_points points; /* exchanges between these ranks; degree 1: one rank has all tokens, and exchanges nothing */
    int n_leaves;       /* a power of two; 1: a sum over tokens is one chain */
    bool folded;
    bool by_heads; /* attention divides its heads among these ranks; false: its queries */
    bool rings;    /* if it divides queries: leaves of keys circulate (context_ring.c); false: all are gathered */
    tess_ring_points ring; /* if they circulate */
    int64_t ring_part;     /* a call takes a multiple of this many keys of a sequence; 0: TESS_ATTENTION_PART */
    int32_t row_tokens;    /* training: tokens of a full row, the longest sequence; 0: unknown */
} tess_context;

static inline int tess_context_piece(const tess_context *context, int leaf)
{
    if (!context->folded)
        return leaf;
    return leaf % 2 == 0 ? leaf / 2 : context->n_leaves - 1 - leaf / 2;
}

/* Returns the leaf of a piece. */
static inline int tess_context_leaf(const tess_context *context, int piece)
{
    if (!context->folded)
        return piece;
    return piece < context->n_leaves / 2 ? 2 * piece : 2 * (context->n_leaves - 1 - piece) + 1;
}

/* Rows in memory of the executor's device, for each rank: out_rows[r] and in_rows[r] of them, from row out_at[r] and
 * in_at[r] on. */
typedef struct tess_row_exchange {
    const char *what; /* a word for messages, of at most nine letters */
    size_t row_bytes;
    const void *in; /* sends from here */
    void *out;      /* receives here; does not overlap `in` */
    const size_t *in_rows, *in_at, *out_rows, *out_at;
} tess_row_exchange;

/* Exchanges between ranks that divide a layer's experts. Both functions are collectives of them, called in the same
 * order on all of them.
 * counts: sends mine[r * n], n numbers in host memory, to rank r, and receives theirs[r * n] from it
 * rows: sends rows; when it returns, `out` is complete and the caller may change `in` */
typedef struct tess_expert_points {
    void *self;
    int rank, degree;
    tess_status (*counts)(void *self, const int32_t *mine, int32_t *theirs, int64_t n);
    tess_status (*rows)(void *self, const tess_row_exchange *exchange);
} tess_expert_points;

#endif
