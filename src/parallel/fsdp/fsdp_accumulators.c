/* Memory of the sums that the counter of fsdp_reduce.c holds: as many for each unit as are alive at once. */
#include "parallel/fsdp/fsdp_impl.h"

void tess_fsdp_accumulators_free(tess_unit *unit)
{
    tess_mem *mem = unit->fsdp->mem;
    for (int k = 0; unit->accumulators != NULL && k < unit->fsdp->n_accumulators; k++)
        tess_fsdp_persist_free(unit, TESS_POOL_GRADS, unit->accumulator_elements, unit->accumulators[k]);
    tess_mem_free(mem, unit->accumulators);
    unit->accumulators = NULL;
}

static void free_all(tess_fsdp *fsdp)
{
    for (int u = 0; u < fsdp->n_units; u++)
        tess_fsdp_accumulators_free(fsdp->units[u]);
    fsdp->n_accumulators = 0;
}

static tess_status alloc_accumulators(tess_unit *unit, int n)
{
    bool found;
    TESS_TRY(tess_mem_alloc_array(unit->fsdp->mem, TESS_POOL_MISC, (size_t)n, sizeof(float *), "accumulators",
                                  (void **)&unit->accumulators));
    for (int k = 0; k < n; k++)
        TESS_TRY(tess_fsdp_persist_alloc(unit, TESS_POOL_GRADS, "sum", k, unit->accumulator_elements,
                                         &unit->accumulators[k], &found));
    unit->counter = (tess_leaf_counter){.memory = unit->accumulators, .n_memory = n};
    return TESS_OK;
}

int tess_fsdp_accumulators_needed(const tess_fsdp *fsdp, int64_t n_leaves)
{
    return tess_leaf_memory((n_leaves + fsdp->leaf - 1) / fsdp->leaf, fsdp->portion,
                            fsdp->n_replicas > 1 && fsdp->portion == 1);
}

tess_status tess_fsdp_accumulators_alloc(tess_fsdp *fsdp, int64_t n_leaves)
{
    int n = tess_fsdp_accumulators_needed(fsdp, n_leaves);
    tess_status status = TESS_OK;
    if (n == fsdp->n_accumulators)
        return TESS_OK;
    free_all(fsdp);
    fsdp->n_accumulators = n;
    for (int u = 0; u < fsdp->n_units && status == TESS_OK; u++)
        if (fsdp->units[u]->n_trainable > 0)
            status = alloc_accumulators(fsdp->units[u], n);
    if (status != TESS_OK)
        free_all(fsdp);
    return status;
}
