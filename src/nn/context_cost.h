/* Counts what attention costs a rank that divides the tokens of a micro-batch with others (tess_context in
 * nn/points.h): the elements that it receives, and the products that it computes. Pure functions of the sizes.
 * layers/context_attention.c and layers/context_ring.c do what is counted here. */
#ifndef TESS_NN_CONTEXT_COST_H
#define TESS_NN_CONTEXT_COST_H

#include "nn/points.h"

/* Ways in which ranks attend. RING: leaves of keys, and in backward of queries, travel to the ranks that need them. */
typedef enum tess_context_way { TESS_WAY_GATHER, TESS_WAY_ULYSSES, TESS_WAY_RING, TESS_CONTEXT_WAYS } tess_context_way;

/* The attention of one layer over the tokens of a micro-batch. */
typedef struct tess_context_sizes {
    int64_t n_heads, n_kv_heads, head_size; /* H, G, D of all ranks that divide the tokens */
    int64_t n_tokens; /* T of all ranks, with those that fill up leaves; a multiple of the number of leaves */
    int64_t length;   /* tokens of each sequence; the last one may be shorter */
    int64_t n_filled; /* tokens at the end that fill up leaves; each is a sequence of its own */
    int64_t window;   /* number of keys that a query sees; 0: all of them */
} tess_context_sizes;

/* One direction of one layer, for one micro-batch. */
typedef struct tess_context_pass {
    int64_t elements;  /* received, of the activations' dtype */
    int64_t floats;    /* received, float32 */
    int64_t exchanges; /* number of exchanges, or hops of a ring, that carry them */
    double flops;      /* operations of attention's products */
} tess_context_pass;

typedef struct tess_context_cost {
    tess_context_pass forward, backward; /* recomputation is not counted */
} tess_context_cost;

/* Returns the cost for rank context->points.rank of context->points.degree ranks. context->by_heads is not read. */
tess_context_cost tess_context_cost_of(const tess_context_sizes *sizes, const tess_context *context,
                                       tess_context_way way);

/* Returns the number of pairs of a query and a key that it sees, over the queries of this rank's leaves; or, if
 * `by_keys`, over the keys of its leaves. Rounded to a double beyond 2^53. */
double tess_context_token_pairs(const tess_context_sizes *sizes, const tess_context *context, bool by_keys);

/* Returns the number of pairs of pieces for this rank, if all tokens are one sequence: piece i of the queries needs
 * pieces 0 .. i of the keys. */
int64_t tess_context_piece_pairs(const tess_context *context);

#endif
