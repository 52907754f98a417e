/* Predicts the memory of each kind of rank (ranks differ by their stages and their share of layers), and finds the
 * host whose ranks need most. */
#include <math.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "comm/box_move.h"
#include "device/dry_device.h"
#include "optim/optim_internal.h"
#include "engine/model/adapter.h"
#include "plan/memory_need.h"
#include "engine/offload.h"
#include "engine/shards.h"
#include "engine/stages/rank_stage.h"

tess_memory_plan tess_memory_plan_of(const tess_config *c, int n_local)
{
    tess_memory_plan plan = {.config = c,
                             .policy = tess_engine_policy(c),
                             .optimizer = tess_engine_optimizer(c),
                             .activations = tess_engine_activations(c),
                             .passes = (int)c->training.passes,
                             .n_local = n_local,
                             .n_threads = (int)c->training.threads,
                             .resident = tess_shards_expected(c),
                             .local_batch = c->training.local_batch_size,
                             .global_batch = c->training.global_batch_size,
                             .seq_len = c->training.seq_len};
    tess_axes_degrees(&c->parallelism, plan.degree);
    return plan;
}

/* The memory of a rank: its own part of each pool, the shared copies, and the memory of exchanges. */
typedef struct rank_need {
    double pool[TESS_POOL_COUNT], disk[TESS_POOL_COUNT], resident, copies, exchanges, sum, disk_sum;
    double work; /* work space of the kernels, in the pool of activations */
    /* Work space of a rank without a micro-batch, which runs empty ones so that collectives are complete */
    double idle_work;
    double windows; /* windows for gradients, in the comm pool */
    double stashes; /* stashes of gathered parameters, in the comm pool */
    double held, n_primary;
    int n_sharing; /* number of consecutive shards whose ranks share copies on a host */
    tess_fsdp_unit_costs units;
    int64_t n_blocks;
    double device[TESS_POOL_COUNT]; /* bytes of the device's memory */
    char stages[TESS_MEMORY_STAGES];
} rank_need;

/* ---- A rank ---- */
/* Bytes of a checkpoint's file that are written at once */
enum { DISK_BLOCK = 4096, HUGE_PAGE = 2 << 20, WRITTEN_AT_ONCE = 8 << 20 };

/* The bytes that a save copies: all weights (or only the adapter), and the optimizer state of the parameters that
 * train. Ranks that hold the same tensors divide them among themselves. */
static double saved_bytes(const tess_fsdp *fsdp, const tess_model *model, double optimizer)
{
    const tess_fsdp_counts n = tess_fsdp_plan_counts(fsdp);
    double weights = n.primary + (tess_model_get_config(model)->lora.rank == 0 ? n.frozen : 0);
    return weights * sizeof(float) + (n.held > 0 ? optimizer * n.primary / n.held : 0) +
           DISK_BLOCK * (double)tess_model_n_params(model);
}

typedef struct sharding_need {
    tess_fsdp_bytes bytes;
    tess_fsdp_unit_costs units;
    size_t resident;
    double saved, n_primary;
} sharding_need;

static tess_status plan_sharding(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, int shard,
                                 const tess_stage_plan *stages, size_t activations, sharding_need *need)
{
    const tess_model_part *part = &stages->part;
    tess_fsdp *fsdp = NULL;
    tess_block_unit *units = NULL;
    tess_status status;
    /* The unit whose gradients are open during the head: the head writes a tied table's gradient first. In a
     * pipeline that gradient waits in memory of the executor instead. */
    int open = plan->degree[TESS_AXIS_PP] == 1 && tess_model_trains_table(model) ? 0 : -1;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)tess_model_n_units(model), sizeof(*units), "units",
                                  (void **)&units));
    TESS_GOTO(tess_fsdp_plan_create(mem, &plan->policy, plan->degree[TESS_AXIS_SHARD], shard,
                                    plan->degree[TESS_AXIS_REPLICATE], plan->degree[TESS_AXIS_TP], part->tp_rank,
                                    plan->resident ? 1 : plan->n_local, &fsdp),
              allocated);
    TESS_GOTO(tess_fsdp_set_passes(fsdp, plan->passes), allocated);
    tess_fsdp_set_offload(fsdp, tess_offload_pools(plan->config));
    TESS_GOTO(tess_block_units_add(mem, plan->config, model, stages->units, stages->shape.chunks, plan->resident, fsdp,
                                   units),
              allocated);
    const int64_t n_micro = plan->global_batch / plan->local_batch;
    size_t at_once;
    need->resident = tess_offload_resident(plan->config, fsdp, n_micro, activations, &at_once);
    need->units = tess_fsdp_plan_units(fsdp);
    const tess_fsdp_counts counts = tess_fsdp_plan_counts(fsdp);
    need->n_primary = counts.primary + counts.frozen;
    TESS_GOTO(tess_fsdp_plan_bytes(fsdp, &plan->optimizer, n_micro, open, &need->bytes), allocated);
    need->saved = saved_bytes(fsdp, model, (double)(need->bytes.optimizer + need->bytes.on_disk[TESS_POOL_OPTIMIZER]));
