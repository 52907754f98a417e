/* Slots: the memory of gathered copies, and when it may be rewritten.
 *
 * The ranks of a host read a gathered copy in the same pages, and a gather writes them at once, so a slot may be
 * rewritten only when every rank has released it. The proof costs nothing: every rank releases at the same place in
 * its sequence of collectives. Once any collective that was issued after that place is complete here, all ranks have
 * passed it. A barrier is the last resort.
 *
 * A slot that no hook holds still remembers the unit whose parameters it has. If that unit is used again before the
 * slot is rewritten, it needs no gather.
 *
 * The optimizer writes what slots hold in the pass that writes the master weights, so that no gather follows: 2
 * bytes a parameter and step (bfloat16) instead of 4 + 2. If slots rotate (FULL, HYBRID), this applies to the units
 * that the next forward begins with, and to units that are alone in their size class, as the embedding often is.
 * Other units would need a bfloat16 shard of their own: 2 bytes more per parameter, written once a step to save 2 of
 * the 4 bytes that each gather reads. With two gathers a micro-batch, and lines that are read before they are
 * written, this saves 4 bytes and costs 4 at one micro-batch a step, so it is not worth the memory.
 *
 * This holds on one host. Every host has a gathered copy of its own, and the optimizer writes only the rows of its
 * host's ranks there. If the shard team spans hosts, an update makes slots stale, and the next use gathers them
 * again, with the same bits. The same is true of units that are gathered as fp8 codes, and on a device, where every
 * rank has its own copies. On a device a slot is safe as soon as no hook holds it, because the stream's order puts a
 * rewrite after all readers. */
#include "parallel/fsdp/fsdp_impl.h"
#include "base/mem/scoped.h"

static bool is_safe(const tess_fsdp_family *family, const tess_fsdp_slot *slot)
{
    return family->teams.n_shards == 1 || family->fsdp->place.device != NULL ||
           slot->released < family->sequence.proven || slot->released == 0;
}

tess_status tess_fsdp_slot_wait(tess_fsdp_family *family, tess_fsdp_slot *slot)
{
    if (slot->work == NULL)
        return TESS_OK;
    tess_status status = tess_fsdp_wait(family, &slot->work, slot->number);
    if (status != TESS_OK) {
        slot->valid = false;
        return status;
    }
    if (slot->number > family->sequence.proven)
        family->sequence.proven = slot->number;
    return TESS_OK;
}

/* All ranks have reached this place. */
static tess_status meet(tess_fsdp_family *family)
{
    uint64_t number = ++family->sequence.issued;
    tess_phase phase = tess_phase_switch(family->fsdp->clock, TESS_PHASE_WAIT);
    TESS_TRY(tess_barrier(family->teams.shard_team, NULL));
    tess_phase_switch(family->fsdp->clock, phase);
    family->sequence.proven = number;
    return TESS_OK;
}

static tess_status make_safe(tess_fsdp_family *family, tess_fsdp_slot *slot)
{
    TESS_TRY(tess_fsdp_slot_wait(family, slot));
    return is_safe(family, slot) ? TESS_OK : meet(family);
}

static tess_status create_slot(tess_fsdp_family *family, const tess_unit *unit, tess_fsdp_slot **out)
{
    TESS_AUTO(tess_mem_drop) tess_fsdp_slot *slot = NULL;
    /* A rotating slot is large enough for every unit of its class. */
    size_t bytes = family->facts.persistent ? unit->layout.full_bytes
                                            : tess_fsdp_copies_of(unit->fsdp, unit->layout.full_class).largest;
    TESS_TRY(TESS_NEW(family->fsdp->place.mem, 1, "slot", &slot));
    *slot = (tess_fsdp_slot){.bytes = bytes, .size_class = unit->layout.full_class};
    TESS_TRY(tess_fsdp_copy_alloc(family, slot->bytes, &slot->data));
    slot->next = family->slots;
    *out = family->slots = TESS_GIVE(slot);
    return TESS_OK;
}

/* Returns how many slots the units of a class share. With `prefetch` gathers ahead of the unit in use, equally many
 * released slots are not yet proven free. */
static int slot_limit(const tess_fsdp_family *family, int size_class)
{
    int n_units = tess_fsdp_copies_of(family->fsdp, size_class).n;
    int limit = family->fsdp->policy.prefetch == 0 ? 2 : 2 * family->fsdp->policy.prefetch + 1;
    return limit < n_units ? limit : n_units;
}

