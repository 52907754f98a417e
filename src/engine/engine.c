/* Builds the step engine from a configuration, and destroys it. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/dry_mem.h"
#include "base/mem/named.h"
#include "comm/agree.h"
#include "comm/device_windows.h"
#include "comm/rejoin.h"
#include "comm/seat.h"
#include "comm/split.h"
#include "inject/inject.h"
#include "device/peak.h"
#include "parallel/fsdp/fsdp_offload.h"
#include "parallel/fsdp/fsdp_parts.h"
#include "parallel/fsdp/wire_form.h"
#include "tessera/comm.h"
#include "engine/model/adapter.h"
#include "engine/device_memory.h"
#include "engine/foreign.h"
#include "engine/numbers/expert_loads.h"
#include "engine/numbers/numbers.h"
#include "engine/numbers/router_bias.h"
#include "engine/offload.h"
#include "engine/shards.h"
#include "engine/stages/rank_stage.h"
#include "engine/peak_speed.h"
#include "base/mem/scoped.h"

/* Adds the family of experts that ranks divide: neighbours, in the batch or in its tokens, have different ones. */
static tess_status add_experts(tess_engine *e, tess_fsdp_family **experts)
{
    const int neighbours = e->at.n_experts / e->at.degree[TESS_AXIS_TP];
    if (e->at.n_experts == 1)
        return TESS_OK;
    return tess_fsdp_add_family(e->fsdp, "experts", e->at.n_shards / neighbours, neighbours, experts);
}

static tess_status add_units(tess_engine *e)
{
    const int n_units = tess_model_n_units(e->model);
    TESS_TRY(TESS_PART(e, n_units, "units", &e->units));
    TESS_TRY(tess_block_params_create(tess_scope_of(e), e->model, &e->gathered));
    if (e->program != NULL)
        return tess_foreign_add_units(e);
    tess_fsdp_family *experts = NULL;
    TESS_TRY(add_experts(e, &experts));
    TESS_TRY(tess_block_units_add(e->mem, e->config, e->model, e->stage_plan->units, e->stage_plan->shape.chunks,
                                  e->compute.resident, e->fsdp, experts, e->units));
    tess_engine_number_params(e);
    return TESS_OK;
}

/* Arguments for creating an engine that its configuration does not contain. */
typedef struct engine_source {
    tess_engine_options options;
    tess_fill_fn fill; /* source of the first weights; NULL: the source that the configuration names */
    void *context;
} engine_source;

/* The first weights of a model with a new adapter: the model's from a checkpoint, the adapter's random. */
typedef struct adapted_weights {
    tess_weights *base;
    tess_random_weights adapter;
} adapted_weights;

static tess_status fill_adapted(void *context, const char *name, const tess_shape *shape, const tess_box *box,
                                float *dst)
{
    adapted_weights *w = context;
    const tess_model *model = w->adapter.model;
    bool begins = tess_model_param(model, tess_model_find_param(model, name))->adapter;
    return begins ? tess_random_weights_fill(&w->adapter, name, shape, box, dst)
                  : tess_weights_fill(w->base, name, shape, box, dst);
}

static tess_status fill_weights(tess_engine *e, const tess_reporter *reporter)
{
    tess_random_weights random = {e->whole, (uint64_t)e->config->debug.seed, tess_stream_threads(e->stream)};
    if (e->config->model.path[0] == '\0' || tess_mem_is_dry(e->mem)) /* a dry stream's threads fill nothing */
        return tess_fsdp_materialize(e->fsdp, tess_random_weights_fill, &random);
    TESS_AUTO(tess_weights_close) tess_weights *weights = NULL;
    TESS_TRY(tess_weights_open(e->mem, e->config->model.path, e->whole, reporter, &weights));
    adapted_weights beginning = {weights, random};
    bool stored = e->config->lora.path[0] != '\0';
    TESS_TRY(stored ? tess_weights_add_adapter(weights, e->config->lora.path) : TESS_OK);
    TESS_TRY(stored ? tess_fsdp_materialize(e->fsdp, tess_weights_fill, weights)
                    : tess_fsdp_materialize(e->fsdp, fill_adapted, &beginning));
    int32_t *broken = tess_weights_broken(weights); /* each rank has read only its own rows */
    TESS_TRY(tess_all_reduce(e->team, broken, broken, (size_t)tess_model_n_params(e->whole), TESS_I32, TESS_MAX, NULL));
    tess_weights_report_broken(weights);
    return TESS_OK;
}

