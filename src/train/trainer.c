/* Building a trainer from a configuration, and the loop around its steps. */
#include "train/trainer_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "device/peak.h"
#include "optim/optim_internal.h"
#include "parallel/fsdp/fsdp_internal.h"
#include "tessera/comm.h"

void tess_trainer_note(const tess_trainer *t, const char *format, ...)
{
    char text[1024];
    va_list args;
    if (t->observer == NULL || t->observer->note == NULL || t->rank != 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    t->observer->note(t->observer->self, text);
}

static void report_line(void *self, const char *text)
{
    tess_trainer_note(self, "%s", text);
}

tess_status tess_trainer_path(const tess_trainer *t, const char *name, char *path, size_t size)
{
    return tess_os_join(path, size, t->config.job.dump_folder, name);
}

static tess_status load_model_config(tess_trainer *t)
{
    char path[1024];
    const tess_config *config = &t->config;
    if (config->model.path[0] != '\0')
        TESS_TRY(tess_os_join(path, sizeof(path), config->model.path, "config.json"));
    else
        snprintf(path, sizeof(path), "%s", config->model.config);
    TESS_TRY(tess_model_config_load(path, &t->model_config));
    int64_t longest = tess_model_config_max_length(&t->model_config);
    TESS_CHECK(
        config->training.seq_len <= longest, TESS_E_INVALID,
        "training.seq_len: %lld is more than the %lld positions of %s (max_position_embeddings): shorten the rows or "
        "change the model's rope scaling",
        (long long)config->training.seq_len, (long long)longest, path);
    return TESS_OK;
}

static tess_status open_data(tess_trainer *t)
{
    const tess_config *config = &t->config;
    const char *files[TESS_LIST_SIZE];
    for (int i = 0; i < config->data.files.n; i++)
        files[i] = config->data.files.item[i];
    bool held_out = tess_trainer_can_validate(t) && config->validation.files.n == 0;
    tess_loader_options options = {.files = files,
                                   .n_files = config->data.files.n,
                                   .text_key = config->data.text_key,
                                   .seq_len = config->training.seq_len,
                                   .micro_batch = config->training.local_batch_size,
                                   .seed = (uint64_t)config->debug.seed,
                                   .shuffle = config->data.shuffle,
                                   .repeat = true,
                                   .begin = 0,
                                   .end = held_out ? 1 - config->validation.fraction : 1,
                                   .eos_id = tess_trainer_eos(t),
                                   .bos_id = -1};
    TESS_TRY_CTX(tess_loader_create(t->mem, t->tokenizer, &options, &t->loader), "data.files");
    return tess_mem_alloc_array(t->mem, TESS_POOL_ACTIVATIONS,
                                (size_t)(config->training.local_batch_size * config->training.seq_len), sizeof(float),
                                "log-probabilities", (void **)&t->logprobs);
}

static tess_dtype dtype_of(int precision)
{
    return precision == TESS_PRECISION_BF16 ? TESS_BF16 : TESS_F32;
}

static tess_status add_units(tess_trainer *t)
{
    int n_units = tess_model_n_units(t->model), n_params = tess_model_n_params(t->model);
    tess_param_desc *descs;
    TESS_TRY(
        tess_mem_alloc_array(t->mem, TESS_POOL_MISC, (size_t)n_units, sizeof(*t->units), "units", (void **)&t->units));
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, (size_t)n_params, sizeof(*t->w), "units", (void **)&t->w));
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, (size_t)n_params, sizeof(*t->dw), "units", (void **)&t->dw));
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, (size_t)n_params, sizeof(*descs), "units", (void **)&descs));
    tess_status status = TESS_OK;
    for (int unit = 0; status == TESS_OK && unit < n_units; unit++) {
        int first, n;
        tess_model_unit_params(t->model, unit, &first, &n);
        for (int i = 0; i < n; i++) {
            const tess_param *param = tess_model_param(t->model, first + i);
            descs[i] = (tess_param_desc){param->name, param->shape, true, param->decay};
        }
        status = tess_fsdp_add_unit(t->fsdp, tess_model_unit_name(t->model, unit), descs, n, &t->units[unit]);
    }
    tess_mem_free(t->mem, descs);
    return status;
}

