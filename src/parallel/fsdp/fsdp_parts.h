/* Data ranks that have parts of one micro-batch (fsdp_parts.c). */
#ifndef TESS_PARALLEL_FSDP_FSDP_PARTS_H
#define TESS_PARALLEL_FSDP_FSDP_PARTS_H

#include "tessera/fsdp.h"

/* Tells that the ranks of `team` divide the tokens of the same micro-batches (borrowed until destroy). They are
 * neighbours among the data ranks, and as many as a power of two. If passes are added, or gradients are rounded before
 * they travel, they sum their parts first. Default: no ranks do. Call it before materialize, on all ranks of the team.
 * TESS_E_INVALID: after materialize
 * TESS_E_INVALID: their number is no power of two, or they are no aligned block of the axis "dp_shard" in its order */
tess_status tess_fsdp_set_parts(tess_fsdp *fsdp, tess_team *team);

/* Checks the families once all are there. Called by materialize.
 * TESS_E_UNSUPPORTED: ranks add parts of gradients, and a family has other parameters on neighbouring data ranks */
tess_status tess_fsdp_parts_check(const tess_fsdp *fsdp);

#endif
