/* Spoils numbers on purpose. Without faults to inject, each point costs one call per step or unit. */
#include <stdio.h>

#include "inject/inject.h"
#include "train/numbers/numbers_impl.h"

static bool has_faults(const tess_engine *e)
{
    return !e->is_second && tess_inject_faults(e->runtime) != NULL;
}

void tess_numbers_drill_weights(tess_numbers *n)
{
    tess_engine *e = n->engine;
    tess_shard shard;
    char name[128];
    bool wanted = n->drill.see != NULL || has_faults(e);
    for (int i = 0; wanted && i < tess_fsdp_shards(e->fsdp); i++) {
        if (tess_fsdp_shard(e->fsdp, i, &shard) != TESS_OK)
            return;
        if (shard.master == NULL) /* narrow */
            continue;
        if (has_faults(e))
            tess_inject_tensor(e->runtime, TESS_FAULT_PARAMETER, shard.name, shard.master,
                               (size_t)tess_shard_count(&shard), TESS_F32);
        if (n->drill.see == NULL)
            continue;
        snprintf(name, sizeof(name), "weight %s", shard.name);
        n->drill.see(n->drill.self, tess_model_param(e->model, i)->unit, name, shard.master, TESS_F32, 0,
                     shard.box.size[0], tess_shard_row(&shard));
    }
}

void tess_numbers_drill_gradients(tess_numbers *n, int unit)
{
    tess_engine *e = n->engine;
    int first, count;
    tess_model_unit_params(e->model, unit, &first, &count);
    for (int i = first; has_faults(e) && i < first + count; i++) {
        const tess_param *p = tess_model_param(e->model, i);
        tess_inject_tensor(e->runtime, TESS_FAULT_GRADIENT, p->name, e->dw[i], (size_t)tess_shape_count(&p->shape),
                           TESS_F32);
    }
}

/* Faults name state as optimizers do. */
void tess_numbers_drill_state(tess_numbers *n)
{
    tess_engine *e = n->engine;
    tess_shard shard;
    char name[128];
    for (int i = 0; has_faults(e) && i < tess_fsdp_shards(e->fsdp); i++) {
        tess_optimizer_state states[TESS_OPTIMIZER_STATES];
        if (tess_fsdp_shard(e->fsdp, i, &shard) != TESS_OK)
            return;
        size_t n = (size_t)tess_shard_count(&shard);
        if (shard.master != NULL)
            tess_inject_tensor(e->runtime, TESS_FAULT_STATE, shard.name, shard.master, n, TESS_F32);
        int n_states = tess_optimizer_states(e->optimizer, i, states);
        for (int k = 0; k < n_states; k++) {
            snprintf(name, sizeof(name), "%s.%s", shard.name, states[k].name);
            if (states[k].block == 1 && states[k].dtype <= TESS_F16)
                tess_inject_tensor(e->runtime, TESS_FAULT_STATE, name, states[k].data, n, states[k].dtype);
        }
    }
}
