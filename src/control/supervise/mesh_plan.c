#include "control/supervise/mesh_plan.h"

#include <stdio.h>

#include "base/mem/scoped.h"
#include "control/launch/mpirun/launch_line.h"
#include "engine/model/model_file.h"
#include "mesh/rank_order.h"

/* ---- Ranks and hosts ---- */
static tess_status count_ranks(const tess_mesh_request *request, const tess_launch_hosts *hosts,
                               const tess_axis_list *axes, int *world)
{
    int on_hosts = 0;
    for (int h = 0; h < hosts->n; h++)
        on_hosts += hosts->hosts[h].slots;
    TESS_CHECK(hosts->n == 0 || request->ranks == 0 || request->ranks == on_hosts, TESS_E_INVALID,
               "--hosts %s has %d ranks, but -n says %d: leave -n away", request->hosts, on_hosts, request->ranks);
    *world = hosts->n > 0 ? on_hosts : request->ranks;
    if (*world == 0)
        TESS_TRY(tess_axis_list_product(axes, world));
    bool open = false;
    for (int i = 0; i < axes->n; i++)
        open = open || axes->axis[i].size == -1;
    TESS_CHECK(!open || *world > 0, TESS_E_INVALID,
               "--mesh %s does not say how many ranks there are: give -n or --hosts, or sizes of 1 or more",
               request->axes);
    *world = *world > 0 ? *world : 1;
    return TESS_OK;
}

static tess_status place_ranks(tess_mesh_plan *plan, const tess_launch_hosts *hosts)
{
    int rank = 0;
    if (hosts->n == 0)
        return TESS_OK;
#define ARRAY(field, n, size) \
    TESS_TRY(tess_mem_alloc_array(plan->mem, TESS_POOL_MISC, (size_t)(n), size, "hosts", (void **)&plan->field))
    ARRAY(layout.hosts, plan->layout.size, sizeof(plan->layout.hosts[0]));
    ARRAY(host_texts, hosts->n, LAUNCH_NAME_BYTES);
    ARRAY(host_names, hosts->n, sizeof(plan->host_names[0]));
#undef ARRAY
    for (int h = 0; h < hosts->n; h++) {
        plan->host_names[h] = plan->host_texts + (size_t)h * LAUNCH_NAME_BYTES;
        snprintf(plan->host_texts + (size_t)h * LAUNCH_NAME_BYTES, LAUNCH_NAME_BYTES, "%s", hosts->hosts[h].name);
        for (int i = 0; i < hosts->hosts[h].slots && rank < plan->layout.size; i++) /* the others do not train */
            plan->layout.hosts[rank++] = h;
    }
    return TESS_OK;
}

/* Orders the ranks as the configuration says (NULL: there is none), or so that the axis `inside` stays inside hosts. */
static tess_status order_ranks(tess_mesh_plan *plan, const tess_config *config, const char *inside)
{
    tess_mesh_layout *l = &plan->layout;
    TESS_AUTO(tess_mem_drop) int *ranks = NULL;
    bool ordered = true;
    int axis;
    if (config == NULL && inside == NULL)
        return TESS_OK;
    TESS_TRY(TESS_NEW(plan->mem, l->size, "mesh", &ranks));
    if (config != NULL)
        TESS_TRY(tess_rank_order_fill(&config->parallelism, l->hosts, ranks, &ordered));
    else {
        TESS_TRY_CTX(tess_mesh_layout_axis(l, inside, &axis), "--inside");
        TESS_TRY_CTX(tess_mesh_layout_inside(l, axis, ranks), "--inside");
    }
    l->ranks = ordered ? TESS_GIVE(ranks) : NULL;
    return TESS_OK;
}

/* ---- Axes ---- */
static tess_status read_axes(const tess_mesh_request *request, tess_axis_list *axes)
{
    axes->n = 0;
    TESS_CHECK(request->axes != NULL || request->inside == NULL, TESS_E_INVALID,
               "--inside %s orders the ranks of --mesh: in a configuration, set parallelism.inside_hosts=%s",
               request->inside, request->inside);
    if (request->axes == NULL)
        return TESS_OK;
    TESS_CHECK(request->config == NULL && request->n_overrides == 0, TESS_E_INVALID,
               "--mesh %s stands beside a configuration, which has axes of its own: give one of the two",
               request->axes);
    return tess_axis_list_parse(request->axes, axes);
}

