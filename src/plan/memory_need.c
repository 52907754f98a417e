#include "plan/memory_need.h"

#include <stdio.h>

#include "base/os/memory_group.h"
#include "base/text/text.h"
#include "job/job_memory.h"
#include "parallel/pipeline/pipeline.h"
#include "engine/offload.h"

/* ---- Settings that would fit ---- */
typedef struct memory_search {
    tess_mem *mem;
    const tess_model *model;
    double room;
    tess_status status; /* status of the predictions */
    char *text;
    size_t size, at;
} memory_search;

static bool fits(memory_search *s, const tess_memory_plan *plan)
{
    tess_memory_need need = {0};
    if (s->status != TESS_OK || plan->degree[TESS_AXIS_SHARD] < 1)
        return false;
    s->status = tess_memory_predict(s->mem, s->model, plan, &need);
    if (s->status == TESS_E_INVALID) { /* the schedule needs another number of micro-batches */
        s->status = TESS_OK;
        tess_error_clear();
        return false;
    }
    return s->status == TESS_OK && need.host <= s->room;
}

/* The number of ranks that together have one copy of the layers. */
static int model_ranks(const tess_memory_plan *plan)
{
    return tess_axes_ranks(plan->degree, TESS_AXIS_OF_MODEL);
}

/* Returns the plan for this many hosts and ranks per host. If a copy of the model does not divide the ranks evenly,
 * the number of shards is 0. */
static tess_memory_plan over(const tess_memory_plan *plan, int n_hosts, int n_local)
{
    tess_memory_plan p = *plan;
    int world =
        /* Number of ranks that have the same layer */
        n_hosts * n_local % model_ranks(&p) == 0 ? n_hosts * n_local / model_ranks(&p) : 0;
    p.n_local = n_local;
    int *replicas = &p.degree[TESS_AXIS_REPLICATE];
    *replicas = world % *replicas == 0 ? *replicas : 1;
    p.degree[TESS_AXIS_SHARD] = world / *replicas;
    return p;
}

/* Returns the plan with all settings that reduce memory at the cost of time. */
static tess_memory_plan leanest(const tess_memory_plan *plan)
{
    tess_memory_plan p = *plan;
    p.policy.strategy = TESS_STRATEGY_FULL;
    p.policy.reshard_after_forward = 1;
    p.degree[TESS_AXIS_SHARD] *= p.degree[TESS_AXIS_REPLICATE];
    p.degree[TESS_AXIS_REPLICATE] = 1;
    p.activations.recompute = TESS_RECOMPUTE_FULL;
    p.local_batch = p.passes = 1;
    return p;
}

#define OFFER(s, ...)                                                                                       \
    do {                                                                                                    \
        (s)->at = tess_text_add((s)->text, (s)->size, (s)->at, "%s", (s)->at > 0 ? ", or with " : "with "); \
        (s)->at = tess_text_add((s)->text, (s)->size, (s)->at, __VA_ARGS__);                                \
    } while (0)

/* Offers the schedule with the fewest micro-batches in progress. */
static void offer_schedule(memory_search *s, const tess_memory_plan *plan)
{
    tess_config config;
    tess_memory_plan p = *plan;
    if (plan->degree[TESS_AXIS_PP] == 1 || plan->config->parallelism.pipeline_parallel_schedule == TESS_PIPELINE_1F1B ||
        s->status != TESS_OK)
        return;
    s->status = tess_config_copy(plan->config, &config);
    config.parallelism.pipeline_parallel_schedule = TESS_PIPELINE_1F1B;
    p.config = &config;
    if (fits(s, &p))
        OFFER(s, "parallelism.pipeline_parallel_schedule=1f1b");
    tess_config_free(&config);
}

/* Offers to put all state on disk. */
static void offer_offload(memory_search *s, const tess_memory_plan *plan)
{
    tess_config config;
    tess_memory_plan p = *plan;
    if (tess_config_offloads_state(plan->config) || s->status != TESS_OK)
        return;
    s->status = tess_config_copy(plan->config, &config);
    config.offload.params = config.offload.grads = config.offload.optimizer = true;
    p.config = &config;
    if (fits(s, &p))
        OFFER(s, "offload.params=true offload.grads=true offload.optimizer=true offload.folder=A_DISK");
    tess_config_free(&config);
}

