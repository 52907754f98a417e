/* The four hooks of a unit, the state between them, and the users' hooks that they call. */
#include "parallel/fsdp/fsdp_impl.h"

/* Over a network a collective advances only when a rank polls it: the rank adds or copies the rounds that have
 * arrived and sends the next ones. Every hook polls, so that a prefetch or a reduction advances while the rank
 * computes. */
static void make_progress(const tess_fsdp *fsdp)
{
    if (!fsdp->uses_wire)
        return;
    for (int i = 0; i < fsdp->n_families; i++)
        for (tess_fsdp_slot *slot = fsdp->families[i]->slots; slot != NULL; slot = slot->next)
            if (slot->work != NULL)
                tess_work_done(slot->work);
    for (int u = 0; u < fsdp->n_units; u++)
        tess_fsdp_reduction_poll(&fsdp->units[u]->reduction);
}

static tess_status begin_hook(tess_unit *unit, const char *call)
{
    tess_fsdp *fsdp = unit->fsdp;
    TESS_CHECK(fsdp->state != TESS_FSDP_BUILDING, TESS_E_INVALID, "unit '%s': %s before tess_fsdp_materialize",
               unit->name, call);
    TESS_CHECK(fsdp->state != TESS_FSDP_STEP || fsdp->step.micro >= 0, TESS_E_INVALID,
               "unit '%s': %s before tess_fsdp_micro_begin of this step", unit->name, call);
    make_progress(fsdp);
    return TESS_OK;
}

tess_status tess_unit_set_blocks(tess_unit *unit, int n_blocks)
{
    TESS_CHECK(n_blocks >= 1, TESS_E_INVALID, "unit '%s': %d blocks; it has 1 or more", unit->name, n_blocks);
    TESS_CHECK(unit->fsdp->state == TESS_FSDP_BUILDING, TESS_E_INVALID, "unit '%s': set_blocks after materialize",
               unit->name);
    unit->uses.n_blocks = n_blocks;
    return TESS_OK;
}

tess_status tess_fsdp_add_hook(tess_fsdp *fsdp, tess_unit_hook hook, void *context)
{
    TESS_CHECK(hook != NULL, TESS_E_INVALID, "fsdp: add_hook without a function");
    TESS_CHECK(fsdp->state != TESS_FSDP_STEP, TESS_E_INVALID, "fsdp: add_hook inside a step; add hooks between steps");
    TESS_TRY(tess_mem_grow(fsdp->place.mem, TESS_POOL_MISC, sizeof(*fsdp->hooks) * (size_t)(fsdp->n_hooks + 1), "hooks",
                           (void **)&fsdp->hooks));
    fsdp->hooks[fsdp->n_hooks].call = hook;
    fsdp->hooks[fsdp->n_hooks++].context = context;
    return TESS_OK;
}

static tess_status call_hooks(tess_unit *unit, tess_unit_moment moment)
{
    static const char *const names[] = {"before forward", "after forward", "before backward", "after backward"};
    const tess_fsdp *fsdp = unit->fsdp;
    for (int i = 0; i < fsdp->n_hooks; i++)
        TESS_TRY_CTX(fsdp->hooks[i].call(fsdp->hooks[i].context, unit, moment), "unit '%s': hook %d, %s", unit->name, i,
                     names[moment]);
    return TESS_OK;
}

tess_status tess_unit_prefetch(tess_unit *unit)
{
    TESS_TRY(begin_hook(unit, "prefetch"));
    return tess_fsdp_gather_ahead(unit);
}

tess_status tess_unit_pre_forward(tess_unit *unit)
{
    TESS_TRY(begin_hook(unit, "pre_forward"));
    TESS_TRY(tess_fsdp_gather(unit, TESS_FSDP_FORWARD));
    unit->uses.n_forward++;
    return call_hooks(unit, TESS_BEFORE_FORWARD);
}

tess_status tess_unit_post_forward(tess_unit *unit)
{
    TESS_TRY(begin_hook(unit, "post_forward"));
    TESS_CHECK(unit->uses.n_forward > 0, TESS_E_INVALID, "unit '%s': post_forward without pre_forward", unit->name);
    TESS_TRY(call_hooks(unit, TESS_AFTER_FORWARD));
    TESS_TRY(tess_fsdp_stash_take(unit));
    tess_fsdp_uses_end_forward(&unit->uses, unit->family->facts.keep && unit->fsdp->state == TESS_FSDP_STEP);
    tess_fsdp_release(unit);
    return TESS_OK;
}

/* Prefetches the sums of the unit whose backward is expected next. */
static void sums_ahead(const tess_fsdp *fsdp)
{
    tess_fsdp_use use;
    int next = tess_fsdp_is_on_disk(fsdp, TESS_POOL_GRADS)
                   ? tess_fsdp_order_predict(&fsdp->order, fsdp->n_units, 1, &use)
                   : -1;
    if (next >= 0 && use == TESS_FSDP_BACKWARD)
        tess_fsdp_reduce_ahead(fsdp->units[next]);
}

