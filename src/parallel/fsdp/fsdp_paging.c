/* State on disk: the requests of a unit's hooks to the pager (base/mem/pager.h).
 *
 * Master weights are prefetched in the order in which units were used in the previous pass (gather.c). They are
 * released when they are converted. If they are the gathered copy, they are released when no hook holds the unit.
 * Sums of gradients are fetched before the unit's backward begins, because the counter already knows which sums its
 * leaves will be added to (fsdp_reduce.c). They are released when the leaves are added. For state in memory these
 * calls do nothing. */
#include "parallel/fsdp/fsdp_impl.h"

/* ---- Master weights ---- */
void tess_fsdp_master_fetch(const tess_unit *unit, tess_page_use use)
{
    tess_pager_fetch(unit->fsdp->pager, unit->master, unit->layout.master_elements * sizeof(float), use);
}

tess_status tess_fsdp_master_wait(const tess_unit *unit)
{
    return tess_pager_wait(unit->fsdp->pager, unit->master, unit->layout.master_elements * sizeof(float));
}

void tess_fsdp_master_release(const tess_unit *unit)
{
    tess_pager_release(unit->fsdp->pager, unit->master, unit->layout.master_elements * sizeof(float));
}

/* ---- Sums of gradients ---- */
static size_t sum_bytes(const tess_unit *unit)
{
    return unit->sums.elements * sizeof(float);
}

static const float *read_by(const tess_leaf_step *step)
{
    return step->n == 0 ? step->x : NULL;
}

/* A new sum has no old value to read. */
void tess_fsdp_sums_fetch(const tess_unit *unit, const tess_leaf_step *steps, int n_steps)
{
    tess_pager *pager = unit->fsdp->pager;
    for (int i = 0; i < n_steps; i++) {
        if (read_by(&steps[i]) != NULL)
            tess_pager_fetch(pager, steps[i].x, sum_bytes(unit), TESS_PAGE_UPDATE);
        tess_pager_fetch(pager, steps[i].y, sum_bytes(unit),
                         steps[i].accumulate ? TESS_PAGE_UPDATE : TESS_PAGE_OVERWRITE);
    }
}

tess_status tess_fsdp_sums_here(const tess_unit *unit, const tess_leaf_step *steps, int n_steps)
{
    tess_pager *pager = unit->fsdp->pager;
    if (pager == NULL)
        return TESS_OK;
    tess_fsdp_sums_fetch(unit, steps, n_steps);
    for (int i = 0; i < n_steps; i++) {
        if (read_by(&steps[i]) != NULL)
            TESS_TRY(tess_pager_wait(pager, steps[i].x, sum_bytes(unit)));
        TESS_TRY(tess_pager_wait(pager, steps[i].y, sum_bytes(unit)));
    }
    return TESS_OK;
}

void tess_fsdp_sums_release(const tess_unit *unit)
{
    for (int k = 0; k < unit->sums.counter.n_memory && unit->fsdp->pager != NULL; k++)
        tess_pager_release(unit->fsdp->pager, unit->sums.memory[k], sum_bytes(unit));
}

/* ---- The finished gradient ---- */
static const float *gradient_of(const tess_unit *unit, size_t *bytes)
{
    *bytes = (tess_fsdp_gathers_gradient(unit->family) ? unit->layout.gradient_elements : unit->sums.elements) *
             sizeof(float);
    return tess_fsdp_gathers_gradient(unit->family) ? unit->gradient : unit->total;
}

void tess_fsdp_gradient_fetch(const tess_unit *unit, tess_page_use use)
{
    size_t bytes;
    const float *gradient = gradient_of(unit, &bytes);
    if (gradient != NULL)
        tess_pager_fetch(unit->fsdp->pager, gradient, bytes, use);
}

tess_status tess_fsdp_gradient_wait(const tess_unit *unit)
{
    size_t bytes;
    const float *gradient = gradient_of(unit, &bytes);
    return gradient != NULL ? tess_pager_wait(unit->fsdp->pager, gradient, bytes) : TESS_OK;
}

void tess_fsdp_gradient_release(const tess_unit *unit)
{
    size_t bytes;
    const float *gradient = gradient_of(unit, &bytes);
    if (gradient != NULL)
        tess_pager_release(unit->fsdp->pager, gradient, bytes);
}

/* ---- How much of it should be in memory ---- */
enum { LEAST_RESIDENT = 64 << 20 };

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The most bytes on disk that one hook of a unit uses, with the sums of its gradient (two if n_micro_batches is 0), and
 * that one tensor uses in an update. */
typedef struct resident_bytes {
    size_t unit, tensor;
} resident_bytes;

static resident_bytes largest_on_disk(const tess_fsdp *fsdp, int64_t n_micro_batches)
{
    enum { MOMENTS = 2, SUMS = 2 };
    const size_t tensor = (size_t)tess_fsdp_is_on_disk(fsdp, TESS_POOL_PARAMS) +
                          tess_fsdp_is_on_disk(fsdp, TESS_POOL_GRADS) +
                          MOMENTS * (size_t)tess_fsdp_is_on_disk(fsdp, TESS_POOL_OPTIMIZER);
    resident_bytes most = {0};
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_unit *unit = fsdp->units[u];
        const int n_sums = n_micro_batches > 0
                               ? tess_fsdp_sums_needed(&unit->family->teams, unit->family->facts.leaf, n_micro_batches)
                               : SUMS;
        size_t sums = (size_t)n_sums * unit->sums.elements +
                      (tess_fsdp_gathers_gradient(unit->family) ? unit->layout.gradient_elements : 0);
        size_t elements = (tess_fsdp_is_on_disk(fsdp, TESS_POOL_PARAMS) ? unit->layout.master_elements : 0) +
                          (tess_fsdp_is_on_disk(fsdp, TESS_POOL_GRADS) ? sums : 0);
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
    const resident_bytes most = largest_on_disk(fsdp, n_micro_batches);
    return larger(most.unit, most.tensor * (size_t)n_tensors);
}

size_t tess_fsdp_resident_bytes(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors)
{
    enum { IN_USE_COMING_AND_LEAVING = 3 };
    const resident_bytes most = largest_on_disk(fsdp, 0);
    const size_t ahead = IN_USE_COMING_AND_LEAVING * larger(most.unit, most.tensor);
    return larger(ahead + tess_fsdp_least_resident(fsdp, n_micro_batches, n_tensors), (size_t)LEAST_RESIDENT);
}
