/* State at its home (device/home/home.h): what the hooks of a unit bring, wait for and let go, and the host's view.
 *
 * Master weights are brought in the order in which units were used in the previous pass (gather.c). They are let go
 * when they are converted. If they are the gathered copy, they are let go when no hook holds the unit. Sums of
 * gradients are brought before the unit's backward begins, because the counter already knows which sums its leaves will
 * be added to (fsdp_reduce.c). They are let go when the leaves are added.
 *
 * A sum is known by its address at home. `master`, and `gradient` or `total`, are the addresses for computations from
 * wait until release, and otherwise those at home. */
#include "parallel/fsdp/fsdp_impl.h"

/* Pools of state, as bits. */
enum { TESS_FSDP_STATE = 1 << TESS_POOL_PARAMS | 1 << TESS_POOL_GRADS | 1 << TESS_POOL_OPTIMIZER };

tess_status tess_fsdp_home_open(tess_fsdp *fsdp)
{
    return tess_home_create(&(tess_home_options){.mem = fsdp->place.mem,
                                                 .stream = fsdp->place.device != NULL ? fsdp->place.stream : NULL,
                                                 .away = fsdp->on_disk & TESS_FSDP_STATE,
                                                 .is_private = fsdp->place.is_private},
                            &fsdp->home);
}

static void fetch(const tess_fsdp *fsdp, const float *at, tess_page_use use)
{
    tess_home_block *block = tess_home_find(fsdp->home, at);
    if (block == NULL)
        return;
    block->part.use = use;
    if (tess_home_bring(fsdp->home, &block->span) != TESS_OK)
        tess_error_clear(); /* there is no memory for it yet; the wait reports what is wrong */
}

static tess_status wait_for(const tess_fsdp *fsdp, float **at, tess_page_use use)
{
    tess_home_block *block = tess_home_find(fsdp->home, *at);
    if (block == NULL)
        return TESS_OK;
    block->part.use = use;
    TESS_TRY(tess_home_wait(fsdp->home, &block->span));
    *at = block->part.here;
    return TESS_OK;
}

static void release(const tess_fsdp *fsdp, float **at)
{
    tess_home_block *block = tess_home_find(fsdp->home, *at);
    if (block == NULL)
        return;
    tess_home_let_go(fsdp->home, &block->span);
    *at = block->at;
}

/* ---- Master weights ---- */
void tess_fsdp_master_fetch(const tess_unit *unit, tess_page_use use)
{
    if (tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_PARAMS))
        fetch(unit->fsdp, unit->master, use);
}

tess_status tess_fsdp_master_wait(tess_unit *unit, tess_page_use use)
{
    return tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_PARAMS) ? wait_for(unit->fsdp, &unit->master, use) : TESS_OK;
}

void tess_fsdp_master_release(tess_unit *unit)
{
    if (tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_PARAMS))
        release(unit->fsdp, &unit->master);
}

/* ---- Sums of gradients ---- */
static const float *read_by(const tess_leaf_step *step)
{
    return step->n == 0 ? step->x : NULL;
}

/* A new sum has no old value to read. */
static tess_page_use use_of(const tess_leaf_step *step)
{
    return step->accumulate ? TESS_PAGE_UPDATE : TESS_PAGE_OVERWRITE;
}

void tess_fsdp_sums_fetch(const tess_unit *unit, const tess_leaf_step *steps, int n_steps)
{
    for (int i = 0; i < n_steps; i++) {
        fetch(unit->fsdp, read_by(&steps[i]), TESS_PAGE_UPDATE);
        fetch(unit->fsdp, steps[i].y, use_of(&steps[i]));
    }
}

