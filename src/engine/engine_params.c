/* Looks up the engine's parameters, which have a number in the whole model, in the rank's model and in fsdp. */
#include "engine/engine.h"

#include "engine/stages/rank_stage.h"

/* Returns the number in fsdp of a parameter of the rank's model. */
static int number_of(const tess_engine *e, int param)
{
    int first, n;
    const int unit = tess_model_param(e->model, param)->unit;
    tess_model_unit_params(e->model, unit, &first, &n);
    return tess_block_unit_number(&e->units[unit], param - first);
}

void tess_engine_number_params(tess_engine *e)
{
    for (int i = 0; i < tess_model_n_params(e->whole); i++) {
        int *own = &e->stage_plan->own_param[i];
        *own = *own >= 0 ? number_of(e, *own) : -1;
    }
}

int tess_engine_own_param(const tess_engine *e, int index)
{
    return e->stage_plan->own_param[index];
}

const tess_param *tess_engine_param(const tess_engine *e, int number)
{
    int i = 0;
    while (number_of(e, i) != number)
        i++;
    return tess_model_param(e->model, i);
}

tess_status tess_engine_shard(const tess_engine *e, int index, tess_shard *shard)
{
    const int own = tess_engine_own_param(e, index);
    const tess_param *param = tess_model_param(e->whole, index);
    *shard =
        (tess_shard){.name = param->name, .shape = param->shape, .trainable = !param->frozen, .decay = param->decay};
    return own < 0 ? TESS_OK : tess_fsdp_shard(e->fsdp, own, shard);
}

int tess_engine_states(const tess_engine *e, int index, tess_optimizer_state *states)
{
    const int own = tess_engine_own_param(e, index);
    const tess_param *param = tess_model_param(e->whole, index);
    if (own >= 0)
        return tess_optimizer_states(e->optimizer, own, states);
    return param->frozen ? 0 : tess_optimizer_describe(e->optimizer, &param->slice.whole, param->hidden, states);
}
