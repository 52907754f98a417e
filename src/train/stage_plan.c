/* Which layers, and which memory, the stages of a rank have. */
#include "parallel/pipeline/pipeline_stages.h"
#include "train/train_stage.h"

static tess_status count_chunks(const tess_config *config, int64_t n_layers, tess_pipeline_schedule *shape)
{
    int each = (int)config->parallelism.pipeline_parallel_layers_per_stage;
    *shape = (tess_pipeline_schedule){.kind = (tess_pipeline_kind)config->parallelism.pipeline_parallel_schedule,
                                      .ranks = (int)config->parallelism.pipeline_parallel_degree};
    shape->chunks = shape->ranks > 1 ? tess_pipeline_usual_chunks(shape->kind) : 1;
    if (each == 0 || shape->ranks == 1)
        return TESS_OK;
    TESS_TRY_CTX(tess_pipeline_count_stages((int)n_layers, each, 0, 0, shape->ranks, &shape->chunks),
                 "parallelism.pipeline_parallel_layers_per_stage");
    return TESS_OK;
}

/* The layers of each chunk, one behind the other, and the units that they become. */
static void fill_plan(tess_stage_plan *plan, const int *first)
{
    const tess_pipeline_schedule *shape = &plan->shape;
    int n_stages = shape->ranks * shape->chunks, unit = 0;
    for (int chunk = 0; chunk < shape->chunks; chunk++) {
        int stage = tess_pipeline_stage(shape, plan->rank, chunk);
        plan->units[chunk].begin = unit;
        unit += first[stage + 1] - first[stage] + (stage == 0) + (stage == n_stages - 1);
        plan->units[chunk].end = unit;
        plan->part.embedding |= stage == 0;
        plan->part.head |= stage == n_stages - 1;
        for (int layer = first[stage]; layer < first[stage + 1]; layer++)
            plan->layers[plan->n_layers++] = layer;
    }
    plan->part.n_layers = plan->n_layers;
    plan->part.layers = plan->layers;
}

tess_status tess_stage_plan_create(tess_mem *mem, const tess_config *config, const tess_model_config *model, int rank,
                                   tess_stage_plan *plan)
{
    int *first;
    *plan = (tess_stage_plan){.rank = rank};
    TESS_TRY(count_chunks(config, model->n_layers, &plan->shape));
    int n_stages = plan->shape.ranks * plan->shape.chunks;
    TESS_CHECK(n_stages == 1 || !model->tied, TESS_E_UNSUPPORTED,
               "parallelism.pipeline_parallel_degree: %d stages, but tie_word_embeddings ties the head of the last one "
               "to the table of the first: untie them in config.json, or use one stage",
               n_stages);
    TESS_TRY(
        tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n_stages + 1, sizeof(*first), "stages", (void **)&first));
    tess_status status = tess_pipeline_cut_evenly((int)model->n_layers, 0, 0, n_stages, first);
    if (status == TESS_OK)
        status = tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)model->n_layers, sizeof(*plan->layers), "layers",
                                      (void **)&plan->layers);
    if (status == TESS_OK)
        status = tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)plan->shape.chunks, sizeof(*plan->units), "chunks",
                                      (void **)&plan->units);
    if (status == TESS_OK)
        fill_plan(plan, first);
    else
        tess_stage_plan_free(mem, plan);
    tess_mem_free(mem, first);
    TESS_TRY_CTX(status, "parallelism.pipeline_parallel_degree");
    return TESS_OK;
}

void tess_stage_plan_free(tess_mem *mem, tess_stage_plan *plan)
{
    tess_mem_free(mem, plan->layers);
    tess_mem_free(mem, plan->units);
    plan->layers = NULL;
    plan->units = NULL;
}

static bool splits_backward(tess_pipeline_kind kind)
{
    return kind == TESS_PIPELINE_ZB_H1 || kind == TESS_PIPELINE_ZBV || kind == TESS_PIPELINE_DUALPIPEV;
}

tess_status tess_stage_slots(tess_mem *mem, const tess_config *config, const tess_stage_plan *plan, int n_data,
                             tess_executor_options *options, tess_slot_units **units)
{
    tess_pipeline_schedule schedule;
    int64_t n_micro = tess_config_micro_batches(config);
    *units = NULL;
    TESS_TRY_CTX(tess_pipeline_build(mem, plan->shape.kind, plan->shape.ranks, plan->shape.chunks,
                                     (int)((n_micro + n_data - 1) / n_data), &schedule),
                 "parallelism.pipeline_parallel_schedule");
    const int *slots = schedule.lists[plan->rank].slots;
    options->n_slots = 0;
    for (int chunk = 0; chunk < plan->shape.chunks; chunk++)
        options->n_slots += slots[chunk];
    tess_status status =
        tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)options->n_slots, sizeof(**units), "slots", (void **)units);
    for (int chunk = 0, at = 0; status == TESS_OK && chunk < plan->shape.chunks; chunk++)
        for (int i = 0; i < slots[chunk]; i++)
            (*units)[at++] = plan->units[chunk];
    tess_pipeline_free(&schedule);
    options->slot_units = *units;
    options->split_backward = splits_backward(plan->shape.kind);
    return status;
}
