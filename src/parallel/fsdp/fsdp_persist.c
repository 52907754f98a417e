/* The state that outlives the rank: master weights, the sums of gradients, and the number of the finished sum. With
 * these, a successor of the rank completes a step whose gradient was finished but not yet applied. */
#include "parallel/fsdp/fsdp_impl.h"

#include <stdatomic.h>

#include "base/mem/named.h"

static tess_status open_totals(tess_fsdp *fsdp, bool *found)
{
    *found = true;
    if (fsdp->persist_totals != NULL)
        return TESS_OK;
    return tess_mem_alloc_named(fsdp->place.mem, TESS_POOL_MISC, "totals", (size_t)fsdp->n_units * sizeof(int32_t),
                                (void **)&fsdp->persist_totals, found);
}

tess_status tess_fsdp_persist_note_totals(tess_fsdp *fsdp)
{
    bool found;
    if (!tess_mem_has_store(fsdp->place.mem) || fsdp->place.is_private || fsdp->place.device != NULL)
        return TESS_OK;
    TESS_TRY(open_totals(fsdp, &found));
    for (int u = 0; u < fsdp->n_units; u++)
        for (int k = 0; k < fsdp->units[u]->sums.counter.n_memory; k++)
            if (fsdp->units[u]->sums.memory[k] == fsdp->units[u]->total)
                fsdp->persist_totals[u] = k;
    atomic_signal_fence(memory_order_release);
    return TESS_OK;
}

tess_status tess_fsdp_find_gradients(tess_fsdp *fsdp, int64_t n_micro_batches)
{
    bool found = false;
    TESS_CHECK(tess_mem_has_store(fsdp->place.mem) && !fsdp->place.is_private && fsdp->state == TESS_FSDP_IDLE,
               TESS_E_INVALID, "fsdp: gradients are found between steps, and where they are kept");
    TESS_TRY(tess_fsdp_sums_grow(fsdp, n_micro_batches));
    TESS_TRY(open_totals(fsdp, &found));
    TESS_CHECK(found, TESS_E_INTERNAL, "fsdp: no gradients were kept");
    for (int u = 0; u < fsdp->n_units; u++) {
        tess_unit *unit = fsdp->units[u];
        int32_t k = fsdp->persist_totals[u];
        if (unit->n_trainable == 0)
            continue;
        TESS_CHECK(k >= 0 && k < unit->sums.counter.n_memory, TESS_E_INTERNAL, "unit '%s': its gradient was not kept",
                   unit->name);
        unit->total = unit->sums.memory[k];
    }
    fsdp->gradients_ready = true;
    return TESS_OK;
}
