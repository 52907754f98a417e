/* Plans the layers and the memory of a rank's stages. */
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "parallel/pipeline/pipeline_stages.h"
#include "engine/model/adapter.h"
#include "engine/stages/rank_stage.h"

static int counted(int64_t less_layers)
{
    return less_layers > 0 ? (int)less_layers : 0;
}

static const tess_text_list *points_of(const tess_config *config)
{
    return &config->parallelism.pipeline_parallel_split_points;
}

/* Counts the chunks of stages that begin at the split points. */
static tess_status count_named(const tess_config *config, tess_pipeline_schedule *shape)
{
    const int n_stages = points_of(config)->n + 1, ranks = shape->ranks;
    const int usual = ranks * tess_pipeline_usual_chunks(shape->kind);
    TESS_CHECK(ranks > 1, TESS_E_INVALID,
               "parallelism.pipeline_parallel_split_points: pipeline_parallel_degree=1 has no stages to split: set a "
               "degree of 2 or more, or leave the points out");
    TESS_CHECK(
        config->parallelism.pipeline_parallel_layers_per_stage == 0, TESS_E_INVALID,
        "parallelism.pipeline_parallel_split_points: pipeline_parallel_layers_per_stage=%lld divides layers, too: "
        "leave one of them out",
        (long long)config->parallelism.pipeline_parallel_layers_per_stage);
    shape->chunks = n_stages / ranks;
    TESS_CHECK(n_stages % ranks == 0 && tess_pipeline_takes_chunks(shape->kind, shape->chunks), TESS_E_INVALID,
               "parallelism.pipeline_parallel_split_points: %d layer%s begin%s a stage, which makes %d stages; %s over "
               "%d ranks takes %d: name %d",
               n_stages - 1, n_stages == 2 ? "" : "s", n_stages == 2 ? "s" : "", n_stages,
               tess_pipeline_kind_name(shape->kind), ranks, usual, usual - 1);
    return TESS_OK;
}

static tess_status count_chunks(const tess_config *config, int64_t n_layers, tess_pipeline_schedule *shape)
{
    int each = (int)config->parallelism.pipeline_parallel_layers_per_stage;
    *shape = (tess_pipeline_schedule){.kind = (tess_pipeline_kind)config->parallelism.pipeline_parallel_schedule,
                                      .ranks = (int)config->parallelism.pipeline_parallel_degree};
    shape->chunks = shape->ranks > 1 ? tess_pipeline_usual_chunks(shape->kind) : 1;
    if (points_of(config)->n > 0)
        return count_named(config, shape);
    if (each == 0 || shape->ranks == 1)
        return TESS_OK;
    TESS_TRY_CTX(tess_pipeline_count_stages(shape->kind, (int)n_layers, each,
                                            counted(config->parallelism.pipeline_parallel_first_stage_less_layers),
                                            counted(config->parallelism.pipeline_parallel_last_stage_less_layers),
                                            shape->ranks, &shape->chunks),
                 "parallelism.pipeline_parallel_layers_per_stage");
    return TESS_OK;
}

/* Checks that the schedule allows this number of micro-batches. Messages name the key that sets it. */
static tess_status check_micro_batches(const tess_config *config, const tess_pipeline_schedule *shape)
{
    int64_t local = config->training.local_batch_size, n_micro = tess_config_micro_batches(config);
    const tess_coordinates at = tess_coordinates_of(&config->parallelism, 0);
    int n_local = (int)tess_coordinates_rounds(&at, n_micro), ranks = shape->ranks;
    if (tess_pipeline_allows(shape->kind, ranks, shape->chunks, n_local) == TESS_OK)
        return TESS_OK;
    return tess_fail_context(TESS_E_INVALID,
                             "parallelism.pipeline_parallel_schedule: training.global_batch_size=%lld has %d "
                             "micro-batches a rank: set training.global_batch_size=%lld, or another schedule",
                             (long long)config->training.global_batch_size, n_local,
                             (long long)(tess_pipeline_fill_up(shape->kind, ranks, n_local) * at.n_data * local));
}