/* Offers each setting that makes the plan fit by itself. */
static void offer_settings(memory_search *s, const tess_memory_plan *plan)
{
    tess_memory_plan p = *plan;
    int world = tess_axes_ranks(plan->degree, TESS_AXIS_OF_BATCH);
    for (p = over(plan, 1, plan->n_local - 1); world * model_ranks(plan) == plan->n_local && p.n_local > 0;
         p = over(plan, 1, p.n_local - 1))
        if (fits(s, &p)) {
            OFFER(s, "-n %d", p.n_local);
            break;
        }
    p = *plan;
    p.policy.strategy = TESS_STRATEGY_FULL;
    p.degree[TESS_AXIS_SHARD] = world;
    p.degree[TESS_AXIS_REPLICATE] = 1;
    if (fits(s, &p))
        OFFER(s, "parallelism.shard_strategy=full");
    offer_schedule(s, plan);
    p = *plan;
    p.activations.recompute = TESS_RECOMPUTE_FULL;
    if (fits(s, &p))
        OFFER(s, "activation_checkpoint.mode=full");
    offer_offload(s, plan);
    p = *plan;
    for (p.local_batch--; p.local_batch >= p.passes; p.local_batch--)
        if (plan->local_batch % p.local_batch == 0 && fits(s, &p)) {
            OFFER(s, "training.local_batch_size=%lld", (long long)p.local_batch);
            break;
        }
    p = *plan;
    for (p.passes++; p.passes <= p.local_batch; p.passes++)
        if (fits(s, &p)) {
            OFFER(s, "training.passes=%d", p.passes);
            break;
        }
}

/* The smallest number of hosts like this one, with n_local ranks each, that is enough. Only numbers whose ranks
 * divide evenly into copies of the model are tried. 0: no number is enough. */
static int hosts_for(memory_search *s, const tess_memory_plan *plan, int n_local)
{
    int each = 1, below = 0, n = 1;
    while (each * n_local % model_ranks(plan) != 0)
        each++;
    int most = JOB_MAX_HOSTS / each;
    tess_memory_plan p = over(plan, most * each, n_local);
    if (most == 0 || !fits(s, &p))
        return 0;
    for (p = over(plan, n * each, n_local); n < most && !fits(s, &p); p = over(plan, n * each, n_local)) {
        below = n;
        n = 2 * n < most ? 2 * n : most;
    }
    while (n - below > 1) {
        int middle = (below + n) / 2;
        p = over(plan, middle * each, n_local);
        *(fits(s, &p) ? &n : &below) = middle;
    }
    return n * each;
}

static void offer_hosts(memory_search *s, const tess_memory_plan *plan, const char *with)
{
    int n_local = plan->n_local, n = hosts_for(s, plan, n_local);
    if (n == 0 && n_local > 1)
        n = hosts_for(s, plan, n_local = 1);
    if (n > 1)
        OFFER(s, "%d hosts like this one, %d rank%s each%s", n, n_local, n_local > 1 ? "s" : "", with);
}

/* Lists the settings of `lean` that differ from those of `plan`. */
static const char *describe_lean(const tess_memory_plan *plan, const tess_memory_plan *lean, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    if (plan->policy.strategy != lean->policy.strategy)
        at = tess_text_add(text, size, at, "parallelism.shard_strategy=full");
    if (plan->policy.reshard_after_forward != lean->policy.reshard_after_forward)
        at = tess_text_add(text, size, at, "%sparallelism.fsdp_reshard_after_forward=1", at > 0 ? ", " : "");
    if (plan->activations.recompute != lean->activations.recompute)
        at = tess_text_add(text, size, at, "%sactivation_checkpoint.mode=full", at > 0 ? ", " : "");
    if (plan->local_batch != lean->local_batch)
        at = tess_text_add(text, size, at, "%straining.local_batch_size=1", at > 0 ? ", " : "");
    if (plan->passes != lean->passes)
        tess_text_add(text, size, at, "%straining.passes=1", at > 0 ? ", " : "");
    return text;
}