allocated:
    tess_fsdp_destroy(&fsdp);
    tess_mem_free(mem, units);
    return status;
}

/* Whether the stage receives the gradient of the embedding's stream from another rank. */
static bool receives_table(const tess_stage_plan *stages, const tess_model *model)
{
    return tess_model_trains_table(model) && !stages->part.embedding;
}

/* Bytes of the buffers between stages. If a message still reads a buffer when its slot has the next gradient, there
 * is one more buffer for a moment. That is rare, depends on timing, and is not counted on the host. */
static double stream_bytes(const tess_stage_plan *stages, const tess_model *model, const tess_executor_options *o,
                           bool on_device)
{
    const size_t room = (size_t)tess_executor_stream_room(model, o) *
                        (size_t)tess_model_get_config(model)->hidden_size * tess_dtype_size(o->dtype);
    const bool receives = receives_table(stages, model);
    int n = 0;
    for (int slot = 0; slot < o->n_slots; slot++) {
        bool below, above;
        int chunk = 0;
        while (stages->units[chunk].begin != o->slot_units[slot].begin)
            chunk++;
        tess_stage_ends(stages, model, chunk, &below, &above);
        n += below + above;
    }
    return (double)(on_device && stages->shape.ranks > 1 ? tess_stage_window_bytes(n, o->n_slots, room)
                                                         : (size_t)n * room) +
           (receives ? (double)room : 0);
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

/* The number of threads of a rank, by the rule with which the runtime divides cores. */
static int threads_of(const tess_memory_plan *plan)
{
    int share = tess_os_cores() / plan->n_local;
    return plan->n_threads > 0 ? plan->n_threads : share > 1 ? share : 1;
}

/* The work space of Muon's products, which are products of whole matrices. */
static tess_status optimizer_work(tess_mem *mem, const tess_memory_plan *plan, const tess_model *model, size_t *bytes)
{
    tess_device *device;
    tess_stream *stream;
    TESS_TRY(tess_dry_device_open(mem, &device));
    tess_status status = tess_device_stream(device, threads_of(plan), plan->kernels, &stream);
    for (int i = 0; status == TESS_OK && i < tess_model_n_params(model); i++) {
        const tess_param *param = tess_model_param(model, i);
        if (tess_param_is_hidden(model, param) && !param->frozen)
            status = tess_muon_ask(stream, param->slice.whole.dim[0], param->slice.whole.dim[1]);
    }
    *bytes = status == TESS_OK ? tess_stream_work_bytes(stream) : 0;
    tess_stream_destroy(&stream);
    tess_device_close(&device);
    return status;
}

/* The work space of kernels: one block, as large as the largest request. Only for the host: work space on other
 * devices is unknown. If the process may not reserve enough addresses to find out, counts 0. */
static tess_status kernel_work(tess_mem *mem, const tess_memory_plan *plan, const tess_model *model,
                               const tess_executor_options *activations, int64_t n_tokens, double *bytes)
{
    size_t executor = 0, optimizer = 0;
    tess_executor_options o = *activations;
    const char *device = tess_config_device(plan->config);
    *bytes = 0;
    if (plan->resident || (device != NULL && strcmp(device, "cpu") != 0))
        return TESS_OK;
    o.first_trainable_unit = plan->degree[TESS_AXIS_PP] > 1 ? 0 : tess_model_first_trainable_unit(model);
    tess_status status = tess_executor_work_bytes(model, &o, n_tokens, threads_of(plan), plan->kernels, &executor);
    if (status == TESS_OK && plan->optimizer.kind == TESS_MUON)
        status = optimizer_work(mem, plan, model, &optimizer);
    *bytes = (double)(executor > optimizer ? executor : optimizer);
    if (status != TESS_E_NOMEM)
        return status;
    tess_error_clear();
    return TESS_OK;
}

/* Moves a rank's memory to its device. The host keeps copies of weights and moments: two of them if they must
 * outlive the process. */
static void move_to_device(const tess_config *c, rank_need *need)
{
    double copies = (c->recovery.enable && c->recovery.hot) || c->checkpoint.memory_copies ? 2 : 1;
    for (int pool = 0; pool <= TESS_POOL_ACTIVATIONS; pool++) {
        bool copied = pool == TESS_POOL_PARAMS || pool == TESS_POOL_OPTIMIZER;
        need->device[pool] = need->pool[pool];
        need->pool[pool] *= copied ? copies : 0;
    }
    need->device[TESS_POOL_COMM] = need->pool[TESS_POOL_COMM] + need->copies;
    need->pool[TESS_POOL_COMM] = 0;
    need->windows = need->stashes = need->copies = 0;
}

double tess_memory_of_device(const tess_memory_of_rank *rank)
{
    double sum = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        sum += rank->device[pool];
    return sum;
}

static tess_status predict_part(tess_mem *mem, const tess_memory_plan *plan, int shard, const tess_stage_plan *stages,
                                const tess_model *model, rank_need *need)
{
    sharding_need sharding = {0};
    const tess_fsdp_bytes *b = &sharding.bytes;
    size_t activations_resident;
    tess_slot_units *slots = NULL;
    tess_executor_options o = plan->activations;
    const tess_shares shares = tess_axes_shares(plan->degree);
    const int64_t n_micro = plan->global_batch / plan->local_batch;
    bool cut = plan->degree[TESS_AXIS_PP] > 1;
    double work = 0, idle_work = 0, stage;
    o.max_tokens = (plan->local_batch + plan->passes - 1) / plan->passes * plan->seq_len;
    if (cut)
        TESS_TRY(tess_stage_slots(mem, stages, model, (int)tess_shares_rounds(&shares, n_micro), &o, &slots));
    tess_status status = tess_activations_fit(mem, plan->config, model, &stages->part, &o);
    size_t on_disk = tess_executor_disk_bytes(model, &o, &activations_resident);
    if (status == TESS_OK)
        status = plan_sharding(mem, model, plan, shard, stages, activations_resident, &sharding);
    if (status == TESS_OK)
        status = kernel_work(mem, plan, model, &o, o.max_tokens, &work);
    if (status == TESS_OK && n_micro < shares.total)
        status = kernel_work(mem, plan, model, &o, 0, &idle_work);
    stage = plan->saves_beside ? ceil(sharding.saved / HUGE_PAGE) * HUGE_PAGE + WRITTEN_AT_ONCE : 0;
    *need = (rank_need){
        .pool = {[TESS_POOL_PARAMS] = (double)b->params,
                 [TESS_POOL_GRADS] = (double)b->grads,
                 [TESS_POOL_OPTIMIZER] = (double)b->optimizer,
                 [TESS_POOL_ACTIVATIONS] = (double)tess_executor_bytes(model, &o) + work +
                                           (double)o.max_tokens * sizeof(float), /* log-probabilities */
                 [TESS_POOL_COMM] = (double)(b->windows + b->stashes) + stream_bytes(stages, model, &o, plan->resident),
                 [TESS_POOL_MISC] = stage},
        .copies = (double)b->copies,
        .work = work,
        .idle_work = idle_work,
        .windows = (double)b->windows,
        .stashes = (double)b->stashes,
        .held = (double)b->held,
        .n_primary = sharding.n_primary,
        .n_sharing = b->n_sharing,
        .units = sharding.units,
        .n_blocks = tess_model_n_units(model)};
    if (plan->resident)
        move_to_device(plan->config, need);
    const size_t resident = sharding.resident;
    if (plan->degree[TESS_AXIS_TP] > 1) {
        const size_t most = tess_executor_exchange_bytes(model, &o);
        need->exchanges = plan->resident ? 0 : (double)tess_box_room_shared_bytes(plan->degree[TESS_AXIS_TP], most);
        need->device[TESS_POOL_COMM] += plan->resident ? (double)tess_box_room_device_bytes(most) : 0;
    }
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        need->sum += need->pool[pool];
        need->disk[pool] = (double)b->on_disk[pool];
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

static tess_status predict_rank(tess_mem *mem, const tess_model *whole, const tess_memory_plan *plan, int rank,
                                rank_need *need)
{
    const tess_model_config *config = tess_model_get_config(whole);
    const tess_coordinates at = tess_coordinates_by(plan->degree, rank);
    tess_stage_plan stages;
    tess_model *part;
    TESS_TRY(tess_stage_plan_create(mem, plan->config, config, at.place[TESS_AXIS_PP], &stages));
    stages.part.tp_rank = at.place[TESS_AXIS_TP];
    stages.part.tp_degree = at.degree[TESS_AXIS_TP];
    tess_status status = tess_model_create_part(mem, config, &stages.part, &part);
    if (status == TESS_OK) {
        tess_config_freeze(plan->config, part);
        status = predict_part(mem, plan, at.place[TESS_AXIS_SHARD], &stages, part, need);
        tess_model_destroy(&part);
    }
    tess_stage_plan_free(mem, &stages);
    return status;
}

/* ---- All ranks ---- */
static int world_of(const tess_memory_plan *plan)
{
    return tess_coordinates_by(plan->degree, 0).world;
}

/* Assigns a rank its memory. Ranks that share a layer are consecutive, and the first of them on a host has the
 * memory of their exchanges. Shards that share copies are `stride` ranks apart, and the first of them on a host has the
 * copies. */
static void place_need(const tess_memory_plan *plan, const rank_need *need, int rank, tess_memory_of_rank *out)
{
    const tess_coordinates at = tess_coordinates_by(plan->degree, rank);
    const int stride = tess_axis_stride(plan->degree, TESS_AXIS_SHARD), n_tp = at.degree[TESS_AXIS_TP];
    const int n_replica = at.degree[TESS_AXIS_SHARD] * stride, n_group = need->n_sharing * stride;
    int host = rank / plan->n_local * plan->n_local, begin = rank - rank % n_replica % n_group;
    int64_t n_micro = plan->global_batch / plan->local_batch;
    bool computes = tess_coordinates_micro(&at, 0) < n_micro || plan->config->validation.enable;
    const bool is_first = rank - stride < (begin > host ? begin : host);
    *out = (tess_memory_of_rank){.work = computes ? need->work : need->idle_work,
                                 .held = is_first || plan->resident ? need->held : 0,
                                 .n_primary = need->n_primary,
                                 .units = need->units,
                                 .n_blocks = need->n_blocks};
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        out->pool[pool] = need->pool[pool];
        out->disk[pool] = need->disk[pool];
        out->device[pool] = need->device[pool];
    }
    out->pool[TESS_POOL_ACTIVATIONS] -= need->work - out->work;
    out->pool[TESS_POOL_COMM] += is_first ? need->copies : 0;
    out->pool[TESS_POOL_COMM] += need->resident;
    out->pool[TESS_POOL_COMM] += rank == host || rank % n_tp == 0 ? need->exchanges : 0;
    memcpy(out->stages, need->stages, sizeof(out->stages));
}

/* Predicts a host's memory as if all its ranks had as many rows as the first rank of their team. */
static double predict_host(const tess_memory_plan *plan, const rank_need *needs, int first, double *disk)
{
    double sum = 0;
    int end = first + plan->n_local < world_of(plan) ? first + plan->n_local : world_of(plan);
    *disk = 0;
    for (int rank = first; rank < end; rank++) {
        tess_memory_of_rank each;
        place_need(plan, &needs[tess_coordinates_by(plan->degree, rank).part], rank, &each);
        for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
            sum += each.pool[pool];
            *disk += each.disk[pool];
        }
    }
    return sum;
}

