/* Predicts how much memory fsdp takes, from the same layout and rules that the allocations use. A plan has units,
 * but neither ranks nor weights. */
#include "parallel/fsdp/fsdp_impl.h"

enum { LEAST_RESIDENT = 64 << 20 };

tess_status tess_fsdp_plan_create(tess_mem *mem, const tess_fsdp_policy *policy, int n_shards, int shard,
                                  int n_replicas, int n_tp, int tp, int ranks_a_host, tess_fsdp **out)
{
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_fsdp), "plan of memory", (void **)out));
    **out = (tess_fsdp){.mem = mem,
                        .policy = *policy,
                        .n_shards = n_shards,
                        .shard = shard,
                        .n_replicas = n_replicas,
                        .n_tp = n_tp,
                        .tp = tp,
                        .ranks_a_host = ranks_a_host,
                        .n_passes = 1,
                        .micro = -1};
    tess_fsdp_choose(*out);
    tess_fsdp_choose_groups(*out);
    return tess_fsdp_check_groups(*out);
}

static tess_status plan_optimizer(tess_fsdp *fsdp, const tess_optimizer_options *options, size_t *bytes, size_t *state)
{
    float some = 0; /* stands for the memory of a trainable span; a frozen one has NULL */
    tess_span *spans;
    int n = 0;
    TESS_TRY(tess_mem_alloc_array(fsdp->mem, TESS_POOL_MISC, (size_t)fsdp->n_params, sizeof(*spans), "spans",
                                  (void **)&spans));
    for (int u = 0; u < fsdp->n_units; u++)
        for (int i = 0; i < fsdp->units[u]->n_params; i++) {
            const tess_fsdp_param *p = &fsdp->units[u]->params[i];
            const tess_shard shard = {.name = p->name,
                                      .shape = p->shape,
                                      .trainable = p->trainable,
                                      .hidden = p->hidden,
                                      .box = p->held,
                                      .master = &some};
            spans[n++] = tess_fsdp_span(&shard);
        }
    tess_status status = tess_optimizer_bytes(fsdp->mem, spans, n, options, fsdp->n_shards * fsdp->n_tp, bytes, state);
    tess_mem_free(fsdp->mem, spans);
    return status;
}

static void to_disk(size_t *bytes, size_t *on_disk)
{
    *on_disk = *bytes;
    *bytes = 0;
}

tess_status tess_fsdp_plan_bytes(tess_fsdp *fsdp, const tess_optimizer_options *optimizer, int64_t n_micro_batches,
                                 int open_unit, tess_fsdp_bytes *bytes)
{
    size_t n_sums = (size_t)tess_fsdp_accumulators_needed(fsdp, n_micro_batches);
    size_t state;
    *bytes = (tess_fsdp_bytes){.windows = tess_fsdp_windows_bytes(fsdp, n_micro_batches, open_unit),
                               .copies = tess_fsdp_slots_bytes(fsdp),
                               .stashes = tess_fsdp_stashes_bytes(fsdp),
                               .n_sharing = fsdp->grouped ? fsdp->policy.reshard_after_forward : fsdp->n_shards};
    bytes->held = tess_fsdp_slots_all_bytes(fsdp) - bytes->copies;
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_unit *unit = fsdp->units[u];
        bytes->params += unit->master_elements * sizeof(float);
        bytes->grads += n_sums * unit->accumulator_elements * sizeof(float);
        bytes->grads += fsdp->replicated ? unit->gradient_elements * sizeof(float) : 0;
    }
    if (fsdp->params_on_disk)
        to_disk(&bytes->params, &bytes->on_disk[TESS_POOL_PARAMS]);
    bytes->params += tess_fsdp_codes_bytes(fsdp);
    if (fsdp->sums_on_disk)
        to_disk(&bytes->grads, &bytes->on_disk[TESS_POOL_GRADS]);
    bytes->grads += tess_fsdp_scratch_bytes(fsdp, open_unit);
    if (tess_fsdp_exchanges_any(fsdp, n_micro_batches))
        bytes->grads += tess_fsdp_exchange_bytes(fsdp);
    TESS_TRY(plan_optimizer(fsdp, optimizer, &bytes->optimizer, &state));
    if (fsdp->moments_on_disk) {
        bytes->on_disk[TESS_POOL_OPTIMIZER] = state;
        bytes->optimizer -= state;
    }
    return TESS_OK;
}

tess_fsdp_counts tess_fsdp_plan_counts(const tess_fsdp *fsdp)
{
    tess_fsdp_counts n = {0};
    for (int u = 0; u < fsdp->n_units; u++)
        for (int i = 0; i < fsdp->units[u]->n_params; i++) {
            const tess_fsdp_param *p = &fsdp->units[u]->params[i];
            *(p->trainable ? &n.primary : &n.frozen) += (double)tess_box_count(p->shape.n_dims, &p->primary);
            n.held += p->trainable ? (double)tess_box_count(p->shape.n_dims, &p->held) : 0;
        }
    return n;
}

tess_fsdp_unit_costs tess_fsdp_plan_units(const tess_fsdp *fsdp)
{
    const bool gathers = fsdp->n_shards > 1 && !fsdp->persistent; /* otherwise copies persist, and updates write them */
    tess_fsdp_unit_costs costs = {.n_units = fsdp->n_units};
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_unit *unit = fsdp->units[u];
        const int64_t bytes = (int64_t)unit->full_bytes;
        costs.largest_bytes = bytes > costs.largest_bytes ? bytes : costs.largest_bytes;
        costs.gathers += gathers ? fsdp->n_passes * (fsdp->keep ? 1 : 2) : 0;
        costs.reductions += !fsdp->alone && unit->n_trainable > 0;
    }
    return costs;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Returns the most bytes on disk that one hook of a unit uses, with `n_sums` sums of its gradient, and that one
 * tensor uses in an update. */
typedef struct resident_bytes {
    size_t unit, tensor;
} resident_bytes;

static resident_bytes largest_on_disk(const tess_fsdp *fsdp, int n_sums)
{
    enum { MOMENTS = 2 };
    const size_t tensor = (size_t)fsdp->params_on_disk + fsdp->sums_on_disk + MOMENTS * (size_t)fsdp->moments_on_disk;
    resident_bytes most = {0};
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_unit *unit = fsdp->units[u];
        size_t sums = (size_t)n_sums * unit->accumulator_elements + (fsdp->replicated ? unit->gradient_elements : 0);
        size_t elements = (fsdp->params_on_disk ? unit->master_elements : 0) + (fsdp->sums_on_disk ? sums : 0);
        most.unit = larger(most.unit, elements * sizeof(float));
        for (int i = 0; i < unit->n_params; i++) {
            size_t n = (size_t)(unit->params[i].held.size[0] * unit->params[i].row);
            most.tensor = larger(most.tensor, n * tensor * sizeof(float));
        }
    }
    return most;
}

size_t tess_fsdp_least_resident(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors)
{
    const resident_bytes most = largest_on_disk(fsdp, tess_fsdp_accumulators_needed(fsdp, n_micro_batches));
    return larger(most.unit, most.tensor * (size_t)n_tensors);
}

size_t tess_fsdp_resident_bytes(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors)
{
    enum { IN_USE_COMING_AND_LEAVING = 3, SUMS = 2 };
    const resident_bytes most = largest_on_disk(fsdp, SUMS);
    const size_t ahead = IN_USE_COMING_AND_LEAVING * larger(most.unit, most.tensor);
    return larger(ahead + tess_fsdp_least_resident(fsdp, n_micro_batches, n_tensors), (size_t)LEAST_RESIDENT);
}