static const char *find_what_fits(memory_search *s, const tess_memory_plan *plan)
{
    char settings[192], with[200];
    const tess_memory_plan lean = leanest(plan);
    s->text[0] = '\0';
    describe_lean(plan, &lean, settings, sizeof(settings));
    offer_settings(s, plan);
    if (s->at == 0 && fits(s, &lean))
        OFFER(s, "%s", settings);
    if (plan->policy.strategy == TESS_STRATEGY_FULL)
        offer_hosts(s, plan, "");
    snprintf(with, sizeof(with), ", %s", settings);
    if (s->at == 0)
        offer_hosts(s, &lean, settings[0] != '\0' ? with : "");
    return s->text;
}

/* ---- The check ---- */
static void describe(const tess_memory_plan *plan, const tess_memory_need *need, char *text, size_t size)
{
    char bytes[32];
    const char *separator = "";
    size_t at = tess_text_add(text, size, 0, "a rank%s%s: ", need->stages[0] != '\0' ? " with " : "", need->stages);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        if (need->rank[pool] > 0) {
            at = tess_text_add(text, size, at, "%s%s %s", separator, tess_pool_name((tess_pool)pool),
                               tess_format_bytes(need->rank[pool], bytes, sizeof(bytes)));
            separator = ", ";
        }
    if (need->resident > 0)
        at = tess_text_add(text, size, at, "; of what is on disk %s at a time (offload.resident)",
                           tess_format_bytes(need->resident, bytes, sizeof(bytes)));
    if (need->copies > 0)
        at = tess_text_add(text, size, at, "; gathered parameters that ranks share %s",
                           tess_format_bytes(need->copies, bytes, sizeof(bytes)));
    if (need->task > 0)
        at = tess_text_add(text, size, at, "; what all take beside training %s",
                           tess_format_bytes(need->task, bytes, sizeof(bytes)));
    if (plan->n_drawing > 0)
        tess_text_add(text, size, at, "; %d of the ranks only draw (rollout.ranks)", plan->n_drawing);
}

tess_status tess_memory_check(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, double room,
                              const char *room_of)
{
    tess_memory_need need;
    char needed[32], free_bytes[32], pools[512], offers[640];
    memory_search search = {.mem = mem, .model = model, .room = room, .text = offers, .size = sizeof(offers)};
    TESS_TRY(tess_memory_predict(mem, model, plan, &need));
    TESS_TRY(tess_offload_check_space(plan->config, need.host_disk));
    if (need.host <= room)
        return TESS_OK;
    describe(plan, &need, pools, sizeof(pools));
    const char *what = find_what_fits(&search, plan);
    TESS_TRY(search.status);
    return TESS_FAIL(TESS_E_INVALID,
                     "%d rank%s of this host would need %s of memory, but %s has %s left (%s). It would "
                     "fit %s. job.ignore_memory=true starts it as it is",
                     plan->n_local + plan->n_drawing, plan->n_local + plan->n_drawing > 1 ? "s" : "",
                     tess_format_bytes(need.host, needed, sizeof(needed)), room_of,
                     tess_format_bytes(room, free_bytes, sizeof(free_bytes)), pools,
                     what[0] != '\0' ? what : "on no number of hosts like this one");
}

tess_status tess_memory_check_here(tess_mem *mem, const tess_model_config *model_config, const tess_config *config,
                                   int n_local, int n_drawing, tess_memory_rank_fn of_task)
{
    bool by_group;
    tess_model *model;
    uint64_t available = tess_memory_available(&by_group);
    tess_memory_plan plan = tess_memory_plan_of(config, n_local);
    plan.n_drawing = n_drawing;
    plan.of_task = of_task != tess_memory_predict_rank ? of_task : NULL;
    if (config->job.ignore_memory)
        available = UINT64_MAX;
    if (available == UINT64_MAX && !tess_config_offloads(config) && config->activation_checkpoint.budget == 0)
        return TESS_OK;
    TESS_TRY(tess_model_create(mem, model_config, &model));
    tess_status status = tess_memory_check(mem, model, &plan, (double)available, by_group ? "its control group" : "it");
    tess_model_destroy(&model);
    return status;
}
