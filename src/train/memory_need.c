#include "train/memory_need.h"

#include <stdio.h>

#include "base/os/memory_group.h"
#include "base/text/text.h"
#include "job/job_memory.h"

/* ---- The prediction ---- */
tess_memory_plan tess_memory_plan_of(const tess_config *c, int n_local)
{
    return (tess_memory_plan){.policy = tess_engine_policy(c),
                              .activations = tess_engine_activations(c),
                              .passes = (int)c->training.passes,
                              .n_shards = (int)c->parallelism.data_parallel_shard_degree,
                              .n_replicas = (int)c->parallelism.data_parallel_replicate_degree,
                              .n_local = n_local,
                              .local_batch = c->training.local_batch_size,
                              .global_batch = c->training.global_batch_size,
                              .seq_len = c->training.seq_len};
}

static tess_status plan_sharding(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                 tess_fsdp_bytes *bytes)
{
    tess_fsdp *fsdp = NULL;
    tess_unit **units = NULL;
    tess_status status;
    int open = tess_model_get_config(model)->tied ? 0 : -1; /* the head writes the embedding's gradient first */
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)tess_model_n_units(model), sizeof(*units), "units",
                                  (void **)&units));
    TESS_GOTO(tess_fsdp_plan_create(mem, &plan->policy, plan->n_shards, plan->n_replicas, &fsdp), allocated);
    TESS_GOTO(tess_fsdp_set_passes(fsdp, plan->passes), allocated);
    TESS_GOTO(tess_engine_add_units(mem, model, fsdp, units), allocated);
    *bytes = tess_fsdp_plan_bytes(fsdp, plan->global_batch / plan->local_batch, open);
allocated:
    tess_fsdp_destroy(&fsdp);
    tess_mem_free(mem, units);
    return status;
}

tess_status tess_memory_predict(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                tess_memory_need *need)
{
    tess_fsdp_bytes b;
    tess_executor_options activations = plan->activations;
    activations.max_tokens = (plan->local_batch + plan->passes - 1) / plan->passes * plan->seq_len;
    TESS_TRY(plan_sharding(mem, model, plan, &b));
    *need = (tess_memory_need){
        .rank = {[TESS_POOL_PARAMS] = (double)b.params,
                 [TESS_POOL_GRADS] = (double)b.grads,
                 [TESS_POOL_OPTIMIZER] = (double)b.optimizer,
                 [TESS_POOL_ACTIVATIONS] = (double)tess_executor_bytes(model, &activations) +
                                           (double)activations.max_tokens * sizeof(float), /* log-probabilities */
                 [TESS_POOL_COMM] = (double)b.windows},
        .copies = (double)b.copies};
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        need->host += plan->n_local * need->rank[pool];
    int n_teams = (plan->n_local + plan->n_shards - 1) / plan->n_shards;
    need->host += n_teams * need->copies;
    return TESS_OK;
}

/* ---- What would fit ---- */
typedef struct memory_search {
    tess_mem *mem;
    const tess_model *model;
    double room;
    tess_status status; /* of the predictions */
    char *text;
    size_t size, at;
} memory_search;

static bool fits(memory_search *s, const tess_memory_plan *plan)
{
    tess_memory_need need = {0};
    if (s->status == TESS_OK)
        s->status = tess_memory_predict(s->mem, s->model, plan, &need);
    return s->status == TESS_OK && need.host <= s->room;
}

static tess_memory_plan over(const tess_memory_plan *plan, int n_hosts, int n_local)
{
    tess_memory_plan p = *plan;
    int world = n_hosts * n_local;
    p.n_local = n_local;
    p.n_replicas = world % p.n_replicas == 0 ? p.n_replicas : 1;
    p.n_shards = world / p.n_replicas;
    return p;
}

/* What trades time for memory, all of it. */
static tess_memory_plan leanest(const tess_memory_plan *plan)
{
    tess_memory_plan p = *plan;
    p.policy.strategy = TESS_STRATEGY_FULL;
    p.policy.reshard_after_forward = 1;
    p.n_shards *= p.n_replicas;
    p.n_replicas = 1;
    p.activations.recompute = TESS_RECOMPUTE_FULL;
    p.local_batch = p.passes = 1;
    return p;
}

#define OFFER(s, ...)                                                                                       \
    do {                                                                                                    \
        (s)->at = tess_text_add((s)->text, (s)->size, (s)->at, "%s", (s)->at > 0 ? ", or with " : "with "); \
        (s)->at = tess_text_add((s)->text, (s)->size, (s)->at, __VA_ARGS__);                                \
    } while (0)

