#include "bench/comm/comm_axes.h"

#include <string.h>

#include "bench/comm/comm_job.h"
#include "bench/measuring_ranks.h"
#include "comm/agree.h"

typedef struct axes_plan {
    const tess_mesh_layout *layout;
    comm_case which; /* the case, except for its number of ranks */
} axes_plan;

static tess_status check_axis(const tess_mesh_layout *l, tess_mesh *mesh, int axis, int64_t rank, tess_mem *mem)
{
    tess_team *team = tess_mesh_team(mesh, l->names[axis]);
    int64_t *gathered, sum = 0;
    TESS_TRY(TESS_NEW(mem, (size_t)l->sizes[axis], "ranks", &gathered));
    tess_status status = tess_all_gather(team, &rank, gathered, 1, TESS_I64, NULL);
    if (status == TESS_OK)
        status = tess_all_reduce(team, &rank, &sum, 1, TESS_I64, TESS_SUM, NULL);
    if (status == TESS_OK)
        status = tess_mesh_layout_check(l, axis, (int)rank, gathered, sum);
    tess_mem_free(mem, gathered);
    return tess_team_agree(tess_mesh_all(mesh), status);
}

/* Measures an axis. The slowest group counts. Collective over the mesh. */
static tess_status measure_axis(tess_mesh *mesh, int axis, comm_case which, tess_mesh_speed *speeds)
{
    comm_time times[COMM_PLAN_SIZES] = {0};
    which.ranks = tess_mesh_axis_size(mesh, axis);
    TESS_TRY(comm_job_measure(&which, tess_mesh_team(mesh, tess_mesh_axis_name(mesh, axis)), true, times));
    for (int i = 0; i < which.n_sizes; i++) {
        double slowest_s = times[i].median_us * 1e-6;
        TESS_TRY(tess_bench_reduce_s(tess_mesh_all(mesh), TESS_MAX, &slowest_s));
        speeds[i] = (tess_mesh_speed){which.bytes[i], slowest_s * 1e6,
                                      (double)which.bytes[i] * comm_op_bus_factor(which.op, which.ranks) / slowest_s};
    }
    return TESS_OK;
}

static tess_status run(tess_runtime *runtime, const void *self, void *out)
{
    const axes_plan *plan = self;
    const tess_mesh_layout *l = plan->layout;
    tess_bench_axes *result = out;
    tess_axis axes[TESS_MESH_MAX_AXES];
    TESS_AUTO(tess_mesh_destroy) tess_mesh *mesh = NULL;
    result->n = plan->which.n_sizes;
    for (int a = 0; a < l->n_axes; a++)
        axes[a] = (tess_axis){l->names[a], l->sizes[a]};
    TESS_TRY(tess_mesh_create(runtime, axes, l->n_axes, &mesh));
    for (int a = 0; a < l->n_axes; a++)
        TESS_TRY(check_axis(l, mesh, a, tess_runtime_rank(runtime), tess_runtime_mem(runtime)));
    for (int a = 0; a < l->n_axes; a++)
        if (l->sizes[a] > 1)
            TESS_TRY(measure_axis(mesh, a, plan->which, result->speeds[a]));
    return TESS_OK;
}

tess_status tess_bench_axes_run(const tess_mesh_layout *layout, size_t most, tess_bench_axes *result)
{
    static const size_t sizes[] = {4 << 10, 4 << 20, 40 << 20, 100 << 20};
    axes_plan plan = {.layout = layout, .which = {.dtype = TESS_F32}};
    int n_ops;
    const comm_op *ops = comm_op_list(&n_ops);
    for (int i = 0; i < n_ops; i++)
        if (strcmp(ops[i].name, "all_reduce") == 0)
            plan.which.op = &ops[i];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (i == 0 || sizes[i] <= most)
            plan.which.bytes[plan.which.n_sizes++] = sizes[i];
    const tess_bench_ranks ranks = {.n = layout->size, .bind = true, .run = run, .plan = &plan};
    return tess_bench_ranks_run(&ranks, result, sizeof(*result));
}
