/* Converts micro-batches of the data loader to batches for the executor. */
#ifndef TESS_ENGINE_BATCHES_H
#define TESS_ENGINE_BATCHES_H

#include "data/loader/loader.h"
#include "nn/model.h"

/* The result borrows the arrays of `data`. */
static inline tess_batch tess_batch_of(const tess_micro_batch *data)
{
    return (tess_batch){.n_tokens = data->n_tokens,
                        .n_seqs = data->n_seqs,
                        .ids = data->ids,
                        .pos = data->pos,
                        .targets = data->targets,
                        .cu_seqlens = data->cu_seqlens};
}

#endif