/* Each setting by itself. */
static void offer_settings(memory_search *s, const tess_memory_plan *plan)
{
    tess_memory_plan p = *plan;
    int world = plan->n_shards * plan->n_replicas;
    for (p = over(plan, 1, plan->n_local - 1); world == plan->n_local && p.n_local > 0;
         p = over(plan, 1, p.n_local - 1))
        if (fits(s, &p)) {
            OFFER(s, "-n %d", p.n_local);
            break;
        }
    p = *plan;
    p.policy.strategy = TESS_STRATEGY_FULL;
    p.n_shards = world;
    p.n_replicas = 1;
    if (fits(s, &p))
        OFFER(s, "parallelism.shard_strategy=full");
    p = *plan;
    p.activations.recompute = TESS_RECOMPUTE_FULL;
    if (fits(s, &p))
        OFFER(s, "activation_checkpoint.mode=full");
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

/* The fewest hosts like this one, each with n_local ranks; 0: no number is enough. */
static int hosts_for(memory_search *s, const tess_memory_plan *plan, int n_local)
{
    int most = JOB_MAX_RANKS / n_local, below = 0, n = 1;
    tess_memory_plan p = over(plan, most, n_local);
    if (!fits(s, &p))
        return 0;
    for (p = over(plan, n, n_local); n < most && !fits(s, &p); p = over(plan, n, n_local)) {
        below = n;
        n = 2 * n < most ? 2 * n : most;
    }
    while (n - below > 1) {
        int middle = (below + n) / 2;
        p = over(plan, middle, n_local);
        *(fits(s, &p) ? &n : &below) = middle;
    }
    return n;
}

static void offer_hosts(memory_search *s, const tess_memory_plan *plan, const char *with)
{
    int n_local = plan->n_local, n = hosts_for(s, plan, n_local);
    if (n == 0 && n_local > 1)
        n = hosts_for(s, plan, n_local = 1);
    if (n > 1)
        OFFER(s, "%d hosts like this one, %d rank%s each%s", n, n_local, n_local > 1 ? "s" : "", with);
}

/* The settings of `lean` that differ from those of `plan`. */
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
static void describe(const tess_memory_need *need, char *text, size_t size)
{
    char bytes[32];
    size_t at = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        if (need->rank[pool] > 0)
            at = tess_text_add(text, size, at, "%s%s %s", at > 0 ? ", " : "", tess_pool_name((tess_pool)pool),
                               tess_format_bytes(need->rank[pool], bytes, sizeof(bytes)));
    if (need->copies > 0)
        tess_text_add(text, size, at, "; gathered parameters that ranks share %s",
                      tess_format_bytes(need->copies, bytes, sizeof(bytes)));
}

tess_status tess_memory_check(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, double room,
                              const char *room_of)
{
    tess_memory_need need;
    char needed[32], free_bytes[32], pools[384], offers[640];
    memory_search search = {.mem = mem, .model = model, .room = room, .text = offers, .size = sizeof(offers)};
    TESS_TRY(tess_memory_predict(mem, model, plan, &need));
    if (need.host <= room)
        return TESS_OK;
    describe(&need, pools, sizeof(pools));
    const char *what = find_what_fits(&search, plan);
    TESS_TRY(search.status);
    return TESS_FAIL(TESS_E_INVALID,
                     "%d rank%s of this host would need %s of memory, but %s has %s left (a rank: %s). It would "
                     "fit %s. job.ignore_memory=true starts it as it is",
                     plan->n_local, plan->n_local > 1 ? "s" : "", tess_format_bytes(need.host, needed, sizeof(needed)),
                     room_of, tess_format_bytes(room, free_bytes, sizeof(free_bytes)), pools,
                     what[0] != '\0' ? what : "on no number of hosts like this one");
}

tess_status tess_memory_check_here(tess_mem *mem, const tess_model_config *model_config, const tess_config *config,
                                   int n_local)
{
    bool by_group;
    tess_model *model;
    uint64_t available = tess_memory_available(&by_group);
    const tess_memory_plan plan = tess_memory_plan_of(config, n_local);
    if (config->job.ignore_memory || available == UINT64_MAX)
        return TESS_OK;
    TESS_TRY(tess_model_create(mem, model_config, &model));
    tess_status status = tess_memory_check(mem, model, &plan, (double)available, by_group ? "its control group" : "it");
    tess_model_destroy(&model);
    return status;
}
