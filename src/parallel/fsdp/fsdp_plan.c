/* How much memory fsdp takes, from the same layout and rules by which it is taken: a plan has units, and neither ranks
 * nor weights. */
#include "parallel/fsdp/fsdp_impl.h"

tess_status tess_fsdp_plan_create(tess_mem *mem, const tess_fsdp_policy *policy, int n_shards, int n_replicas, int n_tp,
                                  int tp, tess_fsdp **out)
{
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_fsdp), "plan of memory", (void **)out));
    **out = (tess_fsdp){.mem = mem,
                        .policy = *policy,
                        .n_shards = n_shards,
                        .n_replicas = n_replicas,
                        .n_tp = n_tp,
                        .tp = tp,
                        .n_passes = 1,
                        .micro = -1};
    tess_fsdp_choose(*out);
    return TESS_OK;
}

tess_fsdp_bytes tess_fsdp_plan_bytes(const tess_fsdp *fsdp, int64_t n_micro_batches, int open_unit)
{
    int64_t world = fsdp->n_shards * fsdp->n_replicas, n_micro = (n_micro_batches + world - 1) / world;
    size_t n_sums = (size_t)tess_fsdp_accumulators_needed(fsdp, n_micro_batches);
    tess_fsdp_bytes bytes = {.grads = tess_fsdp_scratch_bytes(fsdp, open_unit),
                             .windows = tess_fsdp_windows_bytes(fsdp, (int)n_micro, open_unit),
                             .copies = tess_fsdp_slots_bytes(fsdp)};
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_unit *unit = fsdp->units[u];
        bytes.params += unit->master_elements * sizeof(float);
        bytes.grads += n_sums * unit->accumulator_elements * sizeof(float);
        bytes.grads += fsdp->replicated ? unit->gradient_elements * sizeof(float) : 0;
        bytes.optimizer += 2 * unit->gradient_elements * sizeof(float);
    }
    if (tess_fsdp_exchanges_any(fsdp, n_micro_batches))
        bytes.grads += tess_fsdp_exchange_bytes(fsdp);
    return bytes;
}
