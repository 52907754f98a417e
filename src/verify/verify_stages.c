/* Finds the pipeline stage that each tensor is planned for, and how ranks that share its layer cut it. */
#include <stdio.h>

#include "engine/model/model_file.h"
#include "engine/stages/rank_stage.h"
#include "verify/verify_impl.h"

static int stage_of(const tess_stage_plan *plan, const tess_param *param)
{
    int chunk = 0;
    if (param->unit < plan->units[0].begin) /* a tied table in a stage without its embedding */
        return plan->shape.ranks * plan->shape.chunks - 1;
    while (param->unit >= plan->units[chunk].end)
        chunk++;
    return tess_pipeline_stage(&plan->shape, plan->rank, chunk);
}

/* Plans the tensors of one stage. A tied table is planned for the stage that owns it. */
static tess_status plan_place(tess_mem *mem, const tess_model *whole, int place, verify_run *run, tess_verify_result *r)
{
    tess_stage_plan plan;
    tess_model *part;
    TESS_TRY(tess_stage_plan_create(mem, &run->config, tess_model_get_config(whole), place, &plan));
    plan.part.tp_degree = (int)run->config.parallelism.tensor_parallel_degree;
    tess_status status = tess_model_create_part(mem, tess_model_get_config(whole), &plan.part, &part);
    for (int i = 0; status == TESS_OK && i < run->n_tensors; i++) {
        int own = tess_model_find_param(part, tess_model_param(whole, i)->name);
        const tess_param *param = own >= 0 ? tess_model_param(part, own) : NULL;
        if (param == NULL)
            continue;
        run->planned[place * run->n_tensors + i] =
            (run_plan){!param->copy, param->copy, param->slice.dim, param->slice.unit};
        if (!param->copy)
            r->tensors[i].stage = stage_of(&plan, param);
    }
    r->stages = plan.shape.ranks * plan.shape.chunks;
    if (r->stages > 1)
        snprintf(r->schedule, sizeof(r->schedule), "%s", tess_pipeline_kind_name(plan.shape.kind));
    if (status == TESS_OK)
        tess_model_destroy(&part);
    tess_stage_plan_free(mem, &plan);
    return status;
}

tess_status verify_plan_stages(tess_mem *mem, verify_run *run, tess_verify_result *r)
{
    tess_model_config config;
    TESS_AUTO(tess_model_destroy) tess_model *whole = NULL;
    run->n_stages = (int)run->config.parallelism.pipeline_parallel_degree;
    for (int i = 0; i < run->n_tensors; i++)
        r->tensors[i].stage = -1;
    TESS_TRY(TESS_NEW(mem, (size_t)run->n_stages * (size_t)run->n_tensors, "stages", &run->planned));
    TESS_TRY(tess_config_load_model(&run->config, NULL, &config));
    TESS_TRY(tess_model_create(mem, &config, &whole));
    for (int place = 0; place < run->n_stages; place++)
        TESS_TRY(plan_place(mem, whole, place, run, r));
    return TESS_OK;
}
