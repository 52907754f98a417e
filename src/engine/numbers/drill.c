/* Corrupts numbers on purpose, for tests. Without faults to inject, each injection point costs one call per step or
 * unit. */
#include <stdio.h>

#include "inject/inject.h"
#include "engine/numbers/numbers_impl.h"
#include "base/mem/scoped.h"

static bool has_faults(const tess_engine *e)
{
    return !e->is_second && tess_inject_faults(e->runtime) != NULL;
}

tess_status tess_numbers_drill_weights(tess_numbers *n)
{
    tess_engine *e = n->engine;
    tess_shard shard;
    char name[128];
    bool wanted = n->drill.see != NULL || has_faults(e);
    for (int i = 0; wanted && i < tess_fsdp_shards(e->fsdp); i++) {
        TESS_TRY(tess_fsdp_shard(e->fsdp, i, &shard));
        if (shard.master == NULL) /* a narrow parameter, which has no master weights */
            continue;
        if (has_faults(e))
            tess_inject_tensor(e->runtime, TESS_FAULT_PARAMETER, shard.name, shard.master,
                               (size_t)tess_shard_count(&shard), TESS_F32);
        if (n->drill.see == NULL)
            continue;
        snprintf(name, sizeof(name), "weight %s", shard.name);
        n->drill.see(n->drill.self, tess_engine_param(e, i)->unit, name, shard.master, TESS_F32, 0, shard.box.size[0],
                     tess_shard_row(&shard));
    }
    return wanted ? tess_fsdp_upload(e->fsdp) : TESS_OK;
}

static tess_status drill_gradient(const tess_engine *e, const tess_param *p, float *gradient)
{
    size_t n = (size_t)tess_shape_count(&p->shape);
    TESS_AUTO(tess_mem_drop) void *room = NULL;
    if (gradient == NULL)
        return TESS_OK;
    if (e->compute.resident) {
        TESS_TRY(tess_mem_alloc_array(e->mem, TESS_POOL_MISC, n, sizeof(float), "a gradient to spoil", &room));
        TESS_TRY(tess_fetch(e->compute.stream, room, gradient, n * sizeof(float)));
        if (tess_inject_tensor(e->runtime, TESS_FAULT_GRADIENT, p->name, room, n, TESS_F32))
            TESS_TRY(tess_upload(e->compute.stream, gradient, room, n * sizeof(float)));
        return TESS_OK;
    }
    tess_inject_tensor(e->runtime, TESS_FAULT_GRADIENT, p->name, gradient, n, TESS_F32);
    return TESS_OK;
}

tess_status tess_numbers_drill_gradients(tess_numbers *n, int unit)
{
    tess_engine *e = n->engine;
    int first, count;
    tess_model_unit_params(e->model, unit, &first, &count);
    for (int i = first; has_faults(e) && i < first + count; i++)
        TESS_TRY(drill_gradient(e, tess_model_param(e->model, i), e->gathered.dw[i]));
    return TESS_OK;
}

/* Corrupts optimizer state. Faults use the names that optimizers give their arrays. */
tess_status tess_numbers_drill_state(tess_numbers *n)
{
    tess_engine *e = n->engine;
    tess_shard shard;
    char name[128];
    for (int i = 0; has_faults(e) && i < tess_fsdp_shards(e->fsdp); i++) {
        tess_optimizer_state states[TESS_OPTIMIZER_STATES];
        TESS_TRY(tess_fsdp_shard(e->fsdp, i, &shard));
        size_t n = (size_t)tess_shard_count(&shard);
        void *narrow = tess_fsdp_narrow(e->fsdp, i);
        if (shard.master != NULL)
            tess_inject_tensor(e->runtime, TESS_FAULT_STATE, shard.name, shard.master, n, TESS_F32);
        else if (narrow != NULL && !tess_fsdp_is_coded(e->fsdp, i))
            tess_inject_tensor(e->runtime, TESS_FAULT_STATE, shard.name, narrow, n, tess_fsdp_param_dtype(e->fsdp));
        int n_states = tess_optimizer_states(e->optimizer, i, states);
        for (int k = 0; k < n_states; k++) {
            snprintf(name, sizeof(name), "%s.%s", shard.name, states[k].name);
            if (states[k].block == 1 && states[k].dtype <= TESS_F16)
                tess_inject_tensor(e->runtime, TESS_FAULT_STATE, name, states[k].data, n, states[k].dtype);
        }
    }
    return has_faults(e) ? tess_fsdp_upload(e->fsdp) : TESS_OK;
}
