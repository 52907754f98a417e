/* The interface between the library's own engine and tess_fsdp, in addition to the public contract (tessera/fsdp.h). */
#ifndef TESS_PARALLEL_FSDP_FSDP_ENGINE_H
#define TESS_PARALLEL_FSDP_FSDP_ENGINE_H

#include "base/os/phase_clock.h"
#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/fsdp.h"

/* Conversions, additions, norms and updates run on `stream` (borrowed until destroy) instead of a stream of fsdp's
 * own, which has the runtime's threads. If the stream belongs to a device other than the host, shards, parameters
 * and gradients are in that device's memory and follow the order of `stream`. Call before materialize. The bits of
 * results do not depend on it. */
void tess_fsdp_set_stream(tess_fsdp *fsdp, tess_stream *stream);

/* Weights, sums and moments end with the process even if there is a store (base/mem/named.h), because the store
 * holds the state of another tess_fsdp. Call before materialize. */
void tess_fsdp_set_private(tess_fsdp *fsdp);

/* The bytes of this rank's own rows in the form in which they are gathered: fp8 codes and narrow parameters. They
 * are part of the parameters' memory. */
size_t tess_fsdp_codes_bytes(const tess_fsdp *fsdp);

/* Sets the pools of this rank that are kept on disk (base/mem/named.h), as bits 1 << tess_pool: TESS_POOL_PARAMS,
 * GRADS and OPTIMIZER. Call before the first unit. The bits of results do not depend on it. */
void tess_fsdp_set_offload(tess_fsdp *fsdp, unsigned pools);
/* Bytes of these pools that should fit in memory for hooks and updates: the unit in use, the next one and the last
 * one. Call after the last unit. */
size_t tess_fsdp_resident_bytes(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors);
/* Bytes of these pools that one hook, or the update of `n_tensors` tensors, uses at the same time. Memory must hold
 * these whatever its limit is. */
size_t tess_fsdp_least_resident(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors);

/* ---- Shards in the memory of a device, and the host's copies of them ---- tess_fsdp_shard and
 * tess_optimizer_states return the host's copies of master weights and moments without updating them. If the shards
 * are on the host, the functions of this section do nothing. */
/* Copies to the device what the caller has changed in these copies. tess_fsdp_params_changed does it, too. */
tess_status tess_fsdp_upload(tess_fsdp *fsdp);
/* Copies the finished gradients to the host: until the next step tess_shard.grad is that copy instead of device
 * memory. The second function copies back what the caller has changed there. */
tess_status tess_fsdp_see_gradients(tess_fsdp *fsdp);
tess_status tess_fsdp_upload_gradients(tess_fsdp *fsdp);
/* Begins to copy weights and moments, which are those of `step`, into the memory that outlives the process, next to
 * those of the step before, which stay valid; nothing where there is no such memory. kept: waits until they are there.
 * The next keep overwrites those of the step before: no rank may need them any more. */
tess_status tess_fsdp_keep(tess_fsdp *fsdp, int64_t step);
tess_status tess_fsdp_kept(tess_fsdp *fsdp);
/* Restores the weights and moments of `step` that a predecessor of this process has kept. */
tess_status tess_fsdp_take_up(tess_fsdp *fsdp, int64_t step);

/* Restores the finished gradients of a step of n_micro_batches over all ranks. A predecessor of this process had
 * summed them, that is, it had completed step_end. Weights and sums lie in named memory (base/mem/named.h), which
 * must outlive a process. Not collective. */
tess_status tess_fsdp_find_gradients(tess_fsdp *fsdp, int64_t n_micro_batches);

/* Gathers, reductions and waits switch the phase of `clock` (borrowed until destroy) and restore it afterwards. Call
 * before the first step. A call that fails leaves the clock in its phase, because phases are reported for successful
 * steps only. */
void tess_fsdp_set_clock(tess_fsdp *fsdp, tess_phase_clock *clock);

/* Allocates the sums of gradients for steps of up to this many micro-batches, counted over all ranks. */
tess_status tess_fsdp_reserve(tess_fsdp *fsdp, int64_t n_micro_batches);

/* Returns the number of units. *largest: bytes of the largest unit's gathered parameters. */
int tess_fsdp_units(const tess_fsdp *fsdp, int64_t *largest);

#endif