/* The largest number of pipeline ranks that divides the number of ranks and gives each stage at least one layer. */
static int largest_degree(const tess_config *config, const tess_pipeline_schedule *shape, int64_t n_layers)
{
    int64_t ranks = shape->ranks * tess_coordinates_of(&config->parallelism, 0).n_data,
            degree = n_layers / shape->chunks;
    while (degree > 1 && ranks % degree != 0)
        degree--;
    return degree > 1 ? (int)degree : 1;
}

/* Checks that the schedule has enough layers and micro-batches. */
static tess_status check_stages(const tess_config *config, const tess_pipeline_schedule *shape, int64_t n_layers)
{
    if (shape->ranks == 1)
        return TESS_OK;
    TESS_CHECK(n_layers >= (int64_t)shape->ranks * shape->chunks, TESS_E_INVALID,
               "parallelism.pipeline_parallel_degree: %d ranks with %d stage%s each (%s) are more stages than the "
               "model's %lld layers: give a degree of %d%s",
               shape->ranks, shape->chunks, shape->chunks == 1 ? "" : "s", tess_pipeline_kind_name(shape->kind),
               (long long)n_layers, largest_degree(config, shape, n_layers),
               shape->chunks > 1 ? ", or a schedule with one stage a rank, such as 1f1b" : "");
    return check_micro_batches(config, shape);
}

/* One layer of each kind: layers of one kind have the same cost, unless the configuration names some of their
 * parameters. */
typedef struct layer_samples {
    tess_model *model;
    int unit[TESS_MAX_LAYERS]; /* the unit of the model that is like each layer */
} layer_samples;

static tess_status create_samples(tess_mem *mem, const tess_config *config, const tess_model_config *sizes,
                                  layer_samples *samples)
{
    tess_model_config few = *sizes;
    const bool named = config->training.freeze.n > 0 || sizes->lora.rank > 0;
    few.n_layers = 0;
    for (int64_t layer = 0; layer < sizes->n_layers; layer++) {
        int64_t like = 0;
        while (like < few.n_layers && (named || few.layers[like] != sizes->layers[layer]))
            like++;
        if (like == few.n_layers)
            few.layers[few.n_layers++] = sizes->layers[layer];
        samples->unit[layer] = (int)(1 + like);
    }
    TESS_TRY(tess_model_create(mem, &few, &samples->model));
    tess_config_freeze(config, samples->model);
    return TESS_OK;
}

static tess_status cut_by_cost(tess_mem *mem, const layer_samples *samples, int n_layers, int64_t seq_len, int n_stages,
                               int *first)
{
    const tess_model *model = samples->model;
    TESS_AUTO(tess_mem_drop) double *costs = NULL;
    TESS_TRY(TESS_NEW(mem, n_layers, "layers", &costs));
    for (int layer = 0; layer < n_layers; layer++)
        costs[layer] = tess_model_unit_flops_per_token(model, samples->unit[layer], seq_len);
    const int64_t head = 1 + tess_model_get_config(model)->n_layers;
    return tess_pipeline_cut_by_cost(mem, costs, n_layers, 0,
                                     tess_model_unit_flops_per_token(model, (int)head, seq_len), n_stages, first);
}

/* The name of a layer: that of the first one with another number. */
static void name_layer(const tess_model *model, int layer, char name[TESS_UNIT_NAME_SIZE])
{
    const char *of_first = tess_model_unit_name(model, 1), *dot = strrchr(of_first, '.');
    snprintf(name, TESS_UNIT_NAME_SIZE, "%.*s.%d", (int)(dot - of_first), of_first, layer);
}

/* Whether `name` is the layer's name, or the end of it: "layers.4" and "4" are "model.layers.4". */
static bool is_name(const tess_model *model, int layer, const char *name)
{
    char whole[TESS_UNIT_NAME_SIZE];
    name_layer(model, layer, whole);
    const size_t n = strlen(whole), end = strlen(name);
    return end > 0 && end <= n && strcmp(whole + n - end, name) == 0 && (end == n || whole[n - end - 1] == '.');
}

