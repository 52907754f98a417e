/* Derives the options of fsdp and of the optimizer from the configuration. */
#include "engine/engine.h"

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
