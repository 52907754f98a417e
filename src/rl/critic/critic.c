#include "rl/critic/critic.h"

#include <stdio.h>

#include "base/mem/dry_mem.h"
#include "comm/agree.h"
#include "tessera/comm.h"
#include "base/mem/scoped.h"

struct tess_critic {
    tess_config config; /* the policy's configuration, with the critic's own settings */
    tess_engine *engine;
    char (*names)[TESS_PARAM_NAME_SIZE + 8];
};

/* ---- First weights ---- */
typedef struct critic_source {
    tess_model *model;
    tess_random_weights random;
    tess_weights *weights; /* NULL: random */
} critic_source;

/* A tess_fill_fn. */
static tess_status fill(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    critic_source *s = context;
    return s->weights != NULL ? tess_weights_fill(s->weights, name, shape, box, dst)
                              : tess_random_weights_fill(&s->random, name, shape, box, dst);
}

static tess_status find_model(const tess_config *config, const tess_model_config *policy, const char *path,
                              rl_first_weights *first)
{
    TESS_TRY(rl_first_weights_find(config, policy, path, "critic", first));
    TESS_CHECK(first->config.n_outputs <= 1, TESS_E_INVALID,
               "critic: the head of %s has %lld outputs (num_labels); a value is one", first->path,
               (long long)first->config.n_outputs);
    first->config.value_head = first->config.n_outputs == 0; /* a language model: trl's value head replaces the head */
    first->config.n_outputs = 1;
    first->config.tied = false;
    return TESS_OK;
}

static tess_status open_source(const tess_engine *policy, const tess_critic_options *o, const tess_reporter *reporter,
                               tess_model_config *config, critic_source *s)
{
    rl_first_weights first;
    TESS_TRY(find_model(policy->config, tess_model_get_config(policy->whole), o->path, &first));
    *config = first.config;
    TESS_TRY(tess_model_create(policy->mem, config, &s->model));
    s->random =
        (tess_random_weights){s->model, (uint64_t)policy->config->debug.seed, tess_stream_threads(policy->stream)};
    return first.path[0] != '\0' && !tess_mem_is_dry(policy->mem) /* a dry stream's threads fill nothing */
               ? tess_weights_open(policy->mem, first.path, s->model, reporter, &s->weights)
               : TESS_OK;
}

static void close_source(critic_source *s)
{
    tess_weights_close(&s->weights);
    tess_model_destroy(&s->model);
}

/* Each rank has seen its own rows only. */
static tess_status report_broken(tess_team *team, const critic_source *s)
{
    if (s->weights == NULL)
        return TESS_OK;
    int32_t *broken = tess_weights_broken(s->weights);
    TESS_TRY(tess_all_reduce(team, broken, broken, (size_t)tess_model_n_params(s->model), TESS_I32, TESS_MAX, NULL));
    tess_weights_report_broken(s->weights);
    return TESS_OK;
}

/* ---- Create, destroy ---- */
static tess_status check(const tess_critic_options *o)
{
    TESS_CHECK(o->lr >= 0 && o->steps >= 0, TESS_E_INVALID, "critic: lr %g over %lld steps; neither is below 0", o->lr,
               (long long)o->steps);
    return TESS_OK;
}

/* Spikes are not looked for: their windows are in no checkpoint, so a run that was resumed would find others. */
static tess_status configure(tess_critic *c, const tess_engine *policy, const tess_critic_options *o)
{
    TESS_TRY(tess_config_copy(policy->config, &c->config));
    c->config.optimizer.lr = o->lr;
    if (o->steps > 0)
        c->config.training.steps = o->steps;
    c->config.numbers.spike_z = c->config.numbers.skip_update_lossz = c->config.numbers.skip_update_gradz = 0;
    return TESS_OK;
}

static tess_status name_tensors(tess_critic *c)
{
    int n = tess_model_n_params(c->engine->whole);
    TESS_TRY(TESS_PART(c, n, "critic", &c->names));
    for (int i = 0; i < n; i++)
        snprintf(c->names[i], sizeof(c->names[i]), "critic.%s", tess_model_param(c->engine->whole, i)->name);
    return TESS_OK;
}

static tess_status build(tess_critic *c, const tess_engine *policy, const tess_model_config *config,
                         critic_source *source)
{
    TESS_TRY(tess_engine_create_second(policy->team, &c->config, config, fill, source, &c->engine));
    TESS_TRY(report_broken(policy->team, source));
    return name_tensors(c);
}