/* Lets drills interrupt an update. */
static void inject_moment(void *self, const char *moment, int64_t number)
{
    tess_inject_moment(self, moment, number);
}

static tess_status build_optimizer(tess_engine *e)
{
    const tess_optimizer_options options = tess_engine_optimizer(e->config);
    if (e->program != NULL && e->program->update != NULL)
        return TESS_OK;
    TESS_TRY(tess_fsdp_optimizer_create(e->fsdp, &options, &e->optimizer));
    if (!e->is_second)
        tess_optimizer_set_observer(e->optimizer, inject_moment, e->runtime);
    return TESS_OK;
}

/* Creates the whole model, and this rank's part of it. */
static tess_status create_models(tess_engine *e, const tess_model_config *model_config, const tess_model *whole)
{
    TESS_TRY(TESS_PART(e, 1, "stages", &e->stage_plan));
    if (e->program != NULL) {
        TESS_TRY(tess_foreign_model(e->mem, e->program, &e->own_whole));
        return tess_foreign_model(e->mem, e->program, &e->model);
    }
    if (whole == NULL)
        TESS_TRY(tess_model_create(e->mem, model_config, &e->own_whole));
    TESS_TRY(tess_stage_plan_create(e->mem, e->config, model_config, e->at.place[TESS_AXIS_PP], e->stage_plan));
    tess_stage_part_share(&e->at, &e->stage_plan->part);
    return tess_model_create_part(e->mem, model_config, &e->stage_plan->part, &e->model);
}

/* Whether the configuration may freeze or adapt some experts of a layer, and not others. */
static bool names_parameters(const tess_engine *e)
{
    return e->config->training.freeze.n > 0 || tess_model_get_config(e->whole)->lora.rank > 0;
}

/* Refuses patterns that name single experts. Ranks that divide experts gather them in one call, so expert k of each
 * must train, and have an adapter, if expert k of the others does. */
static tess_status check_experts_alike(const tess_engine *e)
{
    const long long all = tess_model_get_config(e->whole)->parts.experts.n;
    if (e->at.n_experts <= 1 || !names_parameters(e))
        return TESS_OK;
    for (int i = 0; i < tess_model_n_params(e->whole); i++) {
        const tess_param *p = tess_model_param(e->whole, i);
        char name[TESS_PARAM_NAME_SIZE], *end;
        if (!p->expert || p->stacked)
            continue;
        const char *number = strstr(p->name, "experts.") + strlen("experts.");
        const long long next = (strtoll(number, &end, 10) + all / e->at.n_experts) % all;
        snprintf(name, sizeof(name), "%.*s%lld%s", (int)(number - p->name), p->name, next, end);
        const int other = tess_model_find_param(e->whole, name);
        TESS_CHECK(
            other >= 0 && tess_model_param(e->whole, other)->frozen == p->frozen, TESS_E_INVALID,
            "training.freeze, lora.targets: '%s' and '%s', of the next of %d ranks that divide the experts, must "
            "both train or neither: name all experts, or set parallelism.expert_parallel_degree=%d",
            p->name, name, e->at.n_experts, e->at.degree[TESS_AXIS_TP]);
    }
    return TESS_OK;
}

static tess_status build_model(tess_engine *e, const tess_model_config *model_config, const tess_model *whole)
{
    tess_axis axes[TESS_MESH_MAX_AXES];
    const int n_axes = tess_axes_join(axes, tess_axes_of(&e->config->parallelism, axes));
    TESS_TRY(tess_mesh_create_over(e->team, axes, n_axes, &e->mesh));
    e->at = tess_coordinates_of(&e->config->parallelism, tess_team_rank(e->team));
    TESS_TRY(create_models(e, model_config, whole));
    if (!e->is_second) {
        if (e->own_whole != NULL)
            tess_config_freeze(e->config, e->own_whole);
        tess_config_freeze(e->config, e->model);
    }
    e->whole = e->own_whole != NULL ? e->own_whole : whole;
    TESS_TRY(check_experts_alike(e));
    return tess_stage_own_params(e->mem, e->stage_plan, e->whole, e->model);
}

static tess_split_place context_place(const void *at, int rank)
{
    const tess_coordinates *own = at;
    const int inner = own->degree[TESS_AXIS_TP], all = own->degree[TESS_AXIS_CP] * inner;
    return (tess_split_place){.color = rank / all * inner + rank % inner};
}

