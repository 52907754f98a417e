#include "plan/dry_rank.h"

#include <math.h>

#include "base/mem/named.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "comm/dry/dry_runtime.h"
#include "comm/split.h"
#include "device/dry_device.h"
#include "engine/offload.h"
#include "engine/stages/rank_stage.h"

/* ---- Batches ---- */
/* All micro-batches are the same: full rows, each of one sequence. */
typedef struct dry_batches {
    tess_batch batch;
    int32_t *numbers; /* memory for positions, sequence offsets, and zeros for everything else */
} dry_batches;

static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    (void)self, (void)begin, (void)n, (void)logprob, (void)entropy, (void)dlogprob, (void)dentropy;
    return TESS_OK;
}

static tess_status grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    (void)self, (void)n, (void)value, (void)dvalue;
    return TESS_OK;
}

/* The losses of models that compute values, and of tasks whose loss needs all rows. Their derivatives are 0. */
static const tess_token_loss *loss_of(const tess_engine *e, const tess_dry_task *task)
{
    static const tess_token_loss values = {.inv_temperature = 1, .grade_values = grade_values},
                                 both = {.inv_temperature = 1, .grade = grade, .grade_values = grade_values},
                                 whole = {.inv_temperature = 1, .whole = true, .grade = grade};
    const tess_model_config *model = tess_model_get_config(e->whole);
    if (model->n_outputs > 0)
        return &values;
    if (model->value_head)
        return &both;
    return task != NULL && task->needs_whole != NULL && task->needs_whole(e->config) ? &whole : NULL;
}

static tess_status make_batches(tess_engine *e, const tess_dry_task *task, dry_batches *b)
{
    tess_mem *mem = e->mem;
    const tess_config *c = e->config;
    const int64_t rows = c->training.local_batch_size, length = c->training.seq_len, n_tokens = rows * length;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)(2 * n_tokens + rows + 1), sizeof(int32_t), "dry batch",
                                  (void **)&b->numbers));
    int32_t *pos = b->numbers, *zeros = pos + n_tokens, *cu_seqlens = zeros + n_tokens;
    for (int64_t i = 0; i < n_tokens; i++)
        pos[i] = (int32_t)(i % length);
    for (int64_t i = 0; i <= rows; i++)
        cu_seqlens[i] = (int32_t)(i * length);
    b->batch = (tess_batch){.n_tokens = n_tokens,
                            .n_seqs = rows,
                            .ids = zeros,
                            .pos = pos,
                            .targets = zeros,
                            .cu_seqlens = cu_seqlens,
                            .loss = loss_of(e, task)};
    return TESS_OK;
}

static tess_status next(void *self, TESS_UNUSED int64_t index, tess_batch *batch)
{
    *batch = ((dry_batches *)self)->batch;
    return TESS_OK;
}

/* Evaluates the rows of a pass. */
static tess_status evaluate(tess_engine *e, const tess_config *c, const dry_batches *b)
{
    tess_loss_sum sum = {0};
    tess_batch pass = b->batch;
    pass.n_seqs = tess_config_pass_rows(c);
    pass.n_tokens = pass.n_seqs * c->training.seq_len;
    return tess_engine_score(e, &pass, &sum);
}

/* Returns how many micro-batches of a step of n, over all ranks, take the memory of all: a rank's third repeats its
 * second, and in a pipeline the schedule repeats itself. */
static int64_t enough_batches(const tess_engine *e, int64_t n)
{
    const int64_t n_local = tess_coordinates_rounds(&e->at, n);
    const int64_t enough = e->stage != NULL ? tess_stage_enough(e->stage, (int)n_local) : 2;
    return n_local > enough ? enough * e->at.n_data : n;
}

/* Records the work of the step from now on, with the phases of the engine's clock. NULL: no more. */
static void trace_step(tess_engine *e, tess_work_trace *trace)
{
    tess_dry_runtime_trace(e->runtime, trace);
    tess_dry_stream_trace(e->stream, trace);
    tess_dry_stream_trace(e->compute.stream, trace);
    if (trace != NULL)
        trace->clock = &e->clock;
}

