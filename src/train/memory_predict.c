/* The prediction: what each rank needs that has other stages or another share of layers, the others being alike, and
 * the host whose ranks need most. */
#include "base/text/text.h"
#include "train/adapter.h"
#include "train/memory_need.h"
#include "train/offload.h"
#include "train/train_stage.h"

tess_memory_plan tess_memory_plan_of(const tess_config *c, int n_local)
{
    return (tess_memory_plan){.config = c,
                              .policy = tess_engine_policy(c),
                              .optimizer = tess_engine_optimizer(c),
                              .activations = tess_engine_activations(c),
                              .passes = (int)c->training.passes,
                              .n_stages = (int)c->parallelism.pipeline_parallel_degree,
                              .n_tp = (int)c->parallelism.tensor_parallel_degree,
                              .n_shards = (int)c->parallelism.data_parallel_shard_degree,
                              .n_replicas = (int)c->parallelism.data_parallel_replicate_degree,
                              .n_local = n_local,
                              .local_batch = c->training.local_batch_size,
                              .global_batch = c->training.global_batch_size,
                              .seq_len = c->training.seq_len};
}

/* What a rank needs: of each pool without what it shares, the copies and the memory of exchanges. */
typedef struct rank_need {
    double pool[TESS_POOL_COUNT], disk[TESS_POOL_COUNT], resident, copies, exchanges, sum, disk_sum;
    char stages[TESS_MEMORY_STAGES];
} rank_need;

/* ---- A rank ---- */
static tess_status plan_sharding(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                 const tess_model_part *part, tess_fsdp_bytes *bytes, size_t *resident)
{
    tess_fsdp *fsdp = NULL;
    tess_unit **units = NULL;
    tess_status status;
    bool shares_table = tess_model_get_config(model)->tied && part->embedding && part->head &&
                        tess_model_first_trainable_unit(model) == 0;
    int open = shares_table ? 0 : -1; /* the head writes the embedding's gradient first */
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)tess_model_n_units(model), sizeof(*units), "units",
                                  (void **)&units));
    TESS_GOTO(
        tess_fsdp_plan_create(mem, &plan->policy, plan->n_shards, plan->n_replicas, plan->n_tp, part->tp_rank, &fsdp),
        allocated);
    TESS_GOTO(tess_fsdp_set_passes(fsdp, plan->passes), allocated);
    tess_fsdp_set_offload(fsdp, tess_offload_pools(plan->config));
    TESS_GOTO(tess_engine_add_units(mem, model, fsdp, units), allocated);
    *resident = tess_offload_resident(plan->config, fsdp);
    TESS_GOTO(tess_fsdp_plan_bytes(fsdp, &plan->optimizer, plan->global_batch / plan->local_batch, open, bytes),
              allocated);
allocated:
    tess_fsdp_destroy(&fsdp);
    tess_mem_free(mem, units);
    return status;
}

/* Buffers between stages. What a message still reads when its slot has the next gradient comes on top, seldom and for
 * moments: that depends on who is late. */
static double stream_bytes(const tess_stage_plan *stages, const tess_model *model, const tess_executor_options *o)
{
    int n = 0;
    for (int slot = 0; slot < o->n_slots; slot++) {
        bool below, above;
        int chunk = 0;
        while (stages->units[chunk].begin != o->slot_units[slot].begin)
            chunk++;
        tess_stage_ends(stages, chunk, &below, &above);
        n += below + above;
    }
    return (double)n * (double)tess_executor_stream_room(model, o) * (double)tess_model_get_config(model)->hidden_size *
           (double)tess_dtype_size(o->dtype);
}

static void name_stages(const tess_stage_plan *stages, rank_need *need)
{
    const tess_pipeline_schedule *shape = &stages->shape;
    size_t size = sizeof(need->stages);
    size_t at = tess_text_add(need->stages, size, 0, "stage%s ", shape->chunks > 1 ? "s" : "");
    for (int chunk = 0; chunk < shape->chunks; chunk++)
        at = tess_text_add(need->stages, size, at, "%s%d", chunk > 0 ? ", " : "",
                           tess_pipeline_stage(shape, stages->rank, chunk));
    tess_text_add(need->stages, size, at, " of %d", shape->ranks * shape->chunks);
}