static tess_status build_sharding(tess_engine *e, const engine_source *source)
{
    const tess_config *c = e->config;
    const tess_fsdp_policy policy = tess_engine_policy(c);
    TESS_TRY(tess_fsdp_create(e->mesh, &policy, &e->fsdp));
    TESS_TRY(tess_fsdp_set_passes(e->fsdp, (int)c->training.passes));
    if (e->at.degree[TESS_AXIS_CP] > 1) {
        TESS_TRY(tess_team_split_by(e->team, context_place, &e->at, "cp", &e->context_team));
        TESS_TRY(tess_fsdp_set_parts(e->fsdp, e->context_team));
    }
    TESS_TRY(tess_fsdp_set_stream(e->fsdp, e->compute.resident ? e->compute.stream : e->stream));
    TESS_TRY(tess_fsdp_set_norm_team(e->fsdp, e->team));
    tess_fsdp_set_clock(e->fsdp, &e->clock);
    if (e->is_second)
        TESS_TRY(tess_fsdp_set_private(e->fsdp));
    if (tess_config_offloads(c))
        TESS_TRY(tess_team_agree(e->team, tess_offload_begin(e->runtime, c, &e->offload)));
    tess_fsdp_set_offload(e->fsdp, tess_offload_pools(c));
    TESS_TRY(tess_fsdp_set_step_size(e->fsdp, tess_config_leaves(c)));
    TESS_TRY(add_units(e));
    tess_offload_make_room(e->mem, c, e->fsdp, 0);
    tess_status status = source->fill != NULL ? tess_fsdp_materialize(e->fsdp, source->fill, source->context)
                         : e->program != NULL ? tess_fsdp_materialize(e->fsdp, e->program->fill, e->program->self)
                                              : fill_weights(e, source->options.reporter);
    TESS_TRY_CTX(status, "weights");
    return build_optimizer(e);
}

/* Opens the exchanges between ranks that divide the tokens of a micro-batch. */
static tess_status open_context(tess_engine *e, tess_executor_options *options)
{
    const size_t most = tess_executor_context_bytes(e->model, options);
    if (e->at.degree[TESS_AXIS_CP] > 1) {
        TESS_TRY(tess_tensor_create(e->mem, e->context_team, e->compute.stream, most, &e->context));
        options->context.points = tess_engine_context_points(e);
    }
    if (e->at.degree[TESS_AXIS_CP] > 1 && options->context.rings) {
        const size_t bytes = tess_executor_ring_bytes(e->model, options);
        TESS_TRY(tess_ring_create(e->mem, e->context_team, e->compute.stream, bytes, &e->ring));
        options->context.ring = tess_engine_ring_points(e);
    }
    e->pieces = (tess_pieces){
        .context = options->context, .team = e->context_team, .mem = e->mem, .max_tokens = options->max_tokens};
    return tess_pieces_reserve(&e->pieces, (size_t)e->stage_plan->n_sets);
}