/* Cuts before the named layers. */
static tess_status cut_by_name(const tess_text_list *points, const tess_model *model, int n_layers, int *first)
{
    first[0] = 0;
    for (int i = 0; i < points->n; i++) {
        char before[TESS_UNIT_NAME_SIZE], last[TESS_UNIT_NAME_SIZE];
        int layer = first[i] + 1;
        while (layer < n_layers && !is_name(model, layer, points->item[i]))
            layer++;
        name_layer(model, first[i], before);
        name_layer(model, n_layers - 1, last);
        TESS_CHECK(layer < n_layers, TESS_E_INVALID,
                   "parallelism.pipeline_parallel_split_points: '%s' is no layer after %s, where the stage before it "
                   "begins: name layers in their order, up to %s",
                   points->item[i], before, last);
        first[i + 1] = layer;
    }
    first[points->n + 1] = n_layers;
    return TESS_OK;
}

/* Cuts the model into stages. The user may name the first layers. If the user counts embedding and head in layers,
 * stages have equal numbers of layers. Otherwise they have equal numbers of operations: the head of a small model
 * takes as long as some of its layers, and frozen parameters have no gradient. */
static tess_status cut(tess_mem *mem, const tess_config *config, const tess_model_config *sizes, int n_stages,
                       int *first)
{
    int64_t first_less = config->parallelism.pipeline_parallel_first_stage_less_layers,
            last_less = config->parallelism.pipeline_parallel_last_stage_less_layers;
    layer_samples samples = {.model = NULL};
    const int n_layers = (int)sizes->n_layers;
    const bool by_name = n_stages > 1 && points_of(config)->n > 0;
    if (!by_name && (n_stages == 1 || first_less >= 0 || last_less >= 0)) {
        TESS_TRY_CTX(tess_pipeline_cut_evenly(n_layers, counted(first_less), counted(last_less), n_stages, first),
                     "parallelism.pipeline_parallel_degree");
        return TESS_OK;
    }
    TESS_TRY(create_samples(mem, config, sizes, &samples));
    tess_status status = by_name ? cut_by_name(points_of(config), samples.model, n_layers, first)
                                 : cut_by_cost(mem, &samples, n_layers, config->training.seq_len, n_stages, first);
    tess_model_destroy(&samples.model);
    return status;
}

/* Fills in the layers of each chunk, in order, and their units. */
static void fill_plan(tess_stage_plan *plan, bool tied)
{
    const tess_pipeline_schedule *shape = &plan->shape;
    const int *first = plan->first;
    int n_stages = shape->ranks * shape->chunks;
    const bool has_head = tess_pipeline_rank_of(shape, n_stages - 1) == plan->rank;
    /* 1: unit 0 is a table without its embedding */
    int unit = tied && has_head && tess_pipeline_rank_of(shape, 0) != plan->rank;
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
    tess_status status;
    *plan = (tess_stage_plan){.rank = rank, .csv = config->parallelism.pipeline_parallel_schedule_csv};
    TESS_TRY(count_chunks(config, model->n_layers, &plan->shape));
    int n_stages = plan->shape.ranks * plan->shape.chunks;
    TESS_TRY(check_stages(config, &plan->shape, model->n_layers));
    TESS_GOTO(TESS_NEW(mem, n_stages + 1, "stages", &plan->first), plan);
    TESS_GOTO(TESS_PART(plan->first, model->n_layers, "layers", &plan->layers), plan);
    TESS_GOTO(TESS_PART(plan->first, plan->shape.chunks, "chunks", &plan->units), plan);
    TESS_GOTO(cut(mem, config, model, n_stages, plan->first), plan);
    fill_plan(plan, model->tied);
    return TESS_OK;
plan:
    tess_stage_plan_free(mem, plan);
    return status;
}