static tess_status fill_weights(tess_trainer *t)
{
    if (t->config.model.path[0] == '\0') {
        tess_random_weights random = {t->model, (uint64_t)t->config.debug.seed, t->stream->threads};
        return tess_fsdp_materialize(t->fsdp, tess_random_weights_fill, &random);
    }
    tess_weights *weights;
    tess_reporter reporter = {report_line, t};
    TESS_TRY(tess_weights_open(t->mem, t->config.model.path, t->model, &reporter, &weights));
    tess_status status = tess_fsdp_materialize(t->fsdp, tess_weights_fill, weights);
    if (status == TESS_OK) {
        int32_t *broken = tess_weights_broken(weights); /* each rank has seen its own rows only */
        status =
            tess_all_reduce(t->team, broken, broken, (size_t)tess_model_n_params(t->model), TESS_I32, TESS_MAX, NULL);
    }
    if (status == TESS_OK)
        tess_weights_report_broken(weights);
    tess_weights_close(&weights);
    return status;
}

static tess_status build_sharding(tess_trainer *t)
{
    const tess_config *c = &t->config;
    const tess_axis axes[] = {{"dp_replicate", (int)c->parallelism.data_parallel_replicate_degree},
                              {"dp_shard", (int)c->parallelism.data_parallel_shard_degree}};
    tess_fsdp_policy policy = {.strategy = (tess_strategy)c->parallelism.shard_strategy,
                               .param_dtype = dtype_of(c->training.mixed_precision_param),
                               .reduce_dtype = dtype_of(c->training.mixed_precision_reduce),
                               .reshard_after_forward = (int)c->parallelism.fsdp_reshard_after_forward,
                               .prefetch = (int)c->parallelism.fsdp_prefetch};
    tess_adamw_options adamw = {(float)c->optimizer.beta1, (float)c->optimizer.beta2, (float)c->optimizer.eps,
                                (float)c->optimizer.weight_decay};
    TESS_TRY(tess_mesh_create(t->runtime, axes, 2, &t->mesh));
    TESS_TRY(tess_fsdp_create(t->mesh, &policy, &t->fsdp));
    tess_fsdp_set_stream(t->fsdp, t->stream);
    TESS_TRY(add_units(t));
    TESS_TRY_CTX(fill_weights(t), "weights");
    TESS_TRY(tess_adamw_create(t->fsdp, &adamw, &t->adamw));
    tess_adamw_set_stream(t->adamw, t->stream);
    return TESS_OK;
}

static tess_status build_executor(tess_trainer *t)
{
    const tess_config *c = &t->config;
    tess_hooks hooks = tess_trainer_hooks(t);
    tess_executor_options options = {.dtype = dtype_of(c->training.mixed_precision_param),
                                     .recompute = (tess_recompute)c->activation_checkpoint.mode,
                                     .recompute_every = (int)c->activation_checkpoint.every_n,
                                     .max_tokens = c->training.local_batch_size * c->training.seq_len,
                                     .max_position = c->training.seq_len,
                                     .train = true};
    return tess_executor_create(t->stream, t->model, &hooks, &options, &t->executor);
}

/* What the cores of all ranks together can do: threads beyond the cores take turns, and add nothing. */
static tess_status measure_peak(tess_trainer *t)
{
    double flops = tess_peak_flops(t->stream, dtype_of(t->config.training.mixed_precision_param));
    float mine = (float)(flops * 1e-9), all;
    TESS_TRY(tess_all_reduce(t->team, &mine, &all, 1, TESS_F32, TESS_SUM, NULL));
    double threads = (double)t->world * tess_threads_count(t->stream->threads), cores = tess_os_cores();
    t->peak_flops = (double)all * 1e9 * (threads > cores ? cores / threads : 1);
    return TESS_OK;
}