tess_status tess_fsdp_sums_here(const tess_unit *unit, tess_leaf_step *steps, int n_steps)
{
    const tess_fsdp *fsdp = unit->fsdp;
    if (!tess_fsdp_is_on_disk(fsdp, TESS_POOL_GRADS))
        return TESS_OK;
    tess_fsdp_sums_fetch(unit, steps, n_steps);
    for (int i = 0; i < n_steps; i++) {
        float *x = (float *)(uintptr_t)read_by(&steps[i]);
        if (x != NULL) {
            TESS_TRY(wait_for(fsdp, &x, TESS_PAGE_UPDATE));
            steps[i].x = x;
        }
        TESS_TRY(wait_for(fsdp, &steps[i].y, use_of(&steps[i])));
    }
    return TESS_OK;
}

float *tess_fsdp_sum_at(const tess_unit *unit, float *sum)
{
    const tess_home_block *block =
        tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_GRADS) ? tess_home_find(unit->fsdp->home, sum) : NULL;
    return block != NULL ? block->part.here : sum;
}

void tess_fsdp_sums_release(const tess_unit *unit)
{
    for (int k = 0; k < unit->sums.counter.n_memory && tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_GRADS); k++)
        release(unit->fsdp, &(float *){unit->sums.memory[k]});
}

/* ---- The finished gradient ---- */
static float **gradient_of(tess_unit *unit)
{
    return tess_fsdp_gathers_gradient(unit->family) ? &unit->gradient : &unit->total;
}

void tess_fsdp_gradient_fetch(tess_unit *unit, tess_page_use use)
{
    if (tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_GRADS))
        fetch(unit->fsdp, *gradient_of(unit), use);
}

tess_status tess_fsdp_gradient_wait(tess_unit *unit, tess_page_use use)
{
    return tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_GRADS) ? wait_for(unit->fsdp, gradient_of(unit), use) : TESS_OK;
}

void tess_fsdp_gradient_release(tess_unit *unit)
{
    if (tess_fsdp_is_on_disk(unit->fsdp, TESS_POOL_GRADS))
        release(unit->fsdp, gradient_of(unit));
}

/* ---- The host's view ---- */
float *tess_fsdp_host_copy(const tess_fsdp *fsdp, const float *state)
{
    const tess_home_block *block = tess_home_find(fsdp->home, state);
    return block != NULL ? tess_home_copy_of(fsdp->home, block) : NULL;
}

tess_status tess_fsdp_upload(tess_fsdp *fsdp)
{
    return tess_home_upload(fsdp->home);
}

tess_status tess_fsdp_keep(tess_fsdp *fsdp, int64_t step)
{
    return tess_home_keep(fsdp->home, step);
}

tess_status tess_fsdp_kept(tess_fsdp *fsdp)
{
    return tess_home_kept(fsdp->home);
}

tess_status tess_fsdp_take_up(tess_fsdp *fsdp, int64_t step)
{
    TESS_CHECK(tess_home_keeps(fsdp->home), TESS_E_INVALID,
               "fsdp: weights and moments are taken up where they are kept, from shards on a device");
    tess_fsdp_slots_stale(fsdp);
    return tess_home_restore(fsdp->home, step);
}

/* Copies all finished gradients in one direction. */
static tess_status copy_gradients(tess_fsdp *fsdp, tess_status (*copy)(tess_home *, tess_home_block *))
{
    for (int u = 0; u < fsdp->n_units; u++) {
        tess_home_block *block = tess_home_find(fsdp->home, *gradient_of(fsdp->units[u]));
        if (block != NULL)
            TESS_TRY(copy(fsdp->home, block));
    }
    return tess_home_settle_all(fsdp->home);
}

tess_status tess_fsdp_see_gradients(tess_fsdp *fsdp)
{
    if (fsdp->place.device == NULL || !fsdp->gradients_ready || fsdp->gradients_seen)
        return TESS_OK;
    TESS_TRY(copy_gradients(fsdp, tess_home_show));
    fsdp->gradients_seen = true;
    return TESS_OK;
}

tess_status tess_fsdp_upload_gradients(tess_fsdp *fsdp)
{
    return fsdp->gradients_seen ? copy_gradients(fsdp, tess_home_return) : TESS_OK;
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