void tess_stage_plan_free(tess_mem *mem, tess_stage_plan *plan)
{
    tess_mem_free(mem, plan->own_param);
    tess_mem_free(mem, plan->first); /* the other arrays are parts of it */
    *plan = (tess_stage_plan){0};
}

void tess_stage_part_share(const tess_coordinates *at, tess_model_part *part)
{
    part->tp_rank = at->place[TESS_AXIS_TP];
    part->tp_degree = at->degree[TESS_AXIS_TP];
    part->ep_rank = at->expert;
    part->ep_degree = at->n_experts;
}

tess_status tess_stage_create_part(tess_mem *mem, const tess_config *config, const tess_model_config *model, int pp,
                                   int tp, tess_model **part)
{
    const tess_coordinates at = tess_coordinates_of(&config->parallelism, tp);
    tess_stage_plan plan;
    *part = NULL;
    TESS_TRY(tess_stage_plan_create(mem, config, model, pp, &plan));
    tess_stage_part_share(&at, &plan.part);
    tess_status status = tess_model_create_part(mem, model, &plan.part, part);
    tess_stage_plan_free(mem, &plan);
    return status;
}

void tess_stage_ends(const tess_stage_plan *plan, const tess_model *model, int chunk, bool *below, bool *above)
{
    int stage = tess_pipeline_stage(&plan->shape, plan->rank, chunk);
    *below = stage > 0 ? tess_pipeline_crosses(&plan->shape, stage - 1) : tess_model_copies_table(model);
    /* If the next stage is on this rank, too, it reads this buffer. */
    *above = stage < plan->shape.ranks * plan->shape.chunks - 1;
}

static tess_status build_lists(tess_mem *mem, const tess_stage_plan *plan, int n_local,
                               tess_pipeline_schedule *schedule)
{
    const tess_pipeline_schedule *shape = &plan->shape;
    if (plan->csv[0] == '\0')
        return tess_pipeline_build(mem, shape->kind, shape->ranks, shape->chunks, n_local, schedule);
    tess_pipeline_schedule of_file = *shape;
    of_file.micros = n_local;
    TESS_TRY_CTX(tess_pipeline_load_csv(mem, plan->csv, &of_file, schedule),
                 "parallelism.pipeline_parallel_schedule_csv");
    return TESS_OK;
}

tess_status tess_stage_check_order(tess_mem *mem, const tess_stage_plan *plan, int n_local)
{
    tess_pipeline_schedule schedule;
    TESS_TRY(build_lists(mem, plan, n_local, &schedule));
    tess_pipeline_free(&schedule);
    return TESS_OK;
}

tess_status tess_stage_build(tess_mem *mem, const tess_stage_plan *plan, const tess_model *model, int n_local,
                             tess_pipeline_schedule *schedule)
{
    const bool ties = tess_model_trains_table(model) || tess_model_copies_table(model);
    TESS_TRY(build_lists(mem, plan, n_local, schedule));
    tess_status status = ties ? tess_pipeline_tie(schedule) : TESS_OK;
    if (status != TESS_OK)
        tess_pipeline_free(schedule);
    return status;
}

tess_status tess_stage_own_params(tess_mem *mem, tess_stage_plan *plan, const tess_model *whole,
                                  const tess_model *model)
{
    const int n = tess_model_n_params(whole);
    TESS_TRY(TESS_NEW(mem, n, "parameters", &plan->own_param));
    for (int i = 0; i < n; i++) {
        int own = tess_model_find_param(model, tess_model_param(whole, i)->name);
        plan->own_param[i] = own >= 0 && tess_model_param(model, own)->copy ? -1 : own;
    }
    return TESS_OK;
}

static tess_status count_sets(tess_mem *mem, const tess_pipeline_schedule *schedule, int rank, int *n_sets)
{
    TESS_AUTO(tess_mem_drop) int *set = NULL;
    TESS_TRY(TESS_NEW(mem, schedule->micros, "micro-batches", &set));
    return tess_pipeline_sets(schedule, rank, set, n_sets);
}