static void describe(const tess_trainer *t)
{
    char params[32];
    static const char *const strategies[] = {"none (DDP)", "zero1", "zero2", "full", "hybrid"};
    const tess_config *c = &t->config;
    tess_trainer_note(t, "model: %s, %s parameters, %lld layers, vocabulary %lld",
                      tess_family_name(t->model_config.family),
                      tess_format_count((double)tess_model_count(t->model), params, sizeof(params)),
                      (long long)t->model_config.n_layers, (long long)t->model_config.vocab_size);
    tess_trainer_note(t, "ranks: %d (%s), %d thread%s each, sharding %s, %s, kernels %s, peak %.2f TFLOP/s", t->world,
                      tess_runtime_backend(t->runtime), tess_threads_count(t->stream->threads),
                      tess_threads_count(t->stream->threads) > 1 ? "s" : "", strategies[c->parallelism.shard_strategy],
                      tess_dtype_name(dtype_of(c->training.mixed_precision_param)), t->stream->kernels->name,
                      t->peak_flops * 1e-12);
    tess_trainer_note(t, "batch: %lld rows of %lld tokens a step, in micro-batches of %lld",
                      (long long)c->training.global_batch_size, (long long)c->training.seq_len,
                      (long long)c->training.local_batch_size);
}

static tess_status build(tess_trainer *t)
{
    TESS_TRY(load_model_config(t));
    TESS_TRY(tess_trainer_tokenizer(t));
    TESS_TRY(open_data(t));
    TESS_TRY(tess_trainer_open_validation(t));
    TESS_TRY(tess_trainer_check_sample(t));
    TESS_TRY(tess_model_create(t->mem, &t->model_config, &t->model));
    TESS_TRY(
        tess_stream_create(t->mem, tess_runtime_threads(t->runtime), tess_runtime_kernels(t->runtime), &t->stream));
    TESS_TRY(build_sharding(t));
    TESS_TRY(build_executor(t));
    TESS_TRY(measure_peak(t));
    TESS_TRY(tess_os_make_dirs(t->config.job.dump_folder));
    TESS_TRY(tess_trainer_write_tokenizer(t));
    describe(t);
    TESS_TRY(tess_trainer_resume(t));
    t->first_step = t->step;
    if (t->rank == 0)
        TESS_TRY(tess_metrics_open(t->mem, &t->config, t->step, &t->metrics));
    return TESS_OK;
}

static void destroy(tess_trainer *t)
{
    tess_metrics_close(&t->metrics);
    tess_executor_destroy(&t->executor);
    tess_adamw_destroy(&t->adamw);
    tess_fsdp_destroy(&t->fsdp);
    tess_mesh_destroy(&t->mesh);
    tess_stream_destroy(&t->stream);
    tess_model_destroy(&t->model);
    tess_loader_destroy(&t->held_out);
    tess_loader_destroy(&t->loader);
    tess_tokenizer_destroy(&t->tokenizer);
    if (t->trained_tokenizer.mem != NULL)
        tess_buffer_free(&t->trained_tokenizer);
    tess_mem_free(t->mem, t->logprobs);
    tess_mem_free(t->mem, t->dw);
    tess_mem_free(t->mem, t->w);
    tess_mem_free(t->mem, t->units);
}

/* Speed since the last log line. */
typedef struct speedometer {
    double since_s;
    int64_t tokens, step;
} speedometer;

static void fill_speed(const tess_trainer *t, speedometer *meter, tess_step_report *report)
{
    double elapsed = tess_os_now_s() - meter->since_s;
    report->tps = elapsed > 0 ? (double)(t->n_tokens - meter->tokens) / elapsed : 0;
    report->tflops = report->tps * tess_model_flops_per_token(t->model, t->config.training.seq_len) * 1e-12;
    report->mfu = t->peak_flops > 0 ? report->tflops * 1e12 / t->peak_flops : 0;
    report->eta_s = elapsed / (double)(t->step - meter->step) * (double)(t->config.training.steps - t->step);
    if (report->log_line)
        *meter = (speedometer){tess_os_now_s(), t->n_tokens, t->step};
}

static tess_status fill_memory(const tess_trainer *t, tess_step_report *report)
{
    int64_t total = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        report->peak_bytes[pool] = tess_mem_stats(t->mem, (tess_pool)pool).peak_bytes;
        total += (int64_t)report->peak_bytes[pool];
    }
    if (report->log_line)
        TESS_TRY(tess_all_reduce(t->team, &total, &total, 1, TESS_I64, TESS_SUM, NULL));
    report->total_peak_bytes = (size_t)total;
    return TESS_OK;
}

