/* Cuts a micro-batch into passes: parts that run one after the other, forward and backward.
 *
 * A pass takes whole sequences in their order, up to the tokens of ceil(rows / passes) rows. So passes may be
 * uneven, and the last ones empty. Their gradients add up to one leaf of the step's sum
 * (parallel/fsdp/fsdp_passes.c). So the bits depend on the number of passes, but not on ranks or strategy. */
#ifndef TESS_ENGINE_BATCH_PASSES_H
#define TESS_ENGINE_BATCH_PASSES_H

#include "base/mem/scoped.h"
#include "nn/model.h"

/* The passes of one micro-batch at a time. */
typedef struct tess_passes {
    int n;
    int64_t max_tokens;  /* largest number of tokens in a pass */
    int64_t *ends;       /* (n) where each pass of the newest micro-batch ends, as a number of its sequences */
    int32_t *cu_seqlens; /* (max_tokens + 1) sequence offsets of the newest pass */
} tess_passes;

/* TESS_E_NOMEM: memory ran out; free it then, too */
tess_status tess_passes_create(tess_scope *scope, int n, int64_t max_tokens, tess_passes *passes);

/* Assigns sequences to passes. Each pass takes the next sequences, as long as they have at most max_tokens tokens
 * together; the last passes may be empty. One pass takes everything. The result depends on the lengths only, so
 * every run cuts in the same way.
 * TESS_E_INVALID: the micro-batch does not fit into the passes */
tess_status tess_passes_cut(const tess_passes *passes, const tess_batch *batch);

/* Returns pass `p` of the batch that was cut as a batch. It borrows the batch's arrays, and is valid until the next
 * one. */
tess_batch tess_passes_part(const tess_passes *passes, const tess_batch *batch, int p);

#endif