static tess_status traced_step(tess_engine *e, const tess_batch_source *source, bool gradients_only,
                               tess_work_trace *trace, tess_engine_report *result)
{
    tess_loss_sum own = {0};
    trace_step(e, trace);
    if (gradients_only)
        tess_phase_start(&e->clock);
    tess_status status = gradients_only ? tess_engine_gradients(e, source, &own) : tess_engine_step(e, source, result);
    trace_step(e, NULL);
    if (trace != NULL)
        trace->clock = NULL;
    return status == TESS_OK && trace != NULL ? trace->status : status;
}

/* The micro-batches of a step, over all ranks, that a dry rank runs. */
static int64_t micros_of(const tess_engine *e, const tess_memory_plan *plan, int64_t n)
{
    if (!plan->moves)
        return enough_batches(e, n);
    const int64_t most = plan->most_micros * e->at.n_data;
    return most > 0 && n > most ? most : n;
}

/* Runs a step of the engine. A rank without a micro-batch computes in evaluations only. `report` NULL: the step is not
 * recorded. */
static tess_status step(tess_engine *e, const tess_memory_plan *plan, dry_batches *b, tess_dry_report *report)
{
    const tess_config *c = e->config;
    tess_engine_report result = {.loss = 0};
    tess_volume *volume = tess_dry_runtime_volume(e->runtime);
    TESS_TRY(make_batches(e, plan->task, b));
    tess_batch_source source = tess_engine_source(e, b, next);
    source.divisor = 1;
    TESS_TRY(tess_fsdp_reserve(e->fsdp, source.n_micro * e->at.degree[TESS_AXIS_CP]));
    source.n_micro = micros_of(e, plan, source.n_micro);
    *volume = (tess_volume){.n_rows = 0};
    tess_dry_runtime_rehearse(e->runtime, report != NULL ? plan->rehearsal : NULL);
    TESS_TRY(traced_step(e, &source, plan->gradients_only, report != NULL ? plan->trace : NULL, &result));
    tess_dry_runtime_rehearse(e->runtime, NULL);
    if (report != NULL) {
        report->volume = *volume;
        report->exchanged_bytes = result.times.exchanged_bytes; /* the volume has those of experts, and leaves */
        report->counted_bytes = report->exchanged_bytes;
        if (e->ring != NULL)
            report->exchanged_bytes -= (double)tess_ring_get_traffic(e->ring).bytes;
        if (e->experts != NULL)
            report->exchanged_bytes -= (double)tess_expert_team_received(e->experts);
    }
    /* An evaluation before the step would gather the copies that the step gathers on other ranks. */
    const bool idle = tess_coordinates_micro(&e->at, 0) >= source.n_micro;
    return c->validation.enable && idle && b->batch.loss == NULL ? evaluate(e, c, b) : TESS_OK;
}

static tess_status run_step(tess_engine *e, const tess_memory_plan *plan, tess_dry_report *report)
{
    dry_batches batches = {.numbers = NULL};
    tess_status status = step(e, plan, &batches, report);
    tess_mem_free(e->mem, batches.numbers);
    return status;
}

/* ---- Counters ---- */
enum { DISK_BLOCK = 4096 };

typedef struct saved_elements {
    double primary, frozen, held; /* elements that train or not and that this rank saves, and that train and it has */
} saved_elements;

static tess_status count_elements(const tess_engine *e, saved_elements *n)
{
    for (int i = 0; i < tess_fsdp_shards(e->fsdp); i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(e->fsdp, i, &shard));
        *(shard.trainable ? &n->primary : &n->frozen) += (double)tess_box_count(shard.shape.n_dims, &shard.primary);
        n->held += shard.trainable ? (double)tess_box_count(shard.shape.n_dims, &shard.box) : 0;
    }
    return TESS_OK;
}

