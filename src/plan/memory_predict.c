/* Predicts the memory of ranks from dry ones, and finds the host whose ranks need most. */
#include <math.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "plan/dry_rank.h"
#include "plan/memory_need.h"
#include "plan/placements.h"

tess_memory_plan tess_memory_plan_of(const tess_config *c, int n_local)
{
    return (tess_memory_plan){.config = c, .n_local = n_local, .n_threads = (int)c->training.threads};
}

/* ---- Pools ---- */
double tess_pools_sum(const double pools[TESS_POOL_COUNT])
{
    double sum = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        sum += pools[pool];
    return sum;
}

size_t tess_pools_format(const double pools[TESS_POOL_COUNT], char *text, size_t size, size_t at)
{
    char bytes[32];
    const char *separator = "";
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        if (pools[pool] > 0) {
            at = tess_text_add(text, size, at, "%s%s %s", separator, tess_pool_name((tess_pool)pool),
                               tess_format_bytes(pools[pool], bytes, sizeof(bytes)));
            separator = ", ";
        }
    return at;
}

/* ---- A rank ---- */
/* Memory for a checkpoint that is written while training continues. */
static double saving_bytes(const tess_memory_plan *plan, const tess_dry_report *dry)
{
    enum { HUGE_PAGE = 2 << 20, WRITTEN_AT_ONCE = 8 << 20 };
    return plan->saves_beside && dry->n_blocks > 0 ? ceil(dry->saved / HUGE_PAGE) * HUGE_PAGE + WRITTEN_AT_ONCE : 0;
}

/* Whether the host has two copies of weights and moments that are in a device's memory: one is complete while the
 * other is written. */
static bool keeps_generations(const tess_config *c, const tess_dry_report *dry)
{
    return dry->resides && ((c->recovery.enable && c->recovery.hot) || c->checkpoint.memory_copies);
}

tess_memory_of_rank tess_memory_of_report(const tess_memory_plan *plan, const tess_dry_report *dry)
{
    tess_memory_of_rank out = {.work = dry->work,
                               .resident = dry->resident,
                               .n_units = dry->n_units,
                               .largest_unit = dry->largest_unit,
                               .n_blocks = dry->n_blocks};
    memcpy(out.pool, dry->host, sizeof(out.pool));
    memcpy(out.disk, dry->disk, sizeof(out.disk));
    memcpy(out.device, dry->device, sizeof(out.device));
    memcpy(out.stages, dry->stages, sizeof(out.stages));
    for (int pool = TESS_POOL_PARAMS; pool <= TESS_POOL_OPTIMIZER && keeps_generations(plan->config, dry); pool++)
        if (pool != TESS_POOL_GRADS) {
            out.pool[pool] += dry->engine_host[pool];
            out.disk[pool] += dry->engine_disk[pool];
        }
    out.pool[TESS_POOL_COMM] += dry->resident;
    out.pool[TESS_POOL_MISC] += saving_bytes(plan, dry);
    return out;
}

tess_status tess_memory_predict_rank(const tess_model_config *model, const tess_memory_plan *plan, int rank,
                                     tess_memory_of_rank *out)
{
    tess_dry_report dry;
    TESS_TRY(tess_dry_rank(plan, model, rank, &dry));
    *out = tess_memory_of_report(plan, &dry);
    return TESS_OK;
}

tess_status tess_memory_device_need(TESS_UNUSED tess_mem *mem, const tess_config *config, const tess_model *model,
                                    int rank, double *bytes)
{
    tess_memory_of_rank need;
    const tess_memory_plan plan = tess_memory_plan_of(config, 1);
    TESS_TRY(tess_memory_predict_rank(tess_model_get_config(model), &plan, rank, &need));
    *bytes = tess_pools_sum(need.device);
    return TESS_OK;
}

/* ---- Ranks that take the same ---- */
/* The facts that distinguish ranks of a plan. Ranks with equal keys take the same memory and share a dry rank. Its bits
 * `first` and `whole` are indexed by sets of axes: the rank is the first of its host among the ranks that differ from
 * it on these axes only, and all of those are on its host. What ranks share counts for the first of them. */
typedef struct rank_key {
    uint64_t rows; /* hash of the rows that the rank has of each parameter */
    uint32_t first, whole;
    int32_t part, replica, shard; /* shard 0: the rows determine the memory */
    int32_t computes, trains;
    int32_t sender; /* its rank + 1, if it sends weights to ranks that only draw */
} rank_key;

_Static_assert(sizeof(rank_key) == sizeof(uint64_t) + 8 * sizeof(int32_t),
               "keys are compared as bytes, so they have no padding");

typedef struct known_rank {
    rank_key key;
    tess_memory_of_rank need;
} known_rank;

struct tess_memory_ranks {
    tess_mem *mem;
    const tess_model_config *model;
    const tess_memory_plan *plan;
    int degree[TESS_AXES];
    bool is_exact;
    tess_param_placements placements;
    known_rank *known;
    size_t n_known, room;
};

static void find_neighbours(const tess_memory_ranks *r, const tess_coordinates *at, rank_key *key)
{
    enum { SETS = 1 << TESS_AXES };
    const int begin = at->rank / r->plan->n_local * r->plan->n_local;
    int n[SETS] = {0};
    for (int other = begin; other < begin + r->plan->n_local && other < at->world; other++) {
        const tess_coordinates of = tess_coordinates_by(r->degree, other);
        int differ = 0;
        for (int axis = 0; axis < TESS_AXES; axis++)
            differ |= (of.place[axis] != at->place[axis]) << axis;
        for (int set = 0; set < SETS; set++) {
            n[set] += (differ & ~set) == 0;
            key->first |= (uint32_t)(other == at->rank && n[set] == 1) << set;
        }
    }
    for (int set = 0; set < SETS; set++) {
        int all = 1;
        for (int axis = 0; axis < TESS_AXES; axis++)
            all *= set >> axis & 1 ? r->degree[axis] : 1;
        key->whole |= (uint32_t)(n[set] == all) << set;
    }
}