static tess_status build_executor(tess_engine *e)
{
    e->pieces.context = (tess_context){.points.degree = 1, .n_leaves = 1};
    if (e->program != NULL) {
        TESS_CHECK(e->config->training.context_leaves == 1, TESS_E_UNSUPPORTED,
                   "training.context_leaves: a program of its own sums over tokens itself: set it to 1");
        return tess_foreign_ready(e);
    }
    tess_hooks hooks = tess_engine_hooks(e);
    tess_executor_options options = tess_engine_activations(e->config);
    options.logit_bytes = e->compute.apart ? (size_t)e->config->training.logit_bytes : 0;
    int n_local = (int)tess_coordinates_rounds(&e->at, tess_config_micro_batches(e->config));
    if (e->at.degree[TESS_AXIS_PP] > 1)
        TESS_TRY(tess_stage_slots(e->mem, e->stage_plan, e->model, n_local, &options));
    TESS_TRY(tess_activations_fit(e->mem, e->config, e->model, &e->stage_plan->part, &options));
    const tess_wire_form *form = tess_wire_form_of(options.dtype, tess_gathered_codes(e->config, e->fsdp));
    TESS_CHECK(form != NULL, TESS_E_INTERNAL, "no form of gathered weights has codes %d of %s",
               tess_gathered_codes(e->config, e->fsdp), tess_dtype_name(options.dtype));
    options.decode = form->decode;
    TESS_TRY(tess_loads_create(e));
    TESS_TRY(tess_router_bias_create(e));
    options.loads = e->loads.counts != NULL ? &e->loads : NULL;
    const unsigned on_disk = tess_offload_pools(e->config);
    const tess_staging_options staging = {.dtype = options.dtype,
                                          .pins_params = (on_disk & 1u << TESS_POOL_PARAMS) == 0,
                                          .pins_grads = (on_disk & 1u << TESS_POOL_GRADS) == 0};
    const tess_device_need need = tess_device_need_of(e, &options);
    TESS_TRY(tess_device_memory_check(e, &need));
    TESS_TRY(tess_compute_hooks(&e->compute, e->model, &hooks, &staging));
    TESS_TRY(tess_loss_meter_create(e->compute.stream, options.max_tokens, &e->meter));
    TESS_TRY(tess_passes_create(tess_scope_of(e), (int)e->config->training.passes,
                                tess_config_pass_rows(e->config) * e->config->training.seq_len, &e->passes));
    tess_points points = tess_engine_points(e);
    if (e->at.degree[TESS_AXIS_TP] > 1) {
        size_t most = tess_executor_exchange_bytes(e->model, &options);
        TESS_TRY(tess_tensor_create(e->mem, tess_mesh_team(e->mesh, "tp"), e->compute.stream, most, &e->tensor));
        options.points = &points;
    }
    TESS_TRY(open_context(e, &options));
    tess_expert_points expert_points = tess_engine_expert_points(e);
    if (e->at.n_experts > 1) {
        TESS_TRY(tess_expert_team_create(e->team, e->at.n_experts, &e->experts));
        options.expert_points = &expert_points;
    }
    size_t resident;
    (void)tess_executor_disk_bytes(e->model, &options, &resident);
    tess_offload_make_room(e->mem, e->config, e->fsdp, resident);
    TESS_TRY(tess_executor_create(e->compute.stream, e->model, &e->compute.hooks, &options, &e->executor));
    return e->at.degree[TESS_AXIS_PP] > 1 ? tess_stage_create(e, &e->stage) : TESS_OK;
}

/* Measures once in a job: a process that replaces a failed rank finds the result in named memory. */
static tess_status measure_peak(tess_engine *e)
{
    void *memory;
    bool found;
    TESS_TRY(tess_mem_alloc_named(e->mem, TESS_POOL_MISC, "peak", sizeof(double), &memory, &found));
    double *peak = memory;
    tess_status status = TESS_OK;
    if (!found) {
        tess_dtype dtype = tess_precision_dtype(e->config->training.mixed_precision_param);
        tess_rank_power power = tess_power_of_device(tess_device_get_properties(e->compute.device), dtype);
        if (power.flops == 0)
            power = tess_power_of_cores(tess_peak_flops(e->stream, dtype),
                                        tess_threads_count(tess_stream_threads(e->stream)));
        status = tess_peak_of_team(e->mem, e->team, power, peak);
    }
    e->compute.team_flops = *peak;
    tess_mem_free_named(e->mem, TESS_POOL_MISC, sizeof(*peak), peak);
    return status;
}

/* Checks that all ranks use the same kernels. Ranks have already agreed on the CPU's table when they joined
 * (comm/join.c). Devices may still have different tables, whose results differ in bits. */
static tess_status agree_on_kernels(tess_engine *e)
{
    char first[64] = "";
    char mine[64];
    snprintf(mine, sizeof(mine), "%s%s%s", tess_stream_kernels(e->stream)->name, e->compute.apart ? ", " : "",
             e->compute.apart ? tess_stream_kernels(e->compute.stream)->name : "");
    memcpy(first, mine, sizeof(first));
    TESS_TRY_CTX(tess_broadcast(e->team, first, sizeof(first), TESS_U8, 0, NULL), "compare kernels");
    tess_status status = TESS_OK;
    if (strcmp(first, mine) != 0)
        status = TESS_FAIL(
            TESS_E_MISMATCH,
            "kernels '%s' on host %s, but '%s' on rank 0's: results would depend on who computes what; choose one "
            "job.device and one TESSERA_CUBLAS for all hosts",
            mine, tess_runtime_host_name(e->runtime, tess_runtime_host(e->runtime)), first);
    return tess_team_agree(e->team, status);
}

/* Whether memory of the device goes to other ranks: shards, or the streams, matrices and rows of ranks that share a
 * model. */
static bool sends_from_device(const tess_engine *e)
{
    const bool shares_model = e->at.n_parts > 1 || e->at.n_experts > 1;
    return e->compute.resident || (e->compute.apart && shares_model && !e->is_second);
}