/* The counters of all ranks together, as a line for people. */
static tess_status describe_memory(const tess_trainer *t)
{
    int64_t peaks[TESS_POOL_COUNT];
    char line[512], bytes[32];
    int used = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        peaks[pool] = (int64_t)tess_mem_stats(t->mem, (tess_pool)pool).peak_bytes;
    TESS_TRY(tess_all_reduce(t->team, peaks, peaks, TESS_POOL_COUNT, TESS_I64, TESS_SUM, NULL));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        if (peaks[pool] > 0)
            used +=
                snprintf(line + used, sizeof(line) - (size_t)used, "%s%s %s", used > 0 ? ", " : "",
                         tess_pool_name((tess_pool)pool), tess_format_bytes((double)peaks[pool], bytes, sizeof(bytes)));
    tess_trainer_note(t, "memory of all ranks at the peak: %s", line);
    return TESS_OK;
}

static tess_status run_step(tess_trainer *t, speedometer *meter)
{
    tess_step_report report = {.steps = t->config.training.steps};
    TESS_TRY(tess_trainer_step(t, &report.loss, &report.grad_norm, &report.lr));
    report.step = t->step;
    report.n_tokens = t->n_tokens;
    report.log_line =
        t->step % t->config.metrics.log_freq == 0 || t->step == t->first_step + 1 || t->step == report.steps;
    fill_speed(t, meter, &report);
    TESS_TRY(fill_memory(t, &report));
    if (t->rank != 0)
        return TESS_OK;
    if (t->observer != NULL && t->observer->step != NULL)
        t->observer->step(t->observer->self, &report);
    return tess_metrics_step(t->metrics, &report);
}

static tess_status validate(tess_trainer *t, speedometer *meter, tess_train_result *result)
{
    TESS_TRY(tess_trainer_validate(t, &result->last));
    meter->since_s += result->last.seconds; /* not training time */
    if (t->rank != 0)
        return TESS_OK;
    if (t->observer != NULL && t->observer->validation != NULL)
        t->observer->validation(t->observer->self, &result->last);
    return tess_metrics_validation(t->metrics, &result->last);
}

static tess_status run(tess_trainer *t, tess_train_result *result)
{
    const tess_config *c = &t->config;
    speedometer meter = {tess_os_now_s(), t->n_tokens, t->step};
    while (t->step < c->training.steps && !t->stopping) {
        TESS_TRY(run_step(t, &meter));
        bool last = t->step == c->training.steps;
        if (tess_trainer_can_validate(t) && !t->stopping && (last || t->step % c->validation.interval == 0))
            TESS_TRY(validate(t, &meter, result));
        if (c->checkpoint.enable && (last || t->stopping || t->step % c->checkpoint.interval == 0))
            TESS_TRY_CTX(tess_trainer_save(t), "checkpoint of step %lld", (long long)t->step);
    }
    result->steps = t->step;
    result->interrupted = t->stopping && t->step < c->training.steps;
    if (result->interrupted)
        return TESS_OK;
    TESS_TRY(describe_memory(t));
    TESS_TRY_CTX(tess_trainer_export(t, result->model_folder, sizeof(result->model_folder)), "write the model");
    if (c->sample.prompt[0] != '\0' && t->rank == 0)
        TESS_TRY_CTX(tess_trainer_sample(t, result->model_folder), "sample");
    return tess_barrier(t->team, NULL);
}

tess_status tess_train(tess_runtime *runtime, const tess_config *config, const tess_train_observer *observer,
                       tess_train_result *result)
{
    tess_trainer t = {.config = *config,
                      .observer = observer,
                      .runtime = runtime,
                      .team = tess_runtime_team(runtime),
                      .mem = tess_runtime_mem(runtime),
                      .rank = tess_runtime_rank(runtime),
                      .world = tess_runtime_world(runtime)};
    memset(result, 0, sizeof(*result));
    TESS_TRY(tess_config_check(&t.config, t.world));
    tess_status status = build(&t);
    if (status == TESS_OK)
        status = run(&t, result);
    destroy(&t);
    return status;
}
