/* Deferred initialisation: each rank creates or reads its own part, and all ranks agree that it succeeded. */
#include "parallel/fsdp/fsdp_impl.h"

#include "base/core/rng.h"
#include "base/mem/named.h"
#include "comm/agree.h"
#include "base/mem/scoped.h"
#include "parallel/fsdp/fsdp_parts.h"

static uint64_t hash_layout(const tess_fsdp *fsdp)
{
    uint64_t hash = tess_hash_bytes(&fsdp->policy.strategy, sizeof(fsdp->policy.strategy), 0);
    hash = tess_hash_bytes(&fsdp->policy.param_dtype, sizeof(fsdp->policy.param_dtype), hash);
    hash = tess_hash_bytes(&fsdp->policy.reduce_dtype, sizeof(fsdp->policy.reduce_dtype), hash);
    hash = tess_hash_bytes(&fsdp->policy.prefetch, sizeof(fsdp->policy.prefetch), hash);
    hash = tess_hash_bytes(&fsdp->policy.reshard_after_forward, sizeof(fsdp->policy.reshard_after_forward), hash);
    hash = tess_hash_bytes(&fsdp->step.n_passes, sizeof(fsdp->step.n_passes), hash);
    for (int i = 0; i < fsdp->n_params; i++) {
        const tess_unit *unit = fsdp->params[i].unit;
        const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, i);
        uint64_t words[] = {hash,
                            (uint64_t)unit->index,
                            (uint64_t)unit->family->teams.n_shards,
                            (uint64_t)unit->family->teams.parts,
                            (uint64_t)unit->uses.n_blocks,
                            unit->family->teams.apart ? 0 : tess_hash_text(p->name),
                            (uint64_t)p->trainable | (uint64_t)p->narrow << 1,
                            tess_hash_text(p->form->name),
                            (uint64_t)p->tp.kind,
                            p->tp.kind == TESS_SHARD ? (uint64_t)p->tp.dim : 0,
                            (uint64_t)p->tp.unit,
                            (uint64_t)p->shape.n_dims};
        hash = tess_hash_bytes(words, sizeof(words), 0);
        hash = tess_hash_bytes(p->shape.dim, sizeof(p->shape.dim[0]) * (size_t)p->shape.n_dims, hash);
    }
    return hash;
}

/* Gathers the hashes, so that the message can name the odd rank. */
static tess_status agree_on_layout(const tess_fsdp *fsdp)
{
    uint64_t mine = hash_layout(fsdp);
    TESS_AUTO(tess_mem_drop) uint64_t *hashes = NULL;
    int n = tess_team_size(fsdp->topology.model_team), odd = 0;
    TESS_TRY(TESS_NEW(fsdp->place.mem, n, "hashes of all ranks' parameters", &hashes));
    TESS_TRY(tess_all_gather(fsdp->topology.model_team, &mine, hashes, 1, TESS_I64, NULL));
    for (int r = 1; r < n && odd == 0; r++)
        odd = hashes[r] != hashes[0] ? r : 0;
    TESS_CHECK(
        odd == 0, TESS_E_MISMATCH,
        "materialize: rank %d describes other parameters, units or policies than rank %d; all ranks must add the same "
        "units in the same order",
        tess_team_global_rank(fsdp->topology.model_team, odd), tess_team_global_rank(fsdp->topology.model_team, 0));
    return TESS_OK;
}

static tess_status fill_unit(tess_unit *unit, tess_fill_fn fill, void *context)
{
    const bool on_host = unit->fsdp->place.device == NULL;
    float *master = tess_fsdp_host_copy(unit->fsdp, unit->master);
    if (on_host) {
        tess_fsdp_master_fetch(unit, TESS_PAGE_OVERWRITE);
        TESS_TRY(tess_fsdp_master_wait(unit, TESS_PAGE_OVERWRITE));
    }
    for (int i = 0; i < unit->n_params; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        const tess_shape shape = tess_shape_atleast_1d(&p->shape);
        if (p->narrow)
            TESS_TRY_CTX(tess_fsdp_codes_fill(unit, p, fill, context), "materialize: parameter '%s'", p->name);
        else if (p->held.size[0] * p->row > 0)
            TESS_TRY_CTX(fill(context, p->name, &shape, &p->held, master + p->master_offset),
                         "materialize: parameter '%s'", p->name);
    }
    if (on_host)
        tess_fsdp_master_release(unit);
    return TESS_OK;
}

static tess_status alloc_and_fill(tess_fsdp *fsdp, tess_fill_fn fill, void *context)
{
    TESS_TRY(tess_fsdp_home_open(fsdp));
    for (int u = 0; u < fsdp->n_units; u++) {
        tess_unit *unit = fsdp->units[u];
        bool found, gradient_found;
        TESS_TRY(tess_fsdp_persist_alloc(unit, TESS_POOL_PARAMS, "weights", -1, unit->layout.master_elements,
                                         &unit->master, &found));
        TESS_TRY(tess_fsdp_codes_alloc(unit));
        if (tess_fsdp_gathers_gradient(unit->family))
            TESS_TRY(tess_fsdp_persist_alloc(unit, TESS_POOL_GRADS, "gradient", -1, unit->layout.gradient_elements,
                                             &unit->gradient, &gradient_found));
        if (!found)
            TESS_TRY(fill_unit(unit, fill, context));
    }
    return tess_fsdp_upload(fsdp);
}

void tess_fsdp_shards_free(tess_unit *unit)
{
    tess_fsdp_hide_shard(unit);
    tess_fsdp_persist_free(unit, unit->master);
    tess_fsdp_persist_free(unit, unit->gradient);
    tess_fsdp_codes_free(unit);
    unit->master = unit->gradient = NULL;
}

tess_status tess_fsdp_materialize(tess_fsdp *fsdp, tess_fill_fn fill, void *context)
{
    TESS_CHECK(fsdp->state == TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: materialize was called twice");
    TESS_CHECK(fsdp->n_units > 0, TESS_E_INVALID, "fsdp: materialize without units; call tess_fsdp_add_unit first");
    TESS_TRY(tess_fsdp_parts_check(fsdp));
    TESS_TRY(agree_on_layout(fsdp));
    tess_status status = tess_team_agree(fsdp->topology.model_team, tess_fsdp_stashes_alloc(fsdp));
    if (status == TESS_OK)
        status = tess_team_agree(fsdp->topology.model_team, alloc_and_fill(fsdp, fill, context));
    for (int u = 0; u < fsdp->n_units && status == TESS_OK; u++)
        status = tess_fsdp_show_shard(fsdp->units[u]);
    for (int i = 0; i < fsdp->n_families && status == TESS_OK; i++)
        status = tess_fsdp_stamps_alloc(fsdp->families[i]);
    if (status != TESS_OK) { /* the caller may try again */
        tess_fsdp_stashes_free(fsdp);
        for (int i = 0; i < fsdp->n_families; i++)
            tess_fsdp_stamps_free(fsdp->families[i]);
        for (int u = 0; u < fsdp->n_units; u++)
            tess_fsdp_shards_free(fsdp->units[u]);
        tess_home_destroy(&fsdp->home);
        return status;
    }
    fsdp->uses_wire = tess_fsdp_spans_hosts(&fsdp->topology, fsdp->topology.data_team, fsdp->topology.n_data);
    fsdp->state = TESS_FSDP_IDLE;
    return TESS_OK;
}