/* Counts the bytes that a save copies: all weights (or only the adapter), and the optimizer's state of the parameters
 * that train. Ranks that hold the same tensors divide them among themselves. */
static tess_status count_saved(const tess_engine *e, const tess_engine *second, tess_dry_report *r)
{
    saved_elements n = {.primary = 0};
    TESS_TRY(count_elements(e, &n));
    n.frozen *= tess_model_get_config(e->model)->lora.rank == 0;
    int64_t n_params = tess_model_n_params(e->model);
    if (second != NULL) {
        TESS_TRY(count_elements(second, &n));
        n_params += tess_model_n_params(second->model);
    }
    const double optimizer =
        r->host[TESS_POOL_OPTIMIZER] + r->disk[TESS_POOL_OPTIMIZER] + r->device[TESS_POOL_OPTIMIZER];
    r->saved = (n.primary + n.frozen) * sizeof(float) + (n.held > 0 ? optimizer * n.primary / n.held : 0) +
               DISK_BLOCK * (double)n_params;
    return TESS_OK;
}

static void name_stages(const tess_stage_plan *stages, tess_dry_report *r)
{
    const tess_pipeline_schedule *shape = &stages->shape;
    size_t size = sizeof(r->stages), at = tess_text_add(r->stages, size, 0, "stage%s ", shape->chunks > 1 ? "s" : "");
    for (int chunk = 0; chunk < shape->chunks; chunk++)
        at = tess_text_add(r->stages, size, at, "%s%d", chunk > 0 ? ", " : "",
                           tess_pipeline_stage(shape, stages->rank, chunk));
    tess_text_add(r->stages, size, at, " of %d", shape->ranks * shape->chunks);
}

/* Finds how much of the state on disk an engine has in memory at a time. */
static double resident_of(const tess_engine *e)
{
    size_t activations, at_once;
    (void)tess_executor_disk_bytes(e->model, tess_executor_get_options(e->executor), &activations);
    return (double)tess_offload_resident(e->config, e->fsdp, tess_config_leaves(e->config), activations, &at_once);
}

void tess_dry_count(const tess_mem *mem, const tess_compute *compute, tess_dry_report *r)
{
    for (int pool = 0; pool < TESS_POOL_MISC; pool++) {
        r->host[pool] = (double)tess_mem_stats(mem, (tess_pool)pool).peak_bytes;
        r->disk[pool] = (double)tess_mem_disk_bytes(mem, (tess_pool)pool);
        if (compute->apart)
            r->device[pool] = (double)tess_device_mem_stats(compute->device, (tess_pool)pool).peak_bytes;
    }
    if (compute->apart)
        r->device[TESS_POOL_ACTIVATIONS] -= (double)tess_stream_work_bytes(compute->stream);
}

/* `second` is another engine in the same memory, or NULL. */
static tess_status take_counters(const tess_engine *e, const tess_engine *second, tess_dry_report *r)
{
    double on_disk = 0;
    tess_dry_count(e->mem, &e->compute, r);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        on_disk += r->disk[pool];
    r->resides = e->compute.resident;
    r->work = (double)tess_stream_work_bytes(e->stream);
    r->resident = fmin(on_disk, fmax(resident_of(e), second != NULL ? resident_of(second) : 0));
    r->n_units = tess_fsdp_units(e->fsdp, &r->largest_unit);
    r->n_blocks = tess_model_n_units(e->model);
    if (e->stage != NULL)
        name_stages(e->stage_plan, r);
    return count_saved(e, second, r);
}

/* ---- A rank ---- */
/* Shards are on a device wherever the configuration allows it. */
static tess_status need_nothing(tess_mem *mem, const tess_config *config, const tess_model *model, int rank,
                                double *bytes)
{
    (void)mem, (void)config, (void)model, (void)rank;
    *bytes = 0;
    return TESS_OK;
}