tess_status tess_unit_pre_backward(tess_unit *unit)
{
    TESS_TRY(begin_hook(unit, "pre_backward"));
    TESS_CHECK(unit->fsdp->state == TESS_FSDP_STEP, TESS_E_INVALID,
               "unit '%s': pre_backward outside a step; call tess_fsdp_step_begin first", unit->name);
    TESS_CHECK(unit->uses.n_begun < unit->uses.n_blocks, TESS_E_INVALID,
               "unit '%s': pre_backward twice without post_backward", unit->name);
    TESS_CHECK(
        !unit->uses.backward_done, TESS_E_INVALID,
        "unit '%s': pre_backward after post_backward of the same pass of a micro-batch; its gradients are on their way",
        unit->name);
    if (unit->uses.n_begun > 0) {
        unit->uses.n_begun++;
        return TESS_OK;
    }
    /* Takes the window first, because waiting for it may prove that a slot is free. */
    if (unit->n_trainable > 0)
        TESS_TRY(tess_fsdp_gradient_begin(unit));
    TESS_TRY(tess_fsdp_gather(unit, TESS_FSDP_BACKWARD));
    sums_ahead(unit->fsdp);
    unit->uses.n_begun = 1;
    return call_hooks(unit, TESS_BEFORE_BACKWARD);
}

/* The gradient of the micro-batch is complete. */
static tess_status send_gradients(tess_unit *unit)
{
    TESS_TRY_CTX(unit->way->end(unit), "unit '%s': post_backward", unit->name);
    unit->deferred = unit->family->facts.defer && !unit->fsdp->step.all_open;
    return unit->deferred ? TESS_OK : tess_fsdp_reduce(unit);
}

tess_status tess_unit_post_backward(tess_unit *unit)
{
    TESS_TRY(begin_hook(unit, "post_backward"));
    TESS_CHECK(unit->uses.n_ended < unit->uses.n_begun, TESS_E_INVALID, "unit '%s': post_backward without pre_backward",
               unit->name);
    if (++unit->uses.n_ended < unit->uses.n_blocks)
        return TESS_OK;
    TESS_TRY(call_hooks(unit, TESS_AFTER_BACKWARD));
    const tess_fsdp *fsdp = unit->fsdp;
    tess_fsdp_uses_end_backward(&unit->uses, !fsdp->step.all_open || unit->micro == fsdp->step.n_micro - 1);
    /* Releases before the reduce-scatter, so that its completion proves that all ranks have released. */
    tess_fsdp_release(unit);
    if (unit->n_trainable == 0)
        return TESS_OK;
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_REDUCE);
    TESS_TRY_CTX(tess_fsdp_parts_sum(unit), "unit '%s': post_backward", unit->name);
    TESS_TRY_CTX(tess_fsdp_gradient_end(unit), "unit '%s': post_backward", unit->name);
    if (tess_fsdp_is_last_pass(&fsdp->step)) {
        TESS_TRY_CTX(tess_fsdp_parts_keep_one(unit), "unit '%s': post_backward", unit->name);
        TESS_TRY(send_gradients(unit));
    } else if (unit->in_place != NULL) {
        tess_fsdp_sums_release(unit);
    }
    unit->micro += fsdp->step.all_open;
    tess_phase_switch(fsdp->clock, phase);
    return TESS_OK;
}

const void *tess_unit_param(const tess_unit *unit, int index)
{
    if (index < 0 || index >= unit->n_params || !tess_fsdp_uses_are_open(&unit->uses))
        return NULL;
    const tess_fsdp_param *p = &unit->params[index];
    if (unit->family->facts.direct)
        return unit->master + p->master_offset;
    if (tess_fsdp_reads_codes(unit))
        return unit->codes + p->codes_at;
    return (const char *)unit->slot->data + p->full_at;
}

float *tess_unit_grad(const tess_unit *unit, int index)
{
    if (index < 0 || index >= unit->n_params || unit->uses.n_begun == 0 || !unit->params[index].trainable)
        return NULL;
    return tess_fsdp_gradient(unit, &unit->params[index]);
}

const char *tess_unit_name(const tess_unit *unit)
{
    return unit->name;
}

int tess_unit_params(const tess_unit *unit)
{
    return unit->n_params;
}

int tess_unit_number(const tess_unit *unit, int index)
{
    return unit->first + index;
}

int64_t tess_unit_count(const tess_unit *unit, int index)
{
    if (index < 0 || index >= unit->n_params)
        return 0;
    return unit->params[index].rows * unit->params[index].row;
}
