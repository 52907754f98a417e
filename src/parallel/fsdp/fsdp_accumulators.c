/* Memory of the partial sums that the counter of fsdp_reduce.c holds. Each unit keeps the largest number of sums
 * that were ever in use at the same time. A step of fewer micro-batches leaves some of them unused, so that steps of
 * changing size allocate nothing. */
#include "base/mem/make_room.h"
#include "parallel/fsdp/fsdp_impl.h"

/* Returns the team of ranks that read a sum in place: the replicas, or all ranks that get the whole gradient. NULL:
 * no other rank reads it. */
static tess_team *reader_of_sums(const tess_fsdp_family *family)
{
    return family->teams.n_replicas > 1 ? family->teams.replicate_team
           : family->facts.replicated   ? family->teams.shard_team
                                        : NULL;
}

static tess_status add_accumulator(tess_unit *unit, int k)
{
    bool found;
    tess_team *reader = reader_of_sums(unit->family);
    float **sum = &unit->accumulators[k];
    TESS_TRY(tess_fsdp_persist_alloc(unit, TESS_POOL_GRADS, "sum", k, unit->accumulator_elements, sum, &found));
    tess_status status =
        reader != NULL ? tess_fsdp_show(unit->family, reader, *sum, unit->accumulator_elements, "sum of gradients")
                       : TESS_OK;
    if (status != TESS_OK)
        tess_fsdp_persist_free(unit, TESS_POOL_GRADS, unit->accumulator_elements, *sum);
    return status;
}

void tess_fsdp_accumulators_free(tess_unit *unit)
{
    tess_mem *mem = unit->fsdp->place.mem;
    tess_team *reader = reader_of_sums(unit->family);
    for (int k = 0; k < unit->counter.n_memory; k++) {
        if (reader != NULL)
            tess_fsdp_hide(unit->family, reader, unit->accumulators[k]);
        tess_fsdp_persist_free(unit, TESS_POOL_GRADS, unit->accumulator_elements, unit->accumulators[k]);
    }
    tess_mem_free(mem, unit->accumulators);
}

/* Allocates accumulators until the unit has `n`. After a failure it keeps those that it got. */
static tess_status grow(tess_unit *unit, int n)
{
    TESS_TRY(tess_mem_reserve(unit->fsdp->place.mem, TESS_POOL_MISC, (size_t)n, sizeof(float *), "accumulators",
                              &unit->accumulators_room, &unit->accumulators));
    unit->counter.memory = unit->accumulators;
    for (; unit->counter.n_memory < n; unit->counter.n_memory++)
        TESS_TRY(add_accumulator(unit, unit->counter.n_memory));
    return TESS_OK;
}

int tess_fsdp_accumulators_needed(const tess_fsdp_family *family, int64_t n_leaves)
{
    return tess_leaf_memory((n_leaves + family->facts.leaf - 1) / family->facts.leaf, family->facts.portion,
                            family->teams.n_replicas > 1 && family->facts.portion == 1);
}

tess_status tess_fsdp_accumulators_grow(tess_fsdp *fsdp, int64_t n_leaves)
{
    for (int u = 0; u < fsdp->n_units; u++)
        if (fsdp->units[u]->n_trainable > 0)
            TESS_TRY(grow(fsdp->units[u], tess_fsdp_accumulators_needed(fsdp->units[u]->family, n_leaves)));
    return TESS_OK;
}
