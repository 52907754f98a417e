/* Cuts a micro-batch into the tokens of the ranks that divide it, in the order of its leaves (tess_context in
 * nn/points.h).
 *
 * Tokens without targets follow its last one until there is a multiple of TESS_LEAF_UNIT for each leaf. Each of them is
 * a sequence of its own. They are part of the definition, so every number of ranks computes the same sums. */
#ifndef TESS_ENGINE_BATCH_CONTEXT_PIECES_H
#define TESS_ENGINE_BATCH_CONTEXT_PIECES_H

#include "base/mem/scoped.h"
#include "engine/batch/context_order.h"
#include "nn/model.h"
#include "tessera/comm.h"

/* This rank's part of a batch. */
typedef struct tess_piece_set {
    int32_t *numbers;
    int64_t n_tokens;               /* number of its tokens */
    struct tess_context_loss *loss; /* (engine/batch/context_loss.h) NULL until a batch has a loss of its own */
} tess_piece_set;

typedef struct tess_pieces {
    tess_context context; /* batches are not cut if there is one leaf */
    tess_team *team;      /* the ranks that divide the tokens (borrowed), or NULL if one rank has them all */
    tess_mem *mem;
    int64_t max_tokens;   /* the most tokens of this rank */
    tess_piece_set *sets; /* (n_sets) batches that are valid at once */
    size_t n_sets, room;
    /* (n_micros) the set of each of the rank's micro-batches in a pipeline. Borrowed. Without it, all have set 0. */
    const int *set_of;
    int64_t n_micros;
} tess_pieces;

/* Returns the set of this rank's micro-batch `micro`. An evaluation, -1, has set 0. SIZE_MAX: the pipeline's schedule
 * has no such micro-batch, and tess_pieces_take refuses it. */
static inline size_t tess_pieces_set(const tess_pieces *pieces, int64_t micro)
{
    if (pieces->set_of == NULL || micro < 0)
        return 0;
    return micro < pieces->n_micros ? (size_t)pieces->set_of[micro] : SIZE_MAX;
}

/* Allocates the memory of the first n_sets sets, which are otherwise allocated when they are first taken. */
tess_status tess_pieces_reserve(tess_pieces *pieces, size_t n_sets);
/* Replaces the batch by this rank's part. Its arrays, and its loss, are valid until a batch is taken with the same
 * number `set`. The sequences are still those of the whole batch. */
tess_status tess_pieces_take(tess_pieces *pieces, size_t set, tess_batch *batch);
/* Returns the place in the whole micro-batch of row `row` of the batch that was taken last with this number. */
int64_t tess_pieces_token(const tess_pieces *pieces, size_t set, int64_t row);
void tess_pieces_free(tess_pieces *pieces);

#endif
