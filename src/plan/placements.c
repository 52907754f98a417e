#include "plan/placements.h"

#include "base/mem/scoped.h"
#include "engine/block_units.h"
#include "engine/model/adapter.h"
#include "engine/stages/rank_stage.h"

static tess_place cut_by(bool is_cut, int dim)
{
    return is_cut ? (tess_place){TESS_SHARD, dim} : (tess_place){TESS_REPLICATE, 0};
}

/* Returns the stage of a unit of a rank's part. */
static int stage_of(const tess_stage_plan *plan, int unit)
{
    int chunk = 0;
    if (unit < plan->units[0].begin) /* a tied table in a stage without its embedding */
        return plan->shape.ranks * plan->shape.chunks - 1;
    while (unit >= plan->units[chunk].end)
        chunk++;
    return tess_pipeline_stage(&plan->shape, plan->rank, chunk);
}

/* Describes the parameter as the ranks at one place of the pipeline hold it. */
static void place_param(const tess_config *config, const tess_stage_plan *plan, const tess_model *part, int index,
                        tess_param_placement *p)
{
    const tess_param *param = tess_model_param(part, index);
    const bool narrow = tess_param_is_narrow(config, part, index, false);
    if (param->copy) {
        p->copy = plan->rank;
        return;
    }
    p->stage = stage_of(plan, param->unit);
    p->owner = plan->rank;
    const bool divided = param->expert && plan->part.ep_degree > 1;
    p->stacked = divided && param->stacked;
    p->unit = p->stacked ? 0 : param->slice.unit;
    p->expert = divided && !p->stacked;
    p->place[TESS_AXIS_TP] = cut_by(p->unit > 0, param->slice.dim);
    p->place[TESS_AXIS_SHARD] = p->place[TESS_AXIS_CP] =
        cut_by(config->parallelism.shard_strategy != TESS_STRATEGY_NONE || narrow, 0);
}

/* Places the parameters of the ranks at one place of the pipeline that have the first experts. */
static tess_status place_rank(const tess_config *config, int rank, tess_param_placements *out)
{
    const tess_model_config *sizes = tess_model_get_config(out->model);
    tess_stage_plan plan;
    tess_model *part;
    TESS_TRY(tess_stage_plan_create(out->mem, config, sizes, rank, &plan));
    const tess_coordinates at = tess_coordinates_of(&config->parallelism, 0);
    tess_stage_part_share(&at, &plan.part);
    out->n_stages = plan.shape.ranks * plan.shape.chunks;
    tess_status status = tess_model_create_part(out->mem, sizes, &plan.part, &part);
    if (status == TESS_OK) {
        tess_config_freeze(config, part);
        for (int i = 0; i < out->n; i++) {
            const int own = tess_model_find_param(part, out->list[i].param->name);
            if (own >= 0)
                place_param(config, &plan, part, own, &out->list[i]);
        }
        tess_model_destroy(&part);
    }
    tess_stage_plan_free(out->mem, &plan);
    return status;
}

/* Places the other experts of each layer. All ranks that divide a layer's experts have as many of them, one after the
 * other. */
static void place_experts(tess_param_placements *out)
{
    const int n_ranks = (int)out->parallelism.expert_parallel_degree;
    for (int begin = 0, end; begin < out->n; begin = end) {
        const tess_param *first = out->list[begin].param;
        for (end = begin + 1;
             end < out->n && out->list[end].param->unit == first->unit && out->list[end].param->expert == first->expert;
             end++)
            ;
        const int each = (end - begin) / n_ranks;
        for (int i = begin + each; i < end && first->expert && !first->stacked; i++) {
            const tess_param_placement *like = &out->list[i - each];
            tess_param_placement *p = &out->list[i];
            const tess_param *param = p->param;
            *p = *like;
            p->param = param;
            p->shape = tess_shape_atleast_1d(&param->shape);
            p->expert++;
        }
    }
}

tess_status tess_param_placements_create(tess_mem *mem, const tess_config *config, const tess_model_config *sizes,
                                         tess_param_placements *out)
{
    *out = (tess_param_placements){.mem = mem, .parallelism = config->parallelism};
    tess_axes_degrees(&config->parallelism, out->degree);
    TESS_TRY(tess_model_create(mem, sizes, &out->model));
    out->n = tess_model_n_params(out->model);
    TESS_TRY(TESS_NEW(mem, out->n, "placements", &out->list));
    for (int i = 0; i < out->n; i++) {
        const tess_param *param = tess_model_param(out->model, i);
        out->list[i] =
            (tess_param_placement){.param = param, .shape = tess_shape_atleast_1d(&param->shape), .copy = -1};
    }
    for (int rank = 0; rank < out->degree[TESS_AXIS_PP]; rank++)
        TESS_TRY(place_rank(config, rank, out));
    if (config->parallelism.expert_parallel_degree > 1)
        place_experts(out);
    return TESS_OK;
}

void tess_param_placements_free(tess_param_placements *placements)
{
    tess_mem_free(placements->mem, placements->list);
    tess_model_destroy(&placements->model);
    *placements = (tess_param_placements){0};
}

/* Reduces the box to what the rank holds of it along one axis. */
static void cut(const tess_param_placement *p, int axis, int64_t unit, const tess_coordinates *at, tess_box *box)
{
    const int dim = p->place[axis].dim, neighbours = at->n_experts / at->degree[TESS_AXIS_TP];
    const int apart = axis == TESS_AXIS_SHARD && (p->expert > 0 || p->stacked) ? neighbours : 1;
    const bool shards = axis == TESS_AXIS_SHARD; /* the ranks of "cp" are shards, too */
    const tess_shares shares = tess_shares_equal((shards ? at->n_shards : at->degree[axis]) / apart);
    int64_t begin, size;
    if (p->place[axis].kind != TESS_SHARD)
        return;
    tess_shares_rows(&shares, box->size[dim] / unit, (shards ? at->shard : at->place[axis]) / apart, &begin, &size);
    box->begin[dim] += begin * unit;
    box->size[dim] = size * unit;
}

tess_box tess_param_placement_box(const tess_param_placement *p, const tess_coordinates *at)
{
    tess_box box = tess_box_whole(&p->shape);
    if (at->place[TESS_AXIS_PP] != p->owner || (p->expert > 0 && at->expert != p->expert - 1))
        return (tess_box){0};
    if (p->stacked) {
        box.size[0] /= at->n_experts;
        box.begin[0] = at->expert * box.size[0];
    }
    cut(p, TESS_AXIS_TP, p->unit, at, &box);
    cut(p, TESS_AXIS_SHARD, 1, at, &box);
    return box;
}
