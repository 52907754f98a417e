/* The reference model: where its weights come from, and its log-probabilities. */
#include "rl/reference/reference_impl.h"

#include <stdio.h>
#include <string.h>

#include "comm/agree.h"
#include "engine/device_memory.h"
#include "rl/rl_first_weights.h"
#include "tessera/comm.h"
#include "base/mem/scoped.h"

static tess_status check_options(const tess_reference_options *o)
{
    TESS_CHECK(o->update_interval >= 0, TESS_E_INVALID, "reference: update_interval is %lld; choose 0 (never) or steps",
               (long long)o->update_interval);
    TESS_CHECK(o->ema >= 0 && o->ema < 1, TESS_E_INVALID, "reference: ema is %g; it must be in [0, 1)", o->ema);
    TESS_CHECK(o->ema == 0 || o->update_interval > 0, TESS_E_INVALID,
               "reference: ema is %g, but update_interval is 0: nothing is ever averaged; set update_interval", o->ema);
    return TESS_OK;
}

/* ---- The source of the weights ---- */
static tess_status load_model(tess_reference *r, const char *path)
{
    rl_first_weights first;
    TESS_TRY(
        rl_first_weights_find(r->engine->config, tess_model_get_config(r->engine->whole), path, "reference", &first));
    snprintf(r->source.path, sizeof(r->source.path), "%s", first.path);
    TESS_CHECK(first.config.n_outputs == 0, TESS_E_INVALID,
               "reference: %s is no language model: its head has %lld outputs (num_labels)", first.path,
               (long long)first.config.n_outputs);
    r->model = r->engine->whole;
    if (first.has_config || tess_model_get_config(r->model)->lora.rank > 0)
        TESS_TRY(tess_model_create(r->engine->mem, &first.config, &r->own_model));
    if (r->own_model != NULL)
        r->model = r->own_model;
    return TESS_OK;
}

static tess_status compare_params(tess_reference *r)
{
    const tess_model *policy = r->engine->whole;
    const char *odd = NULL;
    for (int i = 0; i < tess_model_n_params(policy) && i < tess_model_n_params(r->model) && odd == NULL; i++) {
        const tess_param *a = tess_model_param(policy, i), *b = tess_model_param(r->model, i);
        if (strcmp(a->name, b->name) != 0 || !tess_shape_equal(&a->shape, &b->shape))
            odd = a->name;
    }
    r->is_alike = odd == NULL && tess_model_n_params(policy) == tess_model_n_params(r->model);
    TESS_CHECK(r->is_alike || r->update_interval == 0, TESS_E_INVALID,
               "reference: %s is another model than the policy (%s): it cannot take the policy's weights, set "
               "update_interval=0",
               r->source.path, odd != NULL ? odd : "another number of parameters");
    return TESS_OK;
}

static tess_status open_source(tess_reference *r, const char *path, const tess_reporter *reporter)
{
    tess_engine *e = r->engine;
    TESS_TRY(load_model(r, path));
    TESS_TRY(compare_params(r));
    r->source.random = (tess_random_weights){r->model, (uint64_t)e->config->debug.seed, tess_stream_threads(e->stream)};
    r->source.fill = tess_random_weights_fill;
    r->source.context = &r->source.random;
    if (r->source.path[0] == '\0')
        return TESS_OK;
    TESS_TRY(tess_weights_open(e->mem, r->source.path, r->model, reporter, &r->source.weights));
    r->source.fill = tess_weights_fill;
    r->source.context = r->source.weights;
    return TESS_OK;
}

/* Each rank has seen some rows only. */
static tess_status report_broken(const tess_reference *r)
{
    if (r->source.weights == NULL)
        return TESS_OK;
    int32_t *broken = tess_weights_broken(r->source.weights);
    TESS_TRY(tess_all_reduce(r->engine->team, broken, broken, (size_t)tess_model_n_params(r->model), TESS_I32, TESS_MAX,
                             NULL));
    tess_weights_report_broken(r->source.weights);
    return TESS_OK;
}

/* ---- Computing ---- */
static tess_executor_options executor_options(const tess_reference *r)
{
    const tess_engine *e = r->engine;
    const tess_executor_options training = tess_engine_activations(e->config);
    return (tess_executor_options){.dtype = training.dtype,
                                   .max_tokens = e->passes.max_tokens,
                                   .max_position = training.max_position,
                                   .logit_bytes = e->compute.apart ? (size_t)e->config->training.logit_bytes : 0};
}

