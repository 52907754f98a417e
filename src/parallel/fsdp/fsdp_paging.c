/* State on disk: what a unit's hooks ask of the pager (base/mem/pager.h).
 *
 * Master weights are fetched ahead in the order in which units were used in the pass before, and released when they are
 * converted, or, where they are the gathered copy, when no hook holds the unit. Sums of gradients are fetched as the
 * unit's backward begins, since the counter says already then which of them its leaves will meet, and released when the
 * leaves are added. Where the strategy or the state is in memory the same calls do nothing. */
#include "parallel/fsdp/fsdp_impl.h"

enum {
    UNITS_AHEAD = 2, /* of those that are gathered ahead: one on its way while another is waited for */
    LEAST_RESIDENT = 64 << 20
};

void tess_fsdp_set_offload(tess_fsdp *fsdp, unsigned pools)
{
    fsdp->params_on_disk = (pools >> TESS_POOL_PARAMS & 1) != 0;
    fsdp->sums_on_disk = (pools >> TESS_POOL_GRADS & 1) != 0;
    fsdp->moments_on_disk = (pools >> TESS_POOL_OPTIMIZER & 1) != 0;
    tess_fsdp_choose(fsdp);
}

size_t tess_fsdp_resident_bytes(const tess_fsdp *fsdp)
{
    enum {
        UNITS = 3,
        ARRAYS = 4
    }; /* a unit in use, one that comes and one that leaves; weights, sum and two moments */
    size_t unit = 0, span = 0;
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_unit *other = fsdp->units[u];
        size_t elements = other->master_elements + 2 * other->accumulator_elements;
        unit = elements > unit ? elements : unit;
        for (int i = 0; i < other->n_params; i++) {
            size_t n = (size_t)(other->params[i].held.size[0] * other->params[i].row);
            span = n > span ? n : span;
        }
    }
    size_t most = UNITS * (unit > ARRAYS * span ? unit : ARRAYS * span) * sizeof(float);
    return most > (size_t)LEAST_RESIDENT ? most : LEAST_RESIDENT;
}

/* ---- Master weights ---- */
void tess_fsdp_master_fetch(const tess_unit *unit, tess_page_use use)
{
    tess_pager_fetch(unit->fsdp->pager, unit->master, unit->master_elements * sizeof(float), use);
}

tess_status tess_fsdp_master_wait(const tess_unit *unit)
{
    return tess_pager_wait(unit->fsdp->pager, unit->master, unit->master_elements * sizeof(float));
}

void tess_fsdp_master_release(const tess_unit *unit)
{
    tess_pager_release(unit->fsdp->pager, unit->master, unit->master_elements * sizeof(float));
}

void tess_fsdp_masters_ahead(const tess_fsdp *fsdp)
{
    int first = fsdp->direct ? 1 : fsdp->policy.prefetch + 1;
    for (int ahead = first; ahead < first + UNITS_AHEAD && fsdp->params_on_disk; ahead++) {
        tess_fsdp_use use;
        const tess_unit *next = tess_fsdp_predict(fsdp, ahead, &use);
        if (next != NULL && (fsdp->direct || next->slot == NULL || !next->slot->valid))
            tess_fsdp_master_fetch(next, TESS_PAGE_READ);
    }
}

/* ---- Sums of gradients ---- */
static size_t sum_bytes(const tess_unit *unit)
{
    return unit->accumulator_elements * sizeof(float);
}

static const float *read_by(const tess_leaf_step *step)
{
    return step->n == 0 ? step->x : NULL;
}

/* A sum that begins has no old value to read. */
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
    for (int k = 0; k < unit->counter.n_memory && unit->fsdp->pager != NULL; k++)
        tess_pager_release(unit->fsdp->pager, unit->accumulators[k], sum_bytes(unit));
}

/* A leaf in place is written from the first pass on, any other with the last. */
static bool begins_sum(const tess_unit *unit)
{
    const tess_fsdp *fsdp = unit->fsdp;
    return tess_fsdp_in_place(unit) ? fsdp->pass == 0 : fsdp->pass == fsdp->n_passes - 1;
}

/* What the unit's next leaves will meet, by the counter as it is: the same call will be made on it then. */
static void sums_ahead(const tess_unit *unit)
{
    const tess_fsdp *fsdp = unit->fsdp;
    tess_leaf_counter counter = unit->counter;
    tess_leaf_step steps[TESS_LEAF_STEPS];
    int n = 0;
    if (unit->n_trainable == 0 || !begins_sum(unit))
        return;
    if (tess_fsdp_in_place(unit) || fsdp->n_replicas > 1)
        steps[n++] = (tess_leaf_step){.y = tess_leaf_unused(&counter)};
    else
        tess_leaf_push(&counter, tess_fsdp_leaves_of(fsdp, unit->micro), steps, &n);
    tess_fsdp_sums_fetch(unit, steps, n);
}

void tess_fsdp_sums_ahead(const tess_fsdp *fsdp)
{
    tess_fsdp_use use;
    const tess_unit *next = fsdp->sums_on_disk ? tess_fsdp_predict(fsdp, 1, &use) : NULL;
    if (next != NULL && use == TESS_FSDP_BACKWARD && next->reduce_work == NULL && next->replica_work == NULL &&
        !next->in_backward)
        sums_ahead(next);
}

void tess_fsdp_total_ahead(const tess_unit *unit)
{
    tess_leaf_counter counter = unit->counter;
    tess_leaf_step steps[TESS_LEAF_STEPS];
    int n = 0;
    if (!unit->fsdp->sums_on_disk || unit->reduce_work != NULL || unit->replica_work != NULL)
        return;
    tess_leaf_total(&counter, steps, &n);
    tess_fsdp_sums_fetch(unit, steps, n);
}

/* ---- The finished gradient ---- */
static const float *gradient_of(const tess_unit *unit, size_t *bytes)
{
    *bytes = (unit->fsdp->replicated ? unit->gradient_elements : unit->accumulator_elements) * sizeof(float);
    return unit->fsdp->replicated ? unit->gradient : unit->total;
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