static tess_status predict_part(tess_mem *mem, const tess_memory_plan *plan, const tess_stage_plan *stages,
                                const tess_model *model, rank_need *need)
{
    tess_fsdp_bytes b;
    size_t resident = 0, activations_resident;
    tess_slot_units *slots = NULL;
    tess_executor_options o = plan->activations;
    int64_t n_data = plan->n_shards * plan->n_replicas, n_micro = plan->global_batch / plan->local_batch;
    bool cut = plan->n_stages > 1;
    o.max_tokens = (plan->local_batch + plan->passes - 1) / plan->passes * plan->seq_len;
    TESS_TRY(plan_sharding(mem, model, plan, &stages->part, &b, &resident));
    if (cut)
        TESS_TRY(tess_stage_slots(mem, stages, (int)((n_micro + n_data - 1) / n_data), &o, &slots));
    tess_status status = tess_activations_fit(mem, plan->config, model, &stages->part, &o);
    *need = (rank_need){.pool = {[TESS_POOL_PARAMS] = (double)b.params,
                                 [TESS_POOL_GRADS] = (double)b.grads,
                                 [TESS_POOL_OPTIMIZER] = (double)b.optimizer,
                                 [TESS_POOL_ACTIVATIONS] = (double)tess_executor_bytes(model, &o) +
                                                           (double)o.max_tokens * sizeof(float), /* log-probabilities */
                                 [TESS_POOL_COMM] = (double)b.windows + stream_bytes(stages, model, &o)},
                        .copies = (double)b.copies};
    size_t on_disk = tess_executor_disk_bytes(model, &o, &activations_resident);
    if (plan->config->offload.resident == 0)
        resident += activations_resident;
    if (plan->n_tp > 1)
        need->exchanges = (double)tess_tensor_shared_bytes(plan->n_tp, tess_executor_exchange_bytes(model, &o));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        need->sum += need->pool[pool];
        need->disk[pool] = (double)b.on_disk[pool];
        need->disk[pool] += pool == TESS_POOL_ACTIVATIONS ? (double)on_disk : 0;
        need->disk_sum += need->disk[pool];
    }
    need->resident = need->disk_sum < (double)resident ? need->disk_sum : (double)resident;
    need->sum += need->resident;
    if (cut)
        name_stages(stages, need);
    tess_mem_free(mem, slots);
    return status;
}

static tess_status predict_rank(tess_mem *mem, const tess_model *whole, const tess_memory_plan *plan, int place, int tp,
                                rank_need *need)
{
    const tess_model_config *config = tess_model_get_config(whole);
    tess_stage_plan stages;
    tess_model *part;
    TESS_TRY(tess_stage_plan_create(mem, plan->config, whole, place, &stages));
    stages.part.tp_rank = tp;
    stages.part.tp_degree = plan->n_tp;
    tess_status status = tess_model_create_part(mem, config, &stages.part, &part);
    if (status == TESS_OK) {
        tess_config_freeze(plan->config, part);
        status = predict_part(mem, plan, &stages, part, need);
        tess_model_destroy(&part);
    }
    tess_stage_plan_free(mem, &stages);
    return status;
}

/* ---- A host ---- */
/* The ranks [first, end). Those that share a layer come one behind the other and have one memory of exchanges; those of
 * a shard team, so many apart, have one copy. */
static double predict_host(const tess_memory_plan *plan, const rank_need *needs, int first, int end, double *disk)
{
    int n_tp = plan->n_tp, n_replica = plan->n_shards * n_tp;
    double sum = 0;
    *disk = 0;
    for (int rank = first; rank < end; rank++) {
        int replica = rank / n_replica, begin = replica * n_replica > first ? replica * n_replica : first;
        const rank_need *each = &needs[replica / plan->n_replicas * n_tp + rank % n_tp];
        sum += each->sum;
        *disk += each->disk_sum;
        sum += rank - n_tp < begin ? each->copies : 0;
        sum += rank == first || rank % n_tp == 0 ? each->exchanges : 0;
    }
    return sum;
}

static void take_largest(const tess_memory_plan *plan, const rank_need *needs, tess_memory_need *need)
{
    const rank_need *most = needs;
    int world = plan->n_stages * plan->n_shards * plan->n_replicas * plan->n_tp;
    for (int place = 1; place < plan->n_stages * plan->n_tp; place++)
        most = needs[place].sum + needs[place].copies > most->sum + most->copies ? &needs[place] : most;
    *need = (tess_memory_need){.copies = most->copies, .resident = most->resident};
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        need->rank[pool] = most->pool[pool];
        need->disk[pool] = most->disk[pool];
    }
    need->rank[TESS_POOL_COMM] += most->exchanges;
    tess_text_add(need->stages, sizeof(need->stages), 0, "%s", most->stages);
    for (int first = 0; first < world; first += plan->n_local) {
        int end = first + plan->n_local < world ? first + plan->n_local : world;
        double disk, host = predict_host(plan, needs, first, end, &disk);
        need->host = host > need->host ? host : need->host;
        need->host_disk = disk > need->host_disk ? disk : need->host_disk;
    }
}

tess_status tess_memory_predict(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                tess_memory_need *need)
{
    rank_need *needs;
    tess_status status = TESS_OK;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)plan->n_stages * (size_t)plan->n_tp, sizeof(*needs),
                                  "plan of memory", (void **)&needs));
    for (int place = 0; status == TESS_OK && place < plan->n_stages * plan->n_tp; place++)
        status = predict_rank(mem, model, plan, place / plan->n_tp, place % plan->n_tp, &needs[place]);
    if (status == TESS_OK)
        take_largest(plan, needs, need);
    tess_mem_free(mem, needs);
    return status;
}