static void take_largest(const tess_memory_plan *plan, const rank_need *needs, tess_memory_need *need)
{
    const rank_need *most = needs;
    for (int part = 1; part < tess_axes_ranks(plan->degree, TESS_AXIS_OF_MODEL); part++)
        most = needs[part].sum + needs[part].copies > most->sum + most->copies ? &needs[part] : most;
    *need = (tess_memory_need){.copies = most->copies, .resident = most->resident};
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        need->rank[pool] = most->pool[pool];
        need->disk[pool] = most->disk[pool];
    }
    need->rank[TESS_POOL_COMM] += most->exchanges;
    tess_text_add(need->stages, sizeof(need->stages), 0, "%s", most->stages);
    for (int first = 0; first < world_of(plan); first += plan->n_local) {
        double disk, host = predict_host(plan, needs, first, &disk);
        need->host = host > need->host ? host : need->host;
        need->host_disk = disk > need->host_disk ? disk : need->host_disk;
    }
}

/* Predicts the memory of each kind of rank: of each part of the model, for the first rank that has it. */
static tess_status predict_kinds(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                 rank_need **needs)
{
    int n = tess_axes_ranks(plan->degree, TESS_AXIS_OF_MODEL);
    tess_status status = TESS_OK;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n, sizeof(**needs), "plan of memory", (void **)needs));
    for (int rank = 0; status == TESS_OK && rank < world_of(plan); rank++) {
        const tess_coordinates at = tess_coordinates_by(plan->degree, rank);
        if (at.data == 0)
            status = predict_rank(mem, model, plan, rank, &(*needs)[at.part]);
    }
    if (status != TESS_OK)
        tess_mem_free(mem, *needs);
    return status;
}

