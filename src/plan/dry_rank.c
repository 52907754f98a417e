#include "plan/dry_rank.h"

#include <math.h>

#include "base/mem/named.h"
#include "base/core/round_up.h"
#include "base/mem/dry_mem.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "comm/dry/dry_runtime.h"
#include "device/dry_device.h"
#include "engine/drawing.h"
#include "engine/held_weights.h"
#include "engine/offload.h"
#include "engine/stages/rank_stage.h"
#include "infer/kv_pages.h"

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

/* The losses of models that compute values. Their derivatives are 0. */
static const tess_token_loss *loss_of(const tess_model_config *model)
{
    static const tess_token_loss values = {.inv_temperature = 1, .grade_values = grade_values},
                                 both = {.inv_temperature = 1, .grade = grade, .grade_values = grade_values};
    if (model->n_outputs > 0)
        return &values;
    return model->value_head ? &both : NULL;
}

static tess_status make_batches(tess_mem *mem, const tess_config *c, const tess_model_config *model, dry_batches *b)
{
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
                            .loss = loss_of(model)};
    return TESS_OK;
}

static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    (void)index;
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
    const int64_t enough = e->stage != NULL ? tess_stage_rehearsed(e->stage, (int)n_local) : 2;
    return n_local > enough ? enough * e->at.n_data : n;
}

/* Runs a step. A rank without a micro-batch computes in evaluations only. */
static tess_status run_step(tess_engine *e, const tess_config *c, bool all, dry_batches *b, tess_dry_report *report)
{
    tess_engine_report result;
    tess_volume *volume = tess_dry_runtime_volume(e->runtime);
    tess_batch_source source = tess_engine_source(e, b, next);
    source.divisor = 1;
    TESS_TRY(tess_fsdp_reserve(e->fsdp, source.n_micro));
    source.n_micro = all ? source.n_micro : enough_batches(e, source.n_micro);
    if (c->validation.enable && tess_coordinates_micro(&e->at, 0) >= source.n_micro && b->batch.loss == NULL)
        TESS_TRY(evaluate(e, c, b));
    *volume = (tess_volume){.n_rows = 0};
    TESS_TRY(tess_engine_step(e, &source, &result));
    report->volume = *volume;
    report->exchanged_bytes = result.times.exchanged_bytes;
    return TESS_OK;
}

/* ---- Counters ---- */
enum { DISK_BLOCK = 4096 };

/* Counts the elements that the rank saves, and the bytes that a save copies: all weights (or only the adapter), and the
 * optimizer's state of the parameters that train. Ranks that hold the same tensors divide them among themselves. */
static tess_status count_saved(const tess_engine *e, tess_dry_report *r)
{
    double primary = 0, frozen = 0, held = 0;
    for (int i = 0; i < tess_fsdp_shards(e->fsdp); i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(e->fsdp, i, &shard));
        *(shard.trainable ? &primary : &frozen) += (double)tess_box_count(shard.shape.n_dims, &shard.primary);
        held += shard.trainable ? (double)tess_box_count(shard.shape.n_dims, &shard.box) : 0;
    }
    const double optimizer =
        r->host[TESS_POOL_OPTIMIZER] + r->disk[TESS_POOL_OPTIMIZER] + r->device[TESS_POOL_OPTIMIZER];
    const bool adapts = tess_model_get_config(e->model)->lora.rank > 0;
    r->n_primary = primary + frozen;
    r->saved = (primary + (adapts ? 0 : frozen)) * sizeof(float) + (held > 0 ? optimizer * primary / held : 0) +
               DISK_BLOCK * (double)tess_model_n_params(e->model);
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

/* Finds how much of the state on disk is in memory at a time. */
static double resident_of(const tess_engine *e, const tess_dry_report *r)
{
    size_t activations, at_once;
    double on_disk = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        on_disk += r->disk[pool];
    (void)tess_executor_disk_bytes(e->model, tess_executor_get_options(e->executor), &activations);
    const size_t resident =
        tess_offload_resident(e->config, e->fsdp, tess_config_micro_batches(e->config), activations, &at_once);
    return fmin(on_disk, (double)resident);
}

