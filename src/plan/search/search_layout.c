#include "plan/search/search_layout.h"

#include "base/text/text.h"
#include "parallel/pipeline/pipeline.h"
#include "tessera/fsdp.h"

void tess_search_configure(const tess_search_layout *l, tess_config *config)
{
    tess_parallelism_section *p = &config->parallelism;
    const int64_t leaves = 2LL * l->degree[TESS_AXIS_CP];
    for (int axis = 0; axis < TESS_AXES; axis++)
        *tess_axis_degree(p, axis) = l->degree[axis];
    p->expert_parallel_degree = l->degree[TESS_SEARCH_EP];
    p->shard_strategy = l->strategy;
    p->fsdp_reshard_after_forward = l->reshard;
    if (l->schedule >= 0)
        p->pipeline_parallel_schedule = l->schedule;
    else
        tess_text_list_free(&p->pipeline_parallel_split_points);
    if (l->method >= 0)
        p->context_parallel_method = l->method;
    if (l->degree[TESS_AXIS_CP] > 1 && config->training.context_leaves < leaves)
        config->training.context_leaves = leaves;
    config->activation_checkpoint.mode = l->recompute;
    config->activation_checkpoint.partition &= l->degree[TESS_AXIS_TP] > 1;
    config->training.local_batch_size = l->micro;
}

size_t tess_search_describe(const tess_search_layout *l, char *text, size_t size)
{
    static const char *const recomputed[] = {"none", "full", "every_n", "selective"};
    size_t at = 0;
    for (int axis = TESS_AXES - 1; axis >= 0; axis--) {
        if (l->degree[axis] == 1)
            continue;
        at = tess_text_add(text, size, at, "%s%s %d", at > 0 ? " x " : "", tess_axis_name(axis), l->degree[axis]);
        if (axis == TESS_AXIS_PP)
            at = tess_text_add(text, size, at, " (%s)", tess_pipeline_kind_name((tess_pipeline_kind)l->schedule));
        if (axis == TESS_AXIS_CP)
            at = tess_text_add(text, size, at, " (%s)", tess_context_method_name(l->method));
    }
    if (at == 0)
        at = tess_text_add(text, size, at, "one rank");
    if (l->degree[TESS_SEARCH_EP] > 1)
        at = tess_text_add(text, size, at, ", ep %d", l->degree[TESS_SEARCH_EP]);
    at = tess_text_add(text, size, at, ", %s%s, micro %lld", tess_strategy_name((tess_strategy)l->strategy),
                       l->reshard == 0 ? " kept gathered" : "", (long long)l->micro);
    if (l->recompute != TESS_RECOMPUTE_NONE)
        at = tess_text_add(text, size, at, ", recomputation %s", recomputed[l->recompute]);
    return at;
}