tess_status tess_stage_slots(tess_mem *mem, tess_stage_plan *plan, const tess_model *model, int n_local,
                             tess_executor_options *options)
{
    tess_pipeline_schedule schedule;
    TESS_TRY_CTX(tess_stage_build(mem, plan, model, n_local, &schedule), "parallelism.pipeline_parallel_schedule");
    const int *slots = schedule.lists[plan->rank].slots;
    options->n_slots = 0;
    for (int chunk = 0; chunk < plan->shape.chunks; chunk++)
        options->n_slots += slots[chunk];
    tess_status status = TESS_PART(plan->first, options->n_slots, "slots", &plan->slots);
    plan->n_slots = options->n_slots;
    for (int chunk = 0, at = 0; status == TESS_OK && chunk < plan->shape.chunks; chunk++)
        for (int i = 0; i < slots[chunk]; i++)
            plan->slots[at++] = plan->units[chunk];
    if (status == TESS_OK)
        status = tess_pipeline_unread(&schedule, plan->rank, &plan->n_spares);
    if (status == TESS_OK)
        status = count_sets(mem, &schedule, plan->rank, &plan->n_sets);
    const int n_tables = schedule.tables;
    options->split_backward = tess_pipeline_splits_backward(&schedule);
    tess_pipeline_free(&schedule);
    options->slot_units = plan->slots;
    options->n_tables = tess_model_trains_table(model) ? n_tables : 0;
    return status;
}

/* ---- Description in words ---- */
static tess_status add_bubble(tess_mem *mem, const tess_stage_plan *plan, const tess_model *whole, int64_t seq_len,
                              int n_local, tess_buffer *out)
{
    TESS_AUTO(tess_pipeline_free) tess_pipeline_schedule schedule = {0};
    TESS_AUTO(tess_pipeline_report_free) tess_pipeline_report report = {0};
    int n_stages = plan->shape.ranks * plan->shape.chunks;
    TESS_AUTO(tess_mem_drop) double *shares = NULL;
    const double mean = tess_model_flops_per_token(whole, seq_len) / n_stages;
    TESS_TRY(TESS_NEW(mem, n_stages, "stages", &shares));
    for (int g = 0; g < n_stages; g++) {
        for (int layer = plan->first[g]; layer < plan->first[g + 1]; layer++)
            shares[g] += tess_model_unit_flops_per_token(whole, 1 + layer, seq_len) / mean;
        if (g == n_stages - 1)
            shares[g] += tess_model_unit_flops_per_token(whole, tess_model_n_units(whole) - 1, seq_len) / mean;
    }
    const tess_pipeline_costs costs = {.forward = 1, .backward = 2, .input = 1, .weight = 1, .share = shares};
    TESS_TRY(build_lists(mem, plan, n_local, &schedule));
    TESS_TRY(tess_pipeline_check(&schedule, &costs, &report));
    return tess_buffer_printf(out, "; of their time, %.1f%% is idle if messages take none", 100 * report.bubble);
}

tess_status tess_stage_plan_describe(tess_mem *mem, const tess_stage_plan *plan, const tess_model *whole,
                                     int64_t seq_len, int n_local, tess_buffer *out)
{
    char layers[TESS_STAGE_LAYERS];
    int n_stages = plan->shape.ranks * plan->shape.chunks;
    TESS_TRY(tess_buffer_printf(out, "pipeline: %s, %d micro-batch%s through %d stages of layers",
                                tess_pipeline_kind_name(plan->shape.kind), n_local, n_local == 1 ? "" : "es",
                                n_stages));
    for (int g = 0; g < n_stages; g++)
        TESS_TRY(tess_buffer_printf(out, "%s %s", g > 0 ? "," : "", tess_stage_layers(plan, g, layers)));
    return add_bubble(mem, plan, whole, seq_len, n_local, out);
}