static tess_staging_options staging_options(const tess_reference *r)
{
    return (tess_staging_options){.dtype = executor_options(r).dtype, .constant = r->rows == NULL};
}

/* Checks that the reference fits into what the engine has left of the devices. */
static tess_status check_memory(const tess_reference *r)
{
    const tess_executor_options options = executor_options(r);
    const tess_staging_options staging = staging_options(r);
    const tess_device_need need = {.activations = tess_executor_bytes(r->model, &options) +
                                                  2 * (size_t)options.max_tokens * sizeof(float),
                                   .copies = tess_staging_bytes(r->model, &staging)};
    return tess_device_memory_check(r->engine, &need);
}

static tess_status build_executor(tess_reference *r)
{
    tess_engine *e = r->engine;
    const tess_executor_options options = executor_options(r);
    const tess_staging_options staging = staging_options(r);
    TESS_TRY(tess_static_hooks(e->mem, r->model, r->copy.w, NULL, &r->of_host));
    r->compute = (tess_compute){.device = e->compute.device, .stream = e->compute.stream, .apart = e->compute.apart};
    TESS_TRY(tess_compute_hooks(&r->compute, r->model, &r->of_host, &staging));
    size_t bytes = (size_t)options.max_tokens * sizeof(float);
    TESS_TRY(
        tess_device_alloc(r->compute.device, TESS_POOL_ACTIVATIONS, bytes, "log-probabilities", (void **)&r->logprob));
    TESS_TRY(tess_device_alloc(r->compute.device, TESS_POOL_ACTIVATIONS, bytes, "entropies", (void **)&r->entropy));
    return tess_executor_create(r->compute.stream, r->model, &r->compute.hooks, &options, &r->executor);
}

static tess_status build(tess_reference *r, const char *path, const tess_reporter *reporter)
{
    tess_team *team = r->engine->team;
    TESS_TRY(tess_team_agree(team, open_source(r, path, reporter)));
    TESS_TRY(reference_copy_create(r));
    if (r->update_interval > 0) {
        TESS_TRY(tess_team_agree(team, reference_follow_create(r)));
        TESS_TRY(tess_reference_loaded(r));
    }
    TESS_TRY(report_broken(r));
    TESS_TRY(check_memory(r));
    return tess_team_agree(team, build_executor(r));
}

tess_status tess_reference_create(tess_engine *e, const tess_reference_options *options, const tess_reporter *reporter,
                                  tess_reference **out)
{
    TESS_AUTO(tess_reference_destroy) tess_reference *r = NULL;
    *out = NULL;
    TESS_TRY(check_options(options));
    TESS_TRY(TESS_NEW(e->mem, 1, "reference", &r));
    *r = (tess_reference){.engine = e,
                          .update_interval = options->update_interval,
                          .ema = options->ema,
                          .dtype = tess_engine_activations(e->config).dtype};
    TESS_TRY_CTX(build(r, options->path, reporter), "reference");
    *out = TESS_GIVE(r);
    return TESS_OK;
}

void tess_reference_destroy(tess_reference **handle)
{
    tess_reference *r = *handle;
    if (r == NULL)
        return;
    tess_executor_destroy(&r->executor);
    if (r->compute.device != NULL) {
        tess_device_free(r->compute.device, r->entropy);
        tess_device_free(r->compute.device, r->logprob);
    }
    tess_staging_destroy(&r->compute.staging);
    if (r->of_host.self != NULL)
        tess_static_hooks_free(&r->of_host);
    reference_copy_free(r);
    tess_weights_close(&r->source.weights);
    tess_model_destroy(&r->own_model);
    tess_mem_drop(handle);
}

tess_status tess_reference_logprobs(tess_reference *r, const tess_batch *batch, float inv_temperature, float *logprob,
                                    float *entropy)
{
    tess_stream *s = r->compute.stream;
    size_t bytes = (size_t)batch->n_tokens * sizeof(float);
    TESS_TRY_CTX(
        tess_executor_logprobs(r->executor, batch, inv_temperature, r->logprob, entropy != NULL ? r->entropy : NULL),
        "reference");
    TESS_TRY(tess_fetch(s, logprob, r->logprob, bytes));
    return entropy != NULL ? tess_fetch(s, entropy, r->entropy, bytes) : TESS_OK;
}
