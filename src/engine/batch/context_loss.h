/* The loss of a micro-batch whose tokens are in the order of leaves, on this rank or divided among ranks (tess_context
 * in nn/points.h). The loss itself counts rows in the order of the micro-batch.
 *
 * If a loss grades each row alone, each rank grades its own rows and passes their numbers in the micro-batch. A loss
 * that needs all rows grades them on every rank, once ranks have gathered their numbers: each computes the same. */
#ifndef TESS_ENGINE_BATCH_CONTEXT_LOSS_H
#define TESS_ENGINE_BATCH_CONTEXT_LOSS_H

#include "nn/points.h"
#include "nn/token_loss.h"
#include "tessera/comm.h"

typedef struct tess_context_loss {
    /* Set by the caller, with `room`; borrowed */
    const tess_context *context;
    tess_team *team;    /* the ranks that divide the tokens; NULL: one */
    int64_t max_tokens; /* the most tokens of all ranks, with those that fill up leaves */
    const tess_token_loss *inner;
    tess_token_loss outer;
    int64_t n_tokens; /* number of tokens of the micro-batch */
    float *room;      /* (5, max_tokens); NULL: the loss grades each row alone */
} tess_context_loss;

/* Sets loss->outer for a micro-batch of n_tokens. `inner` is borrowed. */
void tess_context_loss_open(const tess_token_loss *inner, int64_t n_tokens, tess_context_loss *loss);

#endif