tess_status tess_critic_create(tess_engine *policy, const tess_critic_options *o, const tess_reporter *reporter,
                               tess_critic **out)
{
    TESS_AUTO(tess_critic_destroy) tess_critic *c = NULL;
    tess_model_config config;
    critic_source source = {.model = NULL};
    *out = NULL;
    TESS_TRY(check(o));
    TESS_TRY(TESS_NEW(policy->mem, 1, "critic", &c));
    tess_status status = configure(c, policy, o);
    if (status == TESS_OK)
        status = open_source(policy, o, reporter, &config, &source);
    status = tess_team_agree(policy->team, status);
    if (status == TESS_OK)
        status = build(c, policy, &config, &source);
    close_source(&source);
    TESS_TRY_CTX(status, "critic");
    *out = TESS_GIVE(c);
    return TESS_OK;
}

void tess_critic_destroy(tess_critic **handle)
{
    tess_critic *c = *handle;
    if (c == NULL)
        return;
    tess_engine_destroy(&c->engine);
    tess_config_free(&c->config);
    tess_mem_drop(handle);
}

/* ---- Values and steps ---- */
tess_status tess_critic_values(tess_critic *c, const tess_batch *batch, float *value)
{
    tess_engine *e = c->engine;
    const tess_head_task task = {.values = e->meter.logprobs};
    tess_batch own = *batch;
    own.loss = NULL;
    TESS_TRY_CTX(tess_pieces_take(&e->pieces, 0, &own), "critic");
    TESS_TRY_CTX(tess_engine_evaluate(e, e->executor, &own, &task), "critic");
    return tess_engine_counts(e)
               ? tess_fetch(e->compute.stream, value, e->meter.logprobs, (size_t)own.n_tokens * sizeof(float))
               : TESS_OK;
}

tess_status tess_critic_step(tess_critic *c, const tess_batch_source *source, tess_engine_report *report)
{
    TESS_TRY_CTX(tess_engine_step(c->engine, source, report), "critic");
    return TESS_OK;
}

void tess_critic_sleep(tess_critic *c)
{
    tess_executor_sleep(c->engine->executor);
}

tess_status tess_critic_wake(tess_critic *c)
{
    TESS_TRY_CTX(tess_executor_wake(c->engine->executor), "critic");
    return TESS_OK;
}

tess_engine *tess_critic_engine(const tess_critic *c)
{
    return c->engine;
}

/* ---- Checkpoints ---- */
int tess_critic_n_tensors(const tess_critic *c)
{
    tess_optimizer_state states[TESS_OPTIMIZER_STATES];
    int n = 0;
    for (int i = 0; i < tess_model_n_params(c->engine->whole); i++)
        n += 1 + tess_engine_states(c->engine, i, states);
    return n;
}

tess_status tess_critic_tensors(tess_critic *c, tess_ckpt_tensor *tensors)
{
    for (int i = 0; i < tess_model_n_params(c->engine->whole); i++) {
        tess_shard shard;
        tess_optimizer_state states[TESS_OPTIMIZER_STATES];
        TESS_TRY(tess_engine_shard(c->engine, i, &shard));
        const tess_ckpt_tensor weights = {.name = c->names[i],
                                          .shape = shard.shape,
                                          .box = shard.box,
                                          .primary = shard.primary,
                                          .data = shard.master};
        *tensors++ = weights;
        for (int k = 0, n = tess_engine_states(c->engine, i, states); k < n; k++)
            *tensors++ = tess_ckpt_state_tensor(&weights, &states[k]);
    }
    return TESS_OK;
}

json_t *tess_critic_describe(const tess_critic *c)
{
    return json_pack("{s:I, s:I}", "step", (json_int_t)c->engine->step, "n_tokens", (json_int_t)c->engine->n_tokens);
}

static tess_status restore(tess_critic *c, const json_t *described)
{
    int64_t step = -1, n_tokens = -1;
    TESS_TRY(tess_json_get_int(described, "step", "critic", &step));
    TESS_TRY(tess_json_get_int(described, "n_tokens", "critic", &n_tokens));
    TESS_CHECK(
        step >= 0 && n_tokens >= 0, TESS_E_FORMAT,
        "critic: the checkpoint does not say its step and tokens: it is of a run without a critic, or was edited");
    c->engine->step = step;
    c->engine->n_tokens = n_tokens;
    return TESS_OK;
}

tess_status tess_critic_loaded(tess_critic *c, const json_t *described)
{
    TESS_TRY(tess_team_agree(c->engine->team, restore(c, described)));
    return tess_fsdp_params_changed(c->engine->fsdp);
}
