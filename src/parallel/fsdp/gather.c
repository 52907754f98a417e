/* Gathers a unit for use, and prefetches the units that follow. */
#include "parallel/fsdp/fsdp_impl.h"

enum { MASTERS_AHEAD = 2 }; /* one gather runs while a rank waits for another one */

/* A rank that has the whole shard only converts the weights, on all threads of the stream. */
static tess_status convert_alone(tess_unit *unit, void *full)
{
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        TESS_TRY(tess_fsdp_convert_rows(&unit->fsdp->place, p, unit->master + p->master_offset, p->rows,
                                        (char *)full + p->full_at));
    }
    return TESS_OK;
}

static tess_status send(tess_unit *unit, tess_fsdp_slot *slot)
{
    tess_fsdp_family *family = unit->family;
    tess_fsdp *fsdp = unit->fsdp;
    if (unit->layout.coded)
        TESS_TRY(tess_fsdp_codes_refresh(unit));
    tess_team_label(family->teams.shard_team, unit->label, unit->number);
    tess_status status = tess_all_gather_pieces(
        family->teams.shard_team, unit->layout.coded ? (const void *)unit->codes : unit->master,
        unit->layout.coded ? TESS_U8 : TESS_F32, slot->data, unit->layout.coded ? TESS_U8 : fsdp->policy.param_dtype,
        unit->layout.gather_pieces, (size_t)unit->n_params, &slot->work);
    tess_team_label(family->teams.shard_team, NULL, -1);
    TESS_TRY(status);
    tess_fsdp_stamp_now(family, slot->number); /* the call has written this rank's rows */
    return TESS_OK;
}

/* Whether a gather reads master weights. It does not if it copies codes that are up to date, or a stash. */
static bool converts(const tess_unit *unit)
{
    return !unit->stash.fresh && (!unit->layout.coded || !unit->codes_fresh);
}

/* Counts the bytes that this rank reads and writes: it converts weights, and copies codes and stashes. */
static uint64_t gathered_bytes(const tess_unit *unit)
{
    uint64_t bytes = 0, own;
    if (unit->stash.fresh)
        return 2 * tess_fsdp_stash_bytes(unit);
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        own = (uint64_t)p->own.size[0] * tess_fsdp_row_bytes(p);
        bytes += converts(unit) && !p->narrow ? own + (uint64_t)(p->own.size[0] * p->row) * sizeof(float) : 0;
        bytes += unit->layout.coded && !tess_fsdp_reads_codes(unit) ? 2 * own : 0;
    }
    return bytes;
}

static tess_status fill_copy(tess_unit *unit, tess_fsdp_slot *slot)
{
    if (unit->stash.fresh)
        return tess_fsdp_gather_stashes(unit, slot);
    return unit->family->teams.n_shards == 1 ? convert_alone(unit, slot->data) : send(unit, slot);
}

static tess_status issue(tess_unit *unit, tess_fsdp_slot *slot)
{
    tess_fsdp_family *family = unit->family;
    tess_fsdp *fsdp = unit->fsdp;
    slot->number = ++family->sequence.issued;
    slot->released = slot->number; /* no hook has read it yet */
    fsdp->traffic.gathered_bytes += gathered_bytes(unit);
    const bool reads_masters = converts(unit);
    if (reads_masters) {
        tess_fsdp_master_fetch(unit, TESS_PAGE_READ);
        TESS_TRY(tess_fsdp_master_wait(unit, TESS_PAGE_READ));
    }
    TESS_TRY_CTX(fill_copy(unit, slot), "gather of unit '%s'", unit->name);
    if (reads_masters)
        tess_fsdp_master_release(unit);
    slot->valid = true;
    return TESS_OK;
}

tess_status tess_fsdp_gather_ahead(tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    tess_fsdp_slot *slot = unit->slot;
    if (family->facts.direct || tess_fsdp_reads_codes(unit)) {
        if (converts(unit))
            tess_fsdp_master_fetch(unit, TESS_PAGE_READ);
        return TESS_OK;
    }
    if (slot != NULL && slot->valid) {
        if (!slot->held) /* it counts as newly used, so that other slots are reused first */
            slot->released = family->sequence.issued;
        return TESS_OK;
    }
    TESS_TRY(tess_fsdp_slot_take(unit, true, &slot));
    return slot != NULL ? issue(unit, slot) : TESS_OK;
}