static tess_status add_sum(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, int rank,
                           tess_memory_rank_fn predict, double sign, double *sum)
{
    tess_memory_of_rank each;
    TESS_TRY(predict(mem, model, plan, rank, &each));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        *sum += sign * each.pool[pool];
    return TESS_OK;
}

/* Adds the task's memory on the first host. */
static tess_status add_task(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                            tess_memory_need *need)
{
    for (int rank = 0; plan->of_task != NULL && rank < plan->n_local; rank++) {
        TESS_TRY(add_sum(mem, model, plan, rank, plan->of_task, 1, &need->task));
        TESS_TRY(add_sum(mem, model, plan, rank, tess_memory_predict_rank, -1, &need->task));
    }
    need->host += need->task;
    return TESS_OK;
}

tess_status tess_memory_predict(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                tess_memory_need *need)
{
    rank_need *needs;
    TESS_TRY(predict_kinds(mem, model, plan, &needs));
    take_largest(plan, needs, need);
    tess_status status = add_task(mem, model, plan, need);
    if (plan->n_drawing > 0) {
        tess_memory_of_rank drawing;
        tess_memory_of_drawing(model, plan->config, &drawing);
        for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
            need->host += plan->n_drawing * drawing.pool[pool];
    }
    tess_mem_free(mem, needs);
    return status;
}

tess_status tess_memory_predict_rank(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, int rank,
                                     tess_memory_of_rank *out)
{
    rank_need need;
    TESS_TRY(predict_rank(mem, model, plan, rank, &need));
    place_need(plan, &need, rank, out);
    return TESS_OK;
}

tess_status tess_memory_device_need(tess_mem *mem, const tess_config *config, const tess_model *model, int rank,
                                    double *bytes)
{
    tess_memory_of_rank need;
    tess_memory_plan plan = tess_memory_plan_of(config, 1);
    plan.resident = true;
    TESS_TRY(tess_memory_predict_rank(mem, model, &plan, rank, &need));
    *bytes = tess_memory_of_device(&need);
    return TESS_OK;
}
