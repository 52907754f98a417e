/* Predicts the memory of ranks from dry ones, and finds the host whose ranks need most. */
#include <math.h>
#include <string.h>

#include "base/text/text.h"
#include "plan/dry_rank.h"
#include "plan/memory_need.h"

tess_memory_plan tess_memory_plan_of(const tess_config *c, int n_local)
{
    return (tess_memory_plan){.config = c, .n_local = n_local, .n_threads = (int)c->training.threads};
}

static double sum_of(const double pools[TESS_POOL_COUNT])
{
    double sum = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        sum += pools[pool];
    return sum;
}

/* ---- A rank ---- */
/* Memory for a checkpoint that is written while training continues. */
static double saving_bytes(const tess_memory_plan *plan, const tess_dry_report *dry)
{
    enum { HUGE_PAGE = 2 << 20, WRITTEN_AT_ONCE = 8 << 20 };
    return plan->saves_beside ? ceil(dry->saved / HUGE_PAGE) * HUGE_PAGE + WRITTEN_AT_ONCE : 0;
}

/* Whether the host has two copies of weights and moments that are in a device's memory: one is complete while the
 * other is written. */
static bool keeps_generations(const tess_config *c, const tess_dry_report *dry)
{
    return dry->resides && ((c->recovery.enable && c->recovery.hot) || c->checkpoint.memory_copies);
}

static void describe(const tess_memory_plan *plan, const tess_dry_report *dry, tess_memory_of_rank *out)
{
    *out = (tess_memory_of_rank){.work = dry->work,
                                 .resident = dry->resident,
                                 .n_primary = dry->n_primary,
                                 .n_units = dry->n_units,
                                 .largest_unit = dry->largest_unit,
                                 .n_blocks = dry->n_blocks};
    memcpy(out->pool, dry->host, sizeof(out->pool));
    memcpy(out->disk, dry->disk, sizeof(out->disk));
    memcpy(out->device, dry->device, sizeof(out->device));
    memcpy(out->stages, dry->stages, sizeof(out->stages));
    for (int pool = TESS_POOL_PARAMS; pool <= TESS_POOL_OPTIMIZER && keeps_generations(plan->config, dry); pool++)
        if (pool != TESS_POOL_GRADS) {
            out->pool[pool] *= 2;
            out->disk[pool] *= 2;
        }
    out->pool[TESS_POOL_COMM] += dry->resident;
    out->pool[TESS_POOL_MISC] += saving_bytes(plan, dry);
}

double tess_memory_of_device(const tess_memory_of_rank *rank)
{
    return sum_of(rank->device);
}

tess_status tess_memory_predict_rank(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                     int rank, tess_memory_of_rank *out)
{
    tess_dry_report dry;
    (void)mem;
    TESS_TRY(tess_dry_rank(plan, model, rank, &dry));
    describe(plan, &dry, out);
    return TESS_OK;
}

tess_status tess_memory_device_need(tess_mem *mem, const tess_config *config, const tess_model *model, int rank,
                                    double *bytes)
{
    tess_memory_of_rank need;
    const tess_memory_plan plan = tess_memory_plan_of(config, 1);
    TESS_TRY(tess_memory_predict_rank(mem, tess_model_get_config(model), &plan, rank, &need));
    *bytes = tess_memory_of_device(&need);
    return TESS_OK;
}

/* ---- All ranks ---- */
/* The newest rank of a host with some part of the model that was run dry. */
typedef struct part_need {
    int n;         /* number of the host's ranks with the part so far */
    bool computes; /* it has a micro-batch */
    double bytes, disk;
} part_need;

typedef struct host_need {
    part_need *parts; /* (ranks that share a micro-batch) */
    double bytes, disk;
} host_need;

/* Whether a rank takes what the newest rank with its part takes. The first rank of a host has what others share with
 * it. If groups of shards share copies, each has a first rank. */
static bool is_known(const tess_memory_plan *plan, const part_need *part, bool computes)
{
    return part->n >= 2 && part->computes == computes && plan->config->parallelism.fsdp_reshard_after_forward <= 1;
}

static tess_status add_rank(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                            const tess_coordinates *at, host_need *host, tess_memory_need *need)
{
    part_need *part = &host->parts[at->part];
    const bool computes = tess_coordinates_micro(at, 0) < tess_config_micro_batches(plan->config);
    tess_memory_of_rank each;
    if (!is_known(plan, part, computes)) {
        TESS_TRY((plan->of_task != NULL ? plan->of_task : tess_memory_predict_rank)(mem, model, plan, at->rank, &each));
        *part = (part_need){part->n, computes, sum_of(each.pool), sum_of(each.disk)};
        if (part->bytes > sum_of(need->most.pool))
            need->most = each;
    }
    part->n++;
    host->bytes += part->bytes;
    host->disk += part->disk;
    return TESS_OK;
}

/* Whether the ranks of a host have the same parts of the model as those of an earlier host, whose ranks come first and
 * so have no fewer rows. Parts repeat after as many hosts as there are parts, or earlier. */
static bool is_alike(const tess_memory_plan *plan, const int degree[TESS_AXES], int first, const tess_coordinates *job)
{
    const int n = plan->n_local;
    for (int back = n; back <= first && back <= n * job->n_parts && first + n <= job->world; back += n) {
        int rank = first;
        while (rank < first + n &&
               tess_coordinates_by(degree, rank).part == tess_coordinates_by(degree, rank - back).part)
            rank++;
        if (rank == first + n)
            return true;
    }
    return false;
}

static tess_status predict_hosts(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                 const int degree[TESS_AXES], part_need *parts, tess_memory_need *need)
{
    const tess_coordinates job = tess_coordinates_by(degree, 0);
    for (int first = 0; first < job.world; first += plan->n_local) {
        host_need host = {.parts = parts};
        if (is_alike(plan, degree, first, &job))
            continue;
        memset(parts, 0, (size_t)job.n_parts * sizeof(*parts));
        for (int rank = first; rank < first + plan->n_local && rank < job.world; rank++) {
            const tess_coordinates at = tess_coordinates_by(degree, rank);
            TESS_TRY(add_rank(mem, model, plan, &at, &host, need));
        }
        need->host = fmax(need->host, host.bytes);
        need->host_disk = fmax(need->host_disk, host.disk);
    }
    return TESS_OK;
}

/* Adds the ranks of a host that only draw. */
static tess_status add_drawing(const tess_model_config *model, const tess_memory_plan *plan, tess_memory_need *need)
{
    tess_memory_of_rank drawing;
    if (plan->n_drawing == 0)
        return TESS_OK;
    TESS_TRY(tess_memory_of_drawing(model, plan->config, 0, &drawing));
    need->host += plan->n_drawing * sum_of(drawing.pool);
    return TESS_OK;
}

tess_status tess_memory_predict(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                tess_memory_need *need)
{
    int degree[TESS_AXES];
    TESS_AUTO(tess_mem_drop) part_need *parts = NULL;
    tess_axes_degrees(&plan->config->parallelism, degree);
    *need = (tess_memory_need){.host = 0};
    TESS_TRY(TESS_NEW(mem, (size_t)tess_axes_ranks(degree, TESS_AXIS_OF_MODEL), "plan of memory", &parts));
    TESS_TRY(predict_hosts(mem, model, plan, degree, parts, need));
    return add_drawing(model, plan, need);
}