static tess_status prefetch(tess_fsdp *fsdp)
{
    tess_fsdp_use use;
    for (int ahead = 1; ahead <= fsdp->policy.prefetch; ahead++) {
        int next = tess_fsdp_order_predict(&fsdp->order, fsdp->n_units, ahead, &use);
        if (next < 0)
            return TESS_OK;
        TESS_TRY(tess_fsdp_gather_ahead(fsdp->units[next]));
    }
    return TESS_OK;
}

/* Notes the use, and fetches units from disk whose gather is not issued yet. */
static tess_status remember(const tess_unit *unit, tess_fsdp_use use)
{
    tess_fsdp *fsdp = unit->fsdp;
    int first = unit->family->facts.direct ? 1 : fsdp->policy.prefetch + 1;
    TESS_TRY(tess_fsdp_order_add(&fsdp->order, fsdp->place.mem, unit->index, use));
    for (int ahead = first; ahead < first + MASTERS_AHEAD && tess_fsdp_is_on_disk(fsdp, TESS_POOL_PARAMS); ahead++) {
        int i = tess_fsdp_order_predict(&fsdp->order, fsdp->n_units, ahead, &use);
        const tess_unit *next = i >= 0 ? fsdp->units[i] : NULL;
        if (next != NULL && converts(next) && (next->slot == NULL || !next->slot->valid))
            tess_fsdp_master_fetch(next, TESS_PAGE_READ);
    }
    return TESS_OK;
}

/* If master weights are the gathered copy, they only have to be in memory. */
static tess_status hold_master(tess_unit *unit, tess_fsdp_use use)
{
    tess_fsdp *fsdp = unit->fsdp;
    if (!tess_fsdp_is_on_disk(fsdp, TESS_POOL_PARAMS) && !tess_fsdp_is_on_disk(fsdp, TESS_POOL_GRADS))
        return TESS_OK;
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_GATHER);
    tess_fsdp_master_fetch(unit, TESS_PAGE_READ);
    TESS_TRY(remember(unit, use));
    TESS_TRY_CTX(tess_fsdp_master_wait(unit, TESS_PAGE_READ), "unit '%s'", unit->name);
    tess_phase_switch(fsdp->clock, phase);
    return TESS_OK;
}

/* This rank owns all rows, so only trainable parameters are encoded again. */
static tess_status make_codes(tess_unit *unit, tess_fsdp_use use)
{
    tess_fsdp *fsdp = unit->fsdp;
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_GATHER);
    TESS_TRY(remember(unit, use));
    if (converts(unit)) {
        fsdp->traffic.gathered_bytes += gathered_bytes(unit);
        tess_fsdp_master_fetch(unit, TESS_PAGE_READ);
        TESS_TRY(tess_fsdp_master_wait(unit, TESS_PAGE_READ));
        TESS_TRY_CTX(tess_fsdp_codes_refresh(unit), "gather of unit '%s'", unit->name);
        tess_fsdp_master_release(unit);
    }
    TESS_TRY(prefetch(fsdp));
    tess_phase_switch(fsdp->clock, phase);
    return TESS_OK;
}

tess_status tess_fsdp_gather(tess_unit *unit, tess_fsdp_use use)
{
    tess_fsdp *fsdp = unit->fsdp;
    if (unit->family->facts.direct)
        return hold_master(unit, use);
    if (tess_fsdp_reads_codes(unit))
        return make_codes(unit, use);
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_GATHER);
    TESS_TRY(remember(unit, use));
    tess_fsdp_slot *slot = unit->slot;
    if (slot == NULL || !slot->valid) {
        TESS_TRY(tess_fsdp_slot_take(unit, false, &slot));
        TESS_TRY(issue(unit, slot));
    }
    slot->held = true;
    TESS_TRY_CTX(tess_fsdp_slot_wait(unit->family, slot), "gather of unit '%s'", unit->name);
    TESS_TRY(prefetch(fsdp));
    tess_phase_switch(fsdp->clock, phase);
    return TESS_OK;
}

void tess_fsdp_release(tess_unit *unit)
{
    if (tess_fsdp_uses_are_open(&unit->uses) || unit->uses.kept)
        return;
    if (unit->family->facts.direct && unit->uses.n_forwarded == 0)
        tess_fsdp_master_release(unit);
    if (unit->slot == NULL)
        return;
    unit->slot->held = false;
    unit->slot->released = unit->family->sequence.issued;
}
