/* The state of a tess_fsdp on disk. The disk is that of its tess_mem (base/mem/named.h), which `tessera train` attaches
 * (engine/offload.h). */
#ifndef TESS_PARALLEL_FSDP_FSDP_OFFLOAD_H
#define TESS_PARALLEL_FSDP_FSDP_OFFLOAD_H

#include "tessera/fsdp.h"

/* Sets the pools of this rank that are kept on disk, as bits 1 << tess_pool: TESS_POOL_PARAMS, GRADS and OPTIMIZER.
 * Call before the first unit. The bits of results do not depend on it. */
void tess_fsdp_set_offload(tess_fsdp *fsdp, unsigned pools);
/* Bytes of these pools that should fit in memory for hooks and updates: the unit in use, the next one and the last
 * one. Call after the last unit. */
size_t tess_fsdp_resident_bytes(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors);
/* Bytes of these pools that one hook, or the update of `n_tensors` tensors, uses at the same time. Memory must hold
 * these whatever its limit is. */
size_t tess_fsdp_least_resident(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors);

#endif