static tess_status build(tess_engine *e, const tess_model_config *model_config, const engine_source *source)
{
    TESS_TRY(build_model(e, model_config, source->options.whole));
    TESS_TRY(
        tess_stream_create(e->mem, tess_runtime_threads(e->runtime), tess_runtime_kernels(e->runtime), &e->stream));
    TESS_TRY(tess_compute_open_of_rank(tess_config_device(e->config), tess_runtime_rank(e->runtime), e->stream,
                                       &e->compute));
    if (!e->is_second)
        tess_device_set_log(e->compute.device, tess_runtime_device_log(e->runtime));
    tess_stream_set_name(e->compute.stream, "compute");
    TESS_TRY(agree_on_kernels(e));
    TESS_TRY(tess_shards_choose(e, source->options.device_need));
    if (sends_from_device(e))
        TESS_TRY(tess_runtime_use_device(e->runtime, e->compute.device, e->compute.stream));
    TESS_TRY(build_sharding(e, source));
    TESS_TRY(build_executor(e));
    TESS_TRY(tess_numbers_create(e, &e->numbers));
    const bool counts = e->program == NULL || e->program->flops_per_item > 0; /* operations, which it compares */
    return e->is_second || !counts || tess_mem_is_dry(e->mem) ? TESS_OK : measure_peak(e);
}

static tess_status create(tess_team *team, const tess_config *config, const tess_model_config *model_config,
                          const engine_source *source, tess_engine **out)
{
    TESS_AUTO(tess_engine_destroy) tess_engine *e = NULL;
    tess_runtime *runtime = tess_team_runtime(team);
    *out = NULL;
    TESS_TRY(TESS_NEW(tess_runtime_mem(runtime), 1, "engine", &e));
    *e = (tess_engine){.config = config,
                       .runtime = runtime,
                       .team = team,
                       .mem = tess_runtime_mem(runtime),
                       .program = source->options.program,
                       .scaled.scaler = tess_loss_scaler_of(config),
                       .is_second = source->fill != NULL};
    tess_phase_start(&e->clock);
    TESS_TRY(build(e, model_config, source));
    *out = TESS_GIVE(e);
    return TESS_OK;
}

tess_status tess_engine_create(tess_runtime *runtime, const tess_config *config, const tess_model_config *model_config,
                               const tess_engine_options *options, tess_engine **engine)
{
    return tess_engine_create_over(tess_runtime_team(runtime), config, model_config, options, engine);
}

tess_status tess_engine_create_over(tess_team *team, const tess_config *config, const tess_model_config *model_config,
                                    const tess_engine_options *options, tess_engine **engine)
{
    engine_source source = {.options = options != NULL ? *options : (tess_engine_options){0}};
    return create(team, config, model_config, &source, engine);
}

tess_status tess_engine_create_second(tess_team *team, const tess_config *config, const tess_model_config *model_config,
                                      tess_fill_fn fill, void *context, tess_engine **engine)
{
    return create(team, config, model_config, &(engine_source){.fill = fill, .context = context}, engine);
}

void tess_engine_destroy(tess_engine **handle)
{
    tess_engine *e = *handle;
    if (e == NULL)
        return;
    tess_numbers_destroy(&e->numbers);
    tess_router_bias_free(e);
    tess_stage_destroy(&e->stage);
    tess_executor_destroy(&e->executor);
    tess_tensor_destroy(&e->tensor);
    tess_ring_destroy(&e->ring);
    tess_tensor_destroy(&e->context);
    tess_team_destroy(&e->context_team);
    tess_pieces_free(&e->pieces);
    tess_expert_team_destroy(&e->experts);
    tess_optimizer_destroy(&e->optimizer);
    tess_staging_destroy(&e->compute.staging); /* unpins memory that fsdp owns, so it comes first */
    tess_fsdp_destroy(&e->fsdp);
    tess_offload_end(&e->offload);
    tess_mesh_destroy(&e->mesh);
    tess_loss_meter_destroy(&e->meter);
    if (sends_from_device(e))
        tess_runtime_forget_device(e->runtime);
    tess_compute_close(&e->compute);
    tess_stream_destroy(&e->stream);
    tess_model_destroy(&e->model);
    tess_model_destroy(&e->own_whole);
    if (e->stage_plan != NULL)
        tess_stage_plan_free(e->mem, e->stage_plan);
    tess_mem_drop(handle);
}

void tess_engine_peaks(const tess_engine *e, int64_t peak_bytes[TESS_POOL_COUNT])
{
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        peak_bytes[pool] = (int64_t)tess_mem_stats(e->mem, (tess_pool)pool).peak_bytes;
}