/* Hashes the numbers of elements of each parameter that the rank holds, or sums. */
static uint64_t hash_rows(const tess_memory_ranks *r, const tess_coordinates *at)
{
    uint64_t hash = 0;
    for (int i = 0; i < r->placements.n; i++) {
        const tess_param_placement *p = &r->placements.list[i];
        tess_box box = tess_param_placement_box(p, at);
        if (p->place[TESS_AXIS_SHARD].kind != TESS_SHARD)
            tess_shard_rows(box.size[0], at->n_shards, at->shard, &box.begin[0], &box.size[0]);
        hash = tess_hash_bytes(box.size, (size_t)p->shape.n_dims * sizeof(box.size[0]), hash);
    }
    return hash;
}

static rank_key key_of(const tess_memory_ranks *r, int rank)
{
    rank_key key = {.trains = false};
    const tess_config *c = r->plan->config;
    if (rank >= tess_coordinates_by(r->degree, 0).world)
        return key;
    const tess_coordinates at = tess_coordinates_of(&r->plan->config->parallelism, rank);
    /* Groups of shards may share copies, a matrix is on one rank, and a task has models of other sizes. */
    const bool by_place = c->parallelism.fsdp_reshard_after_forward > 1 ||
                          (r->is_exact && (c->optimizer.name == TESS_MUON || r->plan->task != NULL));
    key = (rank_key){.rows = hash_rows(r, &at),
                     .part = at.part,
                     .replica = at.place[TESS_AXIS_REPLICATE],
                     .shard = by_place ? at.shard : 0,
                     .computes = tess_coordinates_micro(&at, 0) < tess_config_micro_batches(c),
                     .trains = true,
                     .sender = r->plan->task != NULL && rank < c->rollout.ranks ? rank + 1 : 0};
    find_neighbours(r, &at, &key);
    return key;
}

tess_status tess_memory_ranks_open(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                   bool is_exact, tess_memory_ranks **out)
{
    TESS_TRY(TESS_NEW(mem, 1, "ranks of a plan", out));
    tess_memory_ranks *r = *out;
    *r = (tess_memory_ranks){.mem = mem, .model = model, .plan = plan, .is_exact = is_exact};
    tess_axes_degrees(&plan->config->parallelism, r->degree);
    tess_status status = tess_param_placements_create(mem, plan->config, model, &r->placements);
    if (status != TESS_OK)
        tess_memory_ranks_close(out);
    return status;
}

tess_status tess_memory_ranks_need(tess_memory_ranks *r, int rank, const tess_memory_of_rank **need)
{
    const rank_key key = key_of(r, rank);
    size_t i = 0;
    while (i < r->n_known && memcmp(&r->known[i].key, &key, sizeof(key)) != 0)
        i++;
    if (i == r->n_known) {
        TESS_TRY(tess_mem_make_room(r->mem, TESS_POOL_MISC, r->n_known, sizeof(*r->known), "ranks of a plan", &r->room,
                                    &r->known));
        TESS_TRY(tess_memory_predict_rank(r->model, r->plan, rank, &r->known[i].need));
        r->known[i].key = key;
        r->n_known++;
    }
    *need = &r->known[i].need;
    return TESS_OK;
}

void tess_memory_ranks_close(tess_memory_ranks **handle)
{
    tess_memory_ranks *r = *handle;
    if (r == NULL)
        return;
    tess_param_placements_free(&r->placements);
    tess_mem_free(r->mem, r->known);
    tess_mem_free(r->mem, r);
    *handle = NULL;
}

/* ---- All ranks ---- */
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

static tess_status predict_hosts(tess_memory_ranks *r, tess_memory_need *need)
{
    const tess_memory_plan *plan = r->plan;
    const tess_coordinates job = tess_coordinates_by(r->degree, 0);
    const tess_memory_of_rank *each;
    for (int first = 0; first < job.world; first += plan->n_local) {
        double bytes = 0, disk = 0;
        if (is_alike(plan, r->degree, first, &job))
            continue;
        for (int rank = first; rank < first + plan->n_local && rank < job.world; rank++) {
            TESS_TRY(tess_memory_ranks_need(r, rank, &each));
            bytes += tess_pools_sum(each->pool);
            disk += tess_pools_sum(each->disk);
            if (tess_pools_sum(each->pool) > tess_pools_sum(need->most.pool))
                need->most = *each;
        }
        need->host = fmax(need->host, bytes);
        need->host_disk = fmax(need->host_disk, disk);
    }
    if (plan->n_drawing > 0) {
        TESS_TRY(tess_memory_ranks_need(r, job.world, &each));
        need->host += plan->n_drawing * tess_pools_sum(each->pool);
        if (tess_pools_sum(each->pool) > tess_pools_sum(need->most.pool))
            need->most = *each;
    }
    return TESS_OK;
}

tess_status tess_memory_predict(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                tess_memory_need *need)
{
    TESS_AUTO(tess_memory_ranks_close) tess_memory_ranks *ranks = NULL;
    *need = (tess_memory_need){.host = 0};
    TESS_TRY(tess_memory_ranks_open(mem, model, plan, false, &ranks));
    return predict_hosts(ranks, need);
}
