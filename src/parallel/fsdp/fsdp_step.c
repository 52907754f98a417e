/* A step: from step_begin over the local micro-batches to the finished gradient. */
#include "parallel/fsdp/fsdp_impl.h"

tess_status tess_fsdp_reserve(tess_fsdp *fsdp, int64_t n_micro_batches)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_IDLE, TESS_E_INVALID, "fsdp: reserve before materialize, or inside a step");
    TESS_TRY(tess_fsdp_sums_grow(fsdp, n_micro_batches));
    for (int i = 0; i < fsdp->n_families; i++)
        if (tess_fsdp_exchanges_any(fsdp->families[i], n_micro_batches))
            TESS_TRY(tess_fsdp_exchange_alloc(fsdp->families[i]));
    return TESS_OK;
}

static tess_status begin_step(tess_fsdp *fsdp, int64_t n_leaves)
{
    const tess_shares shares = fsdp->step.shares;
    TESS_CHECK(fsdp->state != TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: step_begin before materialize");
    TESS_CHECK(fsdp->state == TESS_FSDP_IDLE, TESS_E_INVALID, "fsdp: step_begin inside a step; call step_end first");
    TESS_CHECK(n_leaves > 0 && n_leaves / shares.total < 1 << 30, TESS_E_INVALID,
               "fsdp: step_begin with %lld micro-batches over %lld ranks; at least 1 is needed", (long long)n_leaves,
               (long long)shares.n);
    for (int u = 0; u < fsdp->n_units; u++)
        TESS_CHECK(fsdp->units[u]->uses.n_forward == 0, TESS_E_INVALID,
                   "unit '%s': step_begin while a forward is open; post_forward is missing", fsdp->units[u]->name);
    fsdp->gradients_ready = fsdp->gradients_seen = false;
    tess_fsdp_bad_gradient_forget(fsdp);
    for (int u = 0; u < fsdp->n_units; u++) {
        fsdp->units[u]->total = NULL;
        fsdp->units[u]->uses.backward_done = false;
    }
    TESS_TRY_CTX(tess_fsdp_reserve(fsdp, n_leaves), "fsdp: step_begin");
    fsdp->state = TESS_FSDP_STEP;
    fsdp->step.n_leaves = n_leaves;
    fsdp->step.n_micro = (int)tess_shares_rounds(&shares, n_leaves);
    fsdp->step.micro = -1;
    fsdp->step.all_open = false;
    fsdp->order.n_now = 0; /* an evaluation's order of units is not remembered */
    return TESS_OK;
}

tess_status tess_fsdp_step_begin(tess_fsdp *fsdp, int n_local_micro_batches)
{
    return begin_step(fsdp, n_local_micro_batches * fsdp->step.shares.total);
}

tess_status tess_fsdp_step_begin_shared(tess_fsdp *fsdp, int64_t n_micro_batches, int *n_local)
{
    TESS_TRY(begin_step(fsdp, n_micro_batches));
    *n_local = fsdp->step.n_micro;
    return TESS_OK;
}

static tess_status check_hooks(const tess_fsdp *fsdp, const char *call)
{
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_unit *unit = fsdp->units[u];
        TESS_CHECK(unit->uses.n_forward == 0, TESS_E_INVALID,
                   "unit '%s': %s while the forward of micro-batch %d is open; post_forward is missing", unit->name,
                   call, fsdp->step.micro);
        TESS_CHECK(unit->uses.n_begun == 0, TESS_E_INVALID,
                   "unit '%s': %s while the backward of micro-batch %d is open; post_backward is missing", unit->name,
                   call, fsdp->step.micro);
    }
    for (int u = 0; u < fsdp->n_units; u++)
        TESS_CHECK(fsdp->units[u]->uses.backward_done || fsdp->units[u]->n_trainable == 0, TESS_E_INVALID,
                   "unit '%s': %s, but micro-batch %d had no backward; a unit without use still owes a zero gradient",
                   fsdp->units[u]->name, call, fsdp->step.micro);
    return TESS_OK;
}

/* Ends the current pass: checks that every hook was called, and sends deferred gradients. */
static tess_status end_pass(tess_fsdp *fsdp, const char *call)
{
    TESS_TRY(check_hooks(fsdp, call));
    for (int u = fsdp->n_units - 1; u >= 0; u--) {
        tess_unit *unit = fsdp->units[u];
        if (unit->uses.kept) {
            unit->uses.kept = false;
            tess_fsdp_release(unit);
        }
        unit->uses.backward_done = false;
        if (unit->deferred)
            TESS_TRY(tess_fsdp_reduce(unit));
    }
    tess_fsdp_order_restart(&fsdp->order);
    return TESS_OK;
}

static tess_status end_micro(tess_fsdp *fsdp, const char *call)
{
    TESS_CHECK(tess_fsdp_is_last_pass(&fsdp->step), TESS_E_INVALID, "fsdp: %s after %d of %d passes of micro-batch %d",
               call, fsdp->step.pass + 1, fsdp->step.n_passes, fsdp->step.micro);
    return end_pass(fsdp, call);
}