static tess_status plan_stages(tess_mesh_plan *plan, const tess_config *config, const tess_model_config *sizes)
{
    if (config->parallelism.pipeline_parallel_degree == 1)
        return TESS_OK;
    TESS_TRY(TESS_NEW(plan->mem, 1, "stages", &plan->stages));
    return tess_stage_plan_create(plan->mem, config, sizes, 0, plan->stages);
}

static void free_placements(tess_mesh_plan *plan)
{
    if (plan->placements != NULL)
        tess_param_placements_free(plan->placements);
    tess_mem_drop(&plan->placements);
}

/* Plans where the model's parts are, if the configuration names a model. Only stages need the model: without them, a
 * model that cannot be read or cut leaves the placements out. */
static tess_status plan_model(tess_mesh_plan *plan, tess_config *config, int world)
{
    tess_model_config sizes;
    const bool has_stages = config->parallelism.pipeline_parallel_degree > 1;
    if (config->model.config[0] == '\0' && config->model.path[0] == '\0')
        return TESS_OK;
    tess_config_assume_batch(config);
    TESS_TRY(TESS_NEW(plan->mem, 1, "placements", &plan->placements));
    tess_status status = tess_config_check_step(config, world);
    if (status == TESS_OK)
        status = tess_config_load_model(config, NULL, &sizes);
    if (status == TESS_OK)
        status = plan_stages(plan, config, &sizes);
    if (status == TESS_OK)
        status = tess_param_placements_create(plan->mem, config, &sizes, plan->placements);
    if (status == TESS_OK || status == TESS_E_NOMEM || (has_stages && status != TESS_E_NOT_FOUND))
        return status;
    snprintf(plan->no_placements, sizeof(plan->no_placements), "%s", tess_error_message());
    tess_error_clear();
    free_placements(plan);
    return TESS_OK;
}

static tess_status read_config(tess_mesh_plan *plan, tess_config *config, const tess_launch_hosts *hosts, int *world,
                               tess_axis_list *axes)
{
    int slots[LAUNCH_MOST_HOSTS];
    for (int h = 0; h < hosts->n; h++)
        slots[h] = hosts->hosts[h].slots;
    TESS_TRY(tess_config_fit_hosts(config, slots, hosts->n > 0 ? hosts->n : 1));
    TESS_TRY(tess_config_check_degrees(config, *world));
    axes->n = tess_axes_of(&config->parallelism, axes->axis);
    TESS_TRY(plan_model(plan, config, *world));
    *world = tess_config_trainers(config, *world);
    return TESS_OK;
}

static tess_status make(tess_mesh_plan *plan, const tess_mesh_request *request, tess_launch_hosts *hosts)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    const bool by_config = request->axes == NULL;
    tess_axis_list axes;
    int world = 0;
    if (request->hosts != NULL)
        TESS_TRY_CTX(tess_launch_hosts_parse(request->hosts, hosts), "--hosts");
    TESS_TRY(read_axes(request, &axes));
    TESS_TRY(count_ranks(request, hosts, &axes, &world));
    if (by_config) {
        TESS_TRY(tess_config_load(plan->mem, request->config, request->overrides, request->n_overrides, &config));
        TESS_TRY(read_config(plan, &config, hosts, &world, &axes));
    }
    TESS_TRY(tess_mesh_layout_fit(axes.axis, axes.n, world, &plan->layout));
    if (request->axis != NULL)
        TESS_TRY_CTX(tess_mesh_layout_axis(&plan->layout, request->axis, &plan->axis), "--axis");
    TESS_TRY(place_ranks(plan, hosts));
    return order_ranks(plan, by_config ? &config : NULL, request->inside);
}

tess_status tess_mesh_plan_make(tess_mem *mem, const tess_mesh_request *request, tess_mesh_plan *plan)
{
    TESS_AUTO(tess_mem_drop) tess_launch_hosts *hosts = NULL;
    *plan = (tess_mesh_plan){.mem = mem, .axis = -1};
    TESS_TRY(TESS_NEW(mem, 1, "hosts", &hosts));
    return make(plan, request, hosts);
}

void tess_mesh_plan_free(tess_mesh_plan *plan)
{
    tess_mem_free(plan->mem, plan->layout.hosts);
    tess_mem_free(plan->mem, plan->layout.ranks);
    tess_mem_free(plan->mem, plan->host_texts);
    tess_mem_free(plan->mem, plan->host_names);
    if (plan->stages != NULL)
        tess_stage_plan_free(plan->mem, plan->stages);
    tess_mem_free(plan->mem, plan->stages);
    free_placements(plan);
    *plan = (tess_mesh_plan){0};
}
