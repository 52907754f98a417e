/* Points: the places where ranks that share a layer meet. nn knows no comm: the owner of the team fills the table in.
 *
 * Tensor parallelism here adds up no partial sums, so its bits are those of one rank. Weights are cut as in
 * Megatron-LM: q, k, v, gate and up by rows of outputs (whole heads), o and down by inputs. Of a linear's three
 * products exactly one then contracts the cut index: the input gradient of the former, the forward of the latter. That
 * one is cut over another index (layers/split_product.c): the C outputs, for which ranks gather the operand, exchange
 * the weight and gather the result, or the rows of a shared stream. The two other products, attention and activations
 * need nobody. The tables of the embedding and the head (V, C) are cut by columns: layers/embedding.c and layers/head.c
 * say who meets there. */
#ifndef TESS_NN_POINTS_H
#define TESS_NN_POINTS_H

#include "tessera/types.h"

/* `size` elements in whole units, dealt out to ranks as tess_shard_rows says; unit 0: every rank has all. */
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

/* A matrix in the memory of the executor's device, of which each rank holds a box and gets another. The cuts are those
 * of rows and columns. */
typedef struct tess_exchange {
    const char *what; /* a word for messages, of at most nine letters */
    tess_cut held[2], wanted[2];
    size_t element;   /* bytes */
    const void *mine; /* the part that this rank holds, rows `ld` elements apart */
    void *into;       /* gets what this rank wants, rows `into_ld` elements apart; apart from `mine`, or with `mine` in
                       * its own place */
    int64_t ld, into_ld;
} tess_exchange;

/* exchange: collective over the ranks that share the model, all in one order. When it returns, `into` is complete and
 * `mine` may change. */
typedef struct tess_points {
    void *self;
    int rank, degree;
    tess_status (*exchange)(void *self, const tess_exchange *exchange);
} tess_points;

#endif