static tess_status take_counters(const tess_engine *e, tess_dry_report *r)
{
    for (int pool = 0; pool < TESS_POOL_MISC; pool++) {
        r->host[pool] = (double)tess_mem_stats(e->mem, (tess_pool)pool).bytes;
        r->disk[pool] = (double)tess_mem_disk_bytes(e->mem, (tess_pool)pool);
        if (e->compute.apart)
            r->device[pool] = (double)tess_device_mem_stats(e->compute.device, (tess_pool)pool).bytes;
    }
    if (e->compute.apart)
        r->device[TESS_POOL_ACTIVATIONS] -= (double)tess_stream_work_bytes(e->compute.stream);
    r->resides = e->compute.resident;
    r->work = (double)tess_stream_work_bytes(e->stream);
    r->resident = resident_of(e, r);
    r->n_units = tess_fsdp_units(e->fsdp, &r->largest_unit);
    r->n_blocks = tess_model_n_units(e->model);
    if (e->stage != NULL)
        name_stages(e->stage_plan, r);
    return count_saved(e, r);
}

static tess_status measure(tess_engine *e, const tess_memory_plan *plan, tess_dry_report *report)
{
    tess_held_weights held = {.engine = NULL};
    tess_status status = plan->holds ? tess_weights_hold(e, &held) : TESS_OK;
    if (status == TESS_OK)
        status = take_counters(e, report);
    tess_status let_go = tess_weights_let_go(&held);
    return status == TESS_OK ? let_go : status;
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

static tess_status fill_nothing(void *context, const char *name, const tess_shape *shape, const tess_box *box,
                                float *dst)
{
    (void)context, (void)name, (void)shape, (void)box, (void)dst;
    return TESS_OK;
}

static tess_status run(tess_runtime *rt, const tess_memory_plan *plan, const tess_model_config *model,
                       tess_dry_report *report)
{
    tess_engine *e;
    dry_batches batches = {.numbers = NULL};
    const tess_engine_options options = {.device_need = need_nothing};
    tess_mem *mem = tess_runtime_mem(rt);
    TESS_TRY(plan->second
                 ? tess_engine_create_second(tess_runtime_team(rt), plan->config, model, fill_nothing, NULL, &e)
                 : tess_engine_create(rt, plan->config, model, &options, &e));
    tess_status status = make_batches(mem, plan->config, model, &batches);
    if (status == TESS_OK)
        status = run_step(e, plan->config, plan->moves, &batches, report);
    if (status == TESS_OK)
        status = measure(e, plan, report);
    tess_engine_destroy(&e);
    tess_mem_free(mem, batches.numbers);
    return status;
}

/* The number of threads of a rank, by the rule with which the runtime divides cores. */
static int threads_of(const tess_memory_plan *plan)
{
    int share = tess_os_cores() / plan->n_local;
    return plan->n_threads > 0 ? plan->n_threads : share > 1 ? share : 1;
}

tess_status tess_dry_rank(const tess_memory_plan *plan, const tess_model_config *model, int rank,
                          tess_dry_report *report)
{
    int degree[TESS_AXES];
    TESS_AUTO(tess_dry_runtime_destroy) tess_runtime *rt = NULL;
    tess_axes_degrees(&plan->config->parallelism, degree);
    const tess_dry_options options = {.rank = rank,
                                      .world = tess_coordinates_by(degree, rank).world,
                                      .ranks_a_host = plan->n_local,
                                      .n_threads = threads_of(plan),
                                      .kernels = plan->kernels};
    *report = (tess_dry_report){.work = 0};
    TESS_TRY(tess_dry_runtime_create(&options, &rt));
    return run(rt, plan, model, report);
}

/* ---- A rank that only draws ---- */
/* Copies of the weights: the one in use, and the next one that is being received */
enum { COPIES = 2, ALIGNMENT = 64 };

static double copy_bytes(const tess_model *model, tess_dtype dtype)
{
    size_t bytes = 0;
    for (int i = 0; i < tess_model_n_params(model); i++)
        bytes += tess_round_up((size_t)tess_shape_count(&tess_model_param(model, i)->shape) * tess_dtype_size(dtype),
                               ALIGNMENT);
    return (double)bytes;
}

static tess_status generate_dry(tess_mem *mem, const tess_model *model, const tess_generator_options *options,
                                tess_memory_of_rank *rank)
{
    TESS_AUTO(tess_stream_destroy) tess_stream *stream = NULL;
    TESS_AUTO(tess_generator_destroy) tess_generator *generator = NULL;
    TESS_TRY(tess_stream_create(mem, 1, NULL, &stream));
    TESS_TRY(tess_generator_create(stream, model, &(tess_hooks){.self = NULL}, options, &generator));
    for (int pool = 0; pool < TESS_POOL_MISC; pool++)
        rank->pool[pool] += (double)tess_mem_stats(mem, (tess_pool)pool).bytes;
    return TESS_OK;
}

/* Creates the part of the model that a rank has at these places. */
static tess_status create_part(tess_mem *mem, const tess_config *c, const tess_model_config *sizes, int pp, int tp,
                               tess_model **model)
{
    int degree[TESS_AXES];
    tess_stage_plan stages;
    tess_axes_degrees(&c->parallelism, degree);
    TESS_TRY(tess_stage_plan_create(mem, c, sizes, pp, &stages));
    stages.part.tp_rank = tp;
    stages.part.tp_degree = degree[TESS_AXIS_TP];
    tess_status status = tess_model_create_part(mem, sizes, &stages.part, model);
    tess_stage_plan_free(mem, &stages);
    return status;
}

/* Finds the largest page of all ranks. No rank along tp has more key heads than the first. */
static tess_status find_page(tess_mem *mem, const tess_config *c, const tess_model_config *sizes, int n_stages,
                             tess_generator_options *options)
{
    for (int pp = 0; pp < n_stages; pp++) {
        tess_model *model;
        TESS_TRY(create_part(mem, c, sizes, pp, 0, &model));
        const size_t page = tess_kv_page_bytes(model, options->dtype);
        options->page_bytes = page > options->page_bytes ? page : options->page_bytes;
        tess_model_destroy(&model);
    }
    return TESS_OK;
}

tess_status tess_memory_of_drawing(const tess_model_config *sizes, const tess_config *c, int rank,
                                   tess_memory_of_rank *of_rank)
{
    int degree[TESS_AXES];
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_AUTO(tess_model_destroy) tess_model *model = NULL;
    tess_generator_options options = tess_drawing_options(c, c->rollout.prompts * c->rollout.n);
    *of_rank = (tess_memory_of_rank){.stages = "draws"};
    TESS_TRY(tess_mem_create_dry(&mem));
    tess_axes_degrees(&c->parallelism, degree);
    const tess_coordinates at = tess_coordinates_by(degree, rank);
    TESS_TRY(find_page(mem, c, sizes, at.degree[TESS_AXIS_PP], &options));
    TESS_TRY(create_part(mem, c, sizes, at.place[TESS_AXIS_PP], at.place[TESS_AXIS_TP], &model));
    const tess_model_part *part = tess_model_get_part(model);
    options.points = (tess_points){.rank = part->tp_rank, .degree = part->tp_degree};
    options.sequence_parallel = tess_engine_activations(c).sequence_parallel;
    of_rank->pool[TESS_POOL_PARAMS] = COPIES * copy_bytes(model, options.dtype);
    return generate_dry(mem, model, &options, of_rank);
}
