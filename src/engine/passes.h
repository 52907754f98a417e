/* Passes: how a micro-batch is cut into parts that run one after the other, forward and backward.
 *
 * A pass takes whole sequences in their order, up to the tokens of ceil(rows / passes) rows. So passes may be uneven,
 * and the last ones empty. Their gradients add up to one leaf of the step's sum (parallel/fsdp/fsdp_passes.c), so the
 * bits depend on the number of passes, but not on ranks or strategy. */
#ifndef TESS_ENGINE_PASSES_H
#define TESS_ENGINE_PASSES_H

#include "nn/model.h"

/* Each pass takes the sequences that follow, as long as they have at most `max_tokens` tokens; the last passes may get
 * none. ends (n_passes): where each ends, in sequences. A function of the lengths alone, so every run cuts alike. One
 * pass takes everything. TESS_E_INVALID: the passes do not hold the micro-batch. */
tess_status tess_cut_passes(const tess_batch *batch, int n_passes, int64_t max_tokens, int64_t *ends);

/* Sequences [begin, end) of the batch, whose arrays it borrows. cu_seqlens (end - begin + 1): memory for its own. */
tess_batch tess_batch_part(const tess_batch *batch, int64_t begin, int64_t end, int32_t *cu_seqlens);

#endif