/* Runs what the task has and does in addition to steps of the engine. */
static tess_status run_task(tess_engine *e, const tess_memory_plan *plan, tess_team *all, void **self)
{
    const tess_dry_task *task = plan->task;
    if (task == NULL)
        return TESS_OK;
    TESS_TRY(task->create(e, all, self));
    tess_engine *second = task->second(*self);
    if (second != NULL)
        TESS_TRY(run_step(second, plan, NULL));
    dry_batches batches = {.numbers = NULL};
    tess_status status = make_batches(e, task, &batches);
    if (status == TESS_OK)
        status = task->pause(*self, &batches.batch);
    tess_mem_free(e->mem, batches.numbers);
    return status;
}

static tess_status run_all(tess_engine *e, const tess_memory_plan *plan, tess_team *all, void **self,
                           tess_dry_report *report)
{
    TESS_TRY(run_step(e, plan, report));
    for (int pool = 0; pool < TESS_POOL_MISC; pool++) {
        report->engine_host[pool] = (double)tess_mem_stats(e->mem, (tess_pool)pool).bytes;
        report->engine_disk[pool] = (double)tess_mem_disk_bytes(e->mem, (tess_pool)pool);
    }
    TESS_TRY(run_task(e, plan, all, self));
    return take_counters(e, *self != NULL ? plan->task->second(*self) : NULL, report);
}

static tess_status train(tess_team *team, const tess_memory_plan *plan, const tess_model_config *model, tess_team *all,
                         tess_dry_report *report)
{
    tess_engine *e;
    void *self = NULL;
    const tess_engine_options options = {.device_need = need_nothing, .whole = plan->whole};
    TESS_TRY(tess_engine_create_over(team, plan->config, model, &options, &e));
    tess_status status = run_all(e, plan, all, &self, report);
    if (self != NULL)
        plan->task->destroy(&self);
    tess_engine_destroy(&e);
    return status;
}

/* Ranks that only draw follow those that train, and have a team of their own (train/trainer.c). */
static tess_split_place place_of(const void *context, int rank)
{
    return (tess_split_place){rank >= *(const int *)context, rank};
}

static tess_status run(tess_runtime *rt, const tess_memory_plan *plan, const tess_model_config *model, int n_train,
                       tess_dry_report *report)
{
    tess_team *all = tess_runtime_team(rt), *role = NULL;
    if (tess_runtime_rank(rt) >= n_train)
        return plan->task->serve(all, plan->config, model, report);
    if (n_train < tess_team_size(all))
        TESS_TRY(tess_team_split_by(all, place_of, &n_train, "role", &role));
    tess_status status = train(role != NULL ? role : all, plan, model, all, report);
    tess_team_destroy(&role);
    return status;
}

int tess_dry_threads(const tess_memory_plan *plan)
{
    int share = tess_os_cores() / (plan->n_local + plan->n_drawing);
    return plan->n_threads > 0 ? plan->n_threads : share > 1 ? share : 1;
}

tess_status tess_dry_rank(const tess_memory_plan *plan, const tess_model_config *model, int rank,
                          tess_dry_report *report)
{
    int degree[TESS_AXES];
    TESS_AUTO(tess_dry_runtime_destroy) tess_runtime *rt = NULL;
    tess_axes_degrees(&plan->config->parallelism, degree);
    const int n_train = tess_coordinates_by(degree, 0).world;
    const tess_dry_options options = {.rank = rank,
                                      .world = n_train + (plan->task != NULL ? (int)plan->config->rollout.ranks : 0),
                                      .ranks_a_host = plan->n_local + plan->n_drawing,
                                      .hosts = plan->hosts,
                                      .n_threads = tess_dry_threads(plan),
                                      .kernels = plan->kernels,
                                      .fills = plan->fills};
    *report = (tess_dry_report){.work = 0};
    TESS_TRY(tess_dry_runtime_create(&options, &rt));
    if (plan->peak != NULL)
        tess_dry_runtime_follow_peak(rt, plan->peak);
    return run(rt, plan, model, n_train, report);
}