tess_status tess_fsdp_pass_begin(tess_fsdp *fsdp, int pass)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_STEP && fsdp->step.micro >= 0, TESS_E_INVALID,
               "fsdp: pass_begin %d outside a micro-batch; call tess_fsdp_micro_begin first", pass);
    TESS_CHECK(pass == fsdp->step.pass + 1 && pass < fsdp->step.n_passes, TESS_E_INVALID,
               "fsdp: pass_begin %d after pass %d of %d; they come in order (tess_fsdp_set_passes says how many)", pass,
               fsdp->step.pass, fsdp->step.n_passes);
    TESS_TRY(end_pass(fsdp, "pass_begin"));
    fsdp->step.pass = pass;
    return TESS_OK;
}

tess_status tess_fsdp_micro_begin(tess_fsdp *fsdp, int local_index)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_STEP, TESS_E_INVALID, "fsdp: micro_begin %d outside a step", local_index);
    TESS_CHECK(local_index == fsdp->step.micro + 1 && local_index < fsdp->step.n_micro, TESS_E_INVALID,
               "fsdp: micro_begin %d after micro-batch %d of %d; they come in order", local_index, fsdp->step.micro,
               fsdp->step.n_micro);
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_REDUCE);
    if (fsdp->step.micro >= 0)
        TESS_TRY(end_micro(fsdp, "micro_begin"));
    tess_phase_switch(fsdp->clock, phase);
    fsdp->step.micro = local_index;
    fsdp->step.pass = 0;
    for (int u = 0; u < fsdp->n_units; u++)
        fsdp->units[u]->micro = local_index;
    return TESS_OK;
}

tess_status tess_fsdp_micro_begin_all(tess_fsdp *fsdp)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_STEP && fsdp->step.micro < 0, TESS_E_INVALID,
               "fsdp: micro_begin_all %s; it follows step_begin",
               fsdp->state == TESS_FSDP_STEP ? "inside a micro-batch" : "outside a step");
    TESS_CHECK(fsdp->step.n_passes == 1, TESS_E_INVALID,
               "fsdp: micro_begin_all with %d passes; passes of a micro-batch are run one after the other",
               fsdp->step.n_passes);
    fsdp->step.all_open = true;
    fsdp->step.micro = fsdp->step.n_micro - 1;
    fsdp->step.pass = 0;
    for (int u = 0; u < fsdp->n_units; u++)
        fsdp->units[u]->micro = 0;
    return TESS_OK;
}

tess_status tess_fsdp_step_end(tess_fsdp *fsdp)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_STEP, TESS_E_INVALID, "fsdp: step_end outside a step");
    TESS_CHECK(fsdp->step.micro == fsdp->step.n_micro - 1, TESS_E_INVALID,
               "fsdp: step_end after %d of %d micro-batches", fsdp->step.micro + 1, fsdp->step.n_micro);
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_REDUCE);
    TESS_TRY(end_micro(fsdp, "step_end"));
    TESS_TRY(tess_fsdp_reduce_flush(fsdp));
    for (int u = fsdp->n_units - 1; u >= 0; u--) {
        tess_unit *unit = fsdp->units[u];
        if (u > 0)
            tess_fsdp_reduce_total_ahead(fsdp->units[u - 1]);
        if (unit->n_trainable == 0)
            continue;
        TESS_TRY(tess_fsdp_reduce_finish(unit));
        TESS_TRY(tess_fsdp_reduce_total(unit));
    }
    /* Peers read master weights on a device in place. A rank that has reached the norm no longer reads them. */
    if (fsdp->place.device != NULL)
        TESS_TRY(tess_fsdp_slots_settle(fsdp));
    TESS_TRY(tess_fsdp_persist_note_totals(fsdp));
    tess_phase_switch(fsdp->clock, phase);
    fsdp->state = TESS_FSDP_IDLE;
    fsdp->step.micro = -1;
    fsdp->gradients_ready = true;
    return TESS_OK;
}

static tess_status check_idle(const tess_fsdp *fsdp, const char *call)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_IDLE, TESS_E_INVALID, "fsdp: %s %s; weights change between steps only", call,
               fsdp->state == TESS_FSDP_STEP ? "inside a step" : "before materialize");
    for (int u = 0; u < fsdp->n_units; u++)
        TESS_CHECK(fsdp->units[u]->uses.n_forward == 0, TESS_E_INVALID,
                   "unit '%s': %s while a forward is open; post_forward is missing", fsdp->units[u]->name, call);
    return TESS_OK;
}

tess_status tess_fsdp_params_changed(tess_fsdp *fsdp)
{
    TESS_TRY(check_idle(fsdp, "params_changed"));
    tess_fsdp_slots_stale(fsdp);
    return tess_fsdp_upload(fsdp);
}

tess_status tess_fsdp_update_begin(tess_fsdp *fsdp)
{
    TESS_TRY(check_idle(fsdp, "update_begin"));
    TESS_TRY(tess_home_update_begin(fsdp->home));
    return tess_fsdp_slots_update(fsdp);
}

tess_status tess_fsdp_update_end(tess_fsdp *fsdp)
{
    TESS_TRY(check_idle(fsdp, "update_end"));
    TESS_TRY(tess_home_update_end(fsdp->home));
    return tess_fsdp_slots_updated(fsdp);
}
