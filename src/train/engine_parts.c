/* What an engine is built of, from the configuration alone. */
#include "train/engine.h"

tess_fsdp_policy tess_engine_policy(const tess_config *c)
{
    return (tess_fsdp_policy){.strategy = (tess_strategy)c->parallelism.shard_strategy,
                              .param_dtype = tess_precision_dtype(c->training.mixed_precision_param),
                              .reduce_dtype = tess_precision_dtype(c->training.mixed_precision_reduce),
                              .reshard_after_forward = (int)c->parallelism.fsdp_reshard_after_forward,
                              .prefetch = (int)c->parallelism.fsdp_prefetch};
}

tess_optimizer_options tess_engine_optimizer(const tess_config *c)
{
    return (tess_optimizer_options){.kind = (tess_optimizer_kind)c->optimizer.name,
                                    .beta1 = (float)c->optimizer.beta1,
                                    .beta2 = (float)c->optimizer.beta2,
                                    .eps = (float)c->optimizer.eps,
                                    .weight_decay = (float)c->optimizer.weight_decay,
                                    .momentum = (float)c->optimizer.momentum,
                                    .nesterov = c->optimizer.nesterov,
                                    .muon_rate = (tess_muon_rate)c->optimizer.muon_rate,
                                    .state_dtype = tess_precision_dtype(c->optimizer.state_dtype),
                                    .seed = (uint64_t)c->debug.seed};
}

bool tess_engine_is_hidden(const tess_model *model, const tess_param *param)
{
    return tess_model_unit_layer(model, param->unit) >= 0 && param->slice.whole.n_dims == 2 && !param->adapter;
}

tess_status tess_engine_add_units(tess_mem *mem, const tess_model *model, tess_fsdp *fsdp, tess_unit **units)
{
    int n_units = tess_model_n_units(model), n_params = tess_model_n_params(model);
    tess_param_desc *descs;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n_params, sizeof(*descs), "units", (void **)&descs));
    tess_status status = TESS_OK;
    for (int unit = 0; status == TESS_OK && unit < n_units; unit++) {
        int first, n;
        tess_model_unit_params(model, unit, &first, &n);
        for (int i = 0; i < n; i++) {
            const tess_param *param = tess_model_param(model, first + i);
            descs[i] = (tess_param_desc){.name = param->name,
                                         .shape = param->slice.whole,
                                         .trainable = !param->frozen,
                                         .decay = param->decay,
                                         .hidden = tess_engine_is_hidden(model, param)};
            if (param->slice.unit > 0)
                descs[i].tp = (tess_param_cut){TESS_SHARD, param->slice.dim, param->slice.unit};
        }
        status = tess_fsdp_add_unit(fsdp, tess_model_unit_name(model, unit), descs, n, &units[unit]);
    }
    tess_mem_free(mem, descs);
    return status;
}