tess_status tess_fsdp_slot_take(tess_unit *unit, bool prefetch, tess_fsdp_slot **out)
{
    tess_fsdp_family *family = unit->family;
    *out = NULL;
    if (unit->slot != NULL) { /* its own, with stale content */
        if (prefetch && !is_safe(family, unit->slot))
            return TESS_OK;
        TESS_TRY(make_safe(family, unit->slot));
        *out = unit->slot;
        return TESS_OK;
    }
    int n_slots = 0;
    tess_fsdp_slot *oldest = NULL;
    for (tess_fsdp_slot *slot = family->slots; slot != NULL && !family->facts.persistent; slot = slot->next) {
        if (slot->size_class != unit->layout.full_class)
            continue;
        n_slots++;
        if (!slot->held && (oldest == NULL || slot->released < oldest->released))
            oldest = slot;
    }
    bool may_grow = family->facts.persistent || n_slots < slot_limit(family, unit->layout.full_class);
    if (may_grow || (oldest == NULL && !prefetch)) {
        TESS_TRY(create_slot(family, unit, out));
    } else if (oldest == NULL || (prefetch && !is_safe(family, oldest))) {
        return TESS_OK;
    } else {
        TESS_TRY(make_safe(family, oldest));
        oldest->unit->slot = NULL;
        *out = oldest;
    }
    (*out)->unit = unit;
    (*out)->valid = false;
    unit->slot = *out;
    return TESS_OK;
}

static void forms_stale(tess_fsdp *fsdp)
{
    for (int u = 0; u < fsdp->n_units; u++)
        fsdp->units[u]->codes_fresh = fsdp->units[u]->stash.fresh = false;
}

void tess_fsdp_slots_stale(tess_fsdp *fsdp)
{
    forms_stale(fsdp);
    for (int i = 0; i < fsdp->n_families; i++)
        for (tess_fsdp_slot *slot = fsdp->families[i]->slots; slot != NULL; slot = slot->next)
            slot->valid = slot->updating = false;
}

tess_status tess_fsdp_slots_settle(tess_fsdp *fsdp)
{
    for (int i = 0; i < fsdp->n_families; i++)
        for (tess_fsdp_slot *slot = fsdp->families[i]->slots; slot != NULL; slot = slot->next)
            TESS_TRY(tess_fsdp_slot_wait(fsdp->families[i], slot));
    return TESS_OK;
}

tess_status tess_fsdp_slots_update(tess_fsdp *fsdp)
{
    forms_stale(fsdp);
    for (int i = 0; i < fsdp->n_families; i++)
        for (tess_fsdp_slot *slot = fsdp->families[i]->slots; slot != NULL; slot = slot->next) {
            slot->updating = slot->valid && !fsdp->families[i]->facts.splits_copies && slot->unit->layout.plain;
            slot->valid = false;
            if (slot->updating)
                TESS_TRY(make_safe(fsdp->families[i], slot));
        }
    return TESS_OK;
}

/* The other ranks have written their rows before they reach the barrier. */
tess_status tess_fsdp_slots_updated(tess_fsdp *fsdp)
{
    for (int i = 0; i < fsdp->n_families; i++) {
        tess_fsdp_family *family = fsdp->families[i];
        if (family->slots != NULL && family->teams.n_shards > 1 && !family->facts.splits_copies)
            TESS_TRY(meet(family));
        for (tess_fsdp_slot *slot = family->slots; slot != NULL; slot = slot->next) {
            slot->valid = slot->updating;
            slot->updating = false;
        }
    }
    return TESS_OK;
}

static void free_slot(tess_fsdp_family *family, tess_fsdp_slot *slot)
{
    if (slot->work != NULL)
        tess_work_wait(&slot->work, 0);
    if (slot->unit != NULL)
        slot->unit->slot = NULL;
    tess_fsdp_copy_free(family, slot->data);
    tess_mem_free(family->fsdp->place.mem, slot);
}

static tess_status trim(tess_fsdp_family *family)
{
    if (family->facts.persistent || family->facts.direct)
        return TESS_OK;
    if (family->teams.n_shards > 1)
        TESS_TRY(meet(family)); /* no rank reads them any more */
    for (tess_fsdp_slot **at = &family->slots; *at != NULL;) {
        tess_fsdp_slot *slot = *at;
        int n = 0;
        for (const tess_fsdp_slot *other = slot; other != NULL; other = other->next)
            n += other->size_class == slot->size_class;
        if (slot->held || n <= slot_limit(family, slot->size_class)) {
            at = &slot->next;
            continue;
        }
        *at = slot->next;
        free_slot(family, slot);
    }
    return TESS_OK;
}

tess_status tess_fsdp_trim(tess_fsdp *fsdp)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_IDLE, TESS_E_INVALID, "fsdp: trim %s",
               fsdp->state == TESS_FSDP_BUILDING ? "before materialize" : "inside a step");
    for (int i = 0; i < fsdp->n_families; i++)
        TESS_TRY(trim(fsdp->families[i]));
    return TESS_OK;
}

void tess_fsdp_slots_free(tess_fsdp_family *family)
{
    while (family->slots != NULL) {
        tess_fsdp_slot *slot = family->slots;
        family->slots = slot->next;
        free_slot(family, slot);
    }
}
