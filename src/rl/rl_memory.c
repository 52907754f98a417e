/* Builds on dry ranks what reinforcement learning has in addition to the policy's engine: reference, critic, buckets of
 * weights, and a generator that draws while training's activations are freed. They are the objects of the run. */
#include <stdio.h>

#include "base/mem/scoped.h"
#include "engine/drawing.h"
#include "engine/stages/rank_stage.h"
#include "infer/kv_pages.h"
#include "plan/dry_rank.h"
#include "rl/rl_copy.h"

typedef struct dry_rl {
    tess_engine *engine;
    tess_reference *reference;
    tess_critic *critic;
    tess_weight_sender *sender;
} dry_rl;

/* ---- Objects ---- */
static void destroy(void **self)
{
    dry_rl *d = *self;
    tess_weight_sender_destroy(&d->sender);
    tess_critic_destroy(&d->critic);
    tess_reference_destroy(&d->reference);
    tess_mem_free(d->engine->mem, d);
    *self = NULL;
}

static tess_status create(tess_engine *engine, tess_team *all, void **self)
{
    dry_rl *d;
    const tess_config *c = engine->config;
    TESS_TRY(TESS_NEW(engine->mem, 1, "reinforcement learning", &d));
    *self = d;
    d->engine = engine;
    const tess_weight_sync sync = rl_sync_over(all, c);
    if (c->rollout.ranks > 0)
        TESS_TRY(tess_weight_sender_create(engine, &sync, &d->sender));
    return rl_models_create(engine, NULL, &d->reference, &d->critic);
}

static tess_engine *second(const void *self)
{
    const dry_rl *d = self;
    return d->critic != NULL ? tess_critic_engine(d->critic) : NULL;
}

/* ---- Drawing ---- */
/* The largest number of samples that one of n places draws at a time. How many held-out prompts there are, or prompts
 * under way with rollout.budget_tokens, is not known here, so it is then the limit of every run. */
static int64_t samples_of(const tess_config *c, bool evaluates, int n_places)
{
    return evaluates || c->rollout.budget_tokens > 0 ? c->rollout.max_sequences
                                                     : (c->rollout.prompts + n_places - 1) / n_places * c->rollout.n;
}

/* Finds the largest page of all ranks, on which those that draw together agree. No rank along tp has more key heads
 * than the first. */
static tess_status find_page(const tess_engine *e, size_t *bytes)
{
    for (int pp = 0; pp < e->at.degree[TESS_AXIS_PP] && e->at.n_parts > 1; pp++) {
        TESS_AUTO(tess_model_destroy) tess_model *part = NULL;
        TESS_TRY(tess_stage_create_part(e->mem, e->config, tess_model_get_config(e->whole), pp, 0, &part));
        const size_t page = tess_kv_page_bytes(part, tess_engine_activations(e->config).dtype);
        *bytes = page > *bytes ? page : *bytes;
    }
    return TESS_OK;
}

static tess_status generate(const tess_held_weights *held, const tess_generator_options *options)
{
    TESS_AUTO(tess_generator_destroy) tess_generator *generator = NULL;
    TESS_TRY(tess_generator_create(held->compute.stream, held->model, &held->compute.hooks, options, &generator));
    return tess_generator_rehearse(generator);
}

static tess_status draw(dry_rl *d, tess_generator_options *options, tess_held_weights *held)
{
    tess_engine *e = d->engine;
    TESS_TRY(tess_drawing_share(held, options));
    TESS_TRY(find_page(e, &options->page_bytes));
    tess_executor_sleep(e->executor);
    if (d->critic != NULL)
        tess_critic_sleep(d->critic);
    TESS_TRY(generate(held, options));
    TESS_TRY(tess_executor_wake(e->executor));
    return d->critic != NULL ? tess_critic_wake(d->critic) : TESS_OK;
}

static tess_status ask_reference(const dry_rl *d, const tess_batch *batch)
{
    TESS_AUTO(tess_mem_drop) float *logprob = NULL;
    if (d->reference == NULL)
        return TESS_OK;
    TESS_TRY(TESS_NEW(d->engine->mem, batch->n_tokens, "log-probabilities", &logprob));
    return tess_reference_logprobs(d->reference, batch, 1, logprob, NULL);
}

/* Asks the reference, and draws if this rank does. Trainers answer held-out prompts even if other ranks draw the
 * rollouts. */
static tess_status pause(void *self, const tess_batch *batch)
{
    dry_rl *d = self;
    TESS_TRY(ask_reference(d, batch));
    const tess_config *c = d->engine->config;
    const bool evaluates = c->validation.enable && c->validation.files.n > 0;
    tess_held_weights held;
    if (rl_has_pairs(c) || (!evaluates && (c->rollout.ranks > 0 || c->rl.phase == TESS_RL_TRAIN)))
        return TESS_OK;
    tess_generator_options options = tess_drawing_options(c, samples_of(c, evaluates, d->engine->at.n_data));
    tess_status status = tess_weights_hold(d->engine, &held);
    if (status == TESS_OK)
        status = draw(d, &options, &held);
    tess_status freed = tess_weights_let_go(&held);
    return status == TESS_OK ? freed : status;
}

/* ---- Ranks that only draw ---- */
static tess_status draw_copy(const rl_copy *c, const tess_config *config)
{
    const tess_generator_options options =
        tess_drawing_options(config, samples_of(config, false, (int)config->rollout.ranks));
    tess_held_weights held;
    tess_status status =
        tess_weights_hold_copy(&c->compute, c->model, tess_weights_next(c->receiver), options.dtype, &held);
    if (status == TESS_OK)
        status = generate(&held, &options);
    tess_status freed = tess_weights_let_go(&held);
    return status == TESS_OK ? freed : status;
}

static tess_status serve(tess_team *all, const tess_config *config, const tess_model_config *model,
                         tess_dry_report *report)
{
    rl_copy *copy;
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(all));
    const tess_weight_sync sync = rl_sync_over(all, config);
    tess_status status = rl_copy_open(config, model, &sync, &copy);
    if (status == TESS_OK)
        status = draw_copy(copy, config);
    if (status == TESS_OK)
        tess_dry_count(mem, &copy->compute, report);
    snprintf(report->stages, sizeof(report->stages), "draws");
    rl_copy_close(&copy);
    return status;
}

static bool needs_whole(const tess_config *c)
{
    const tess_policy_options policy = rl_policy_of(c, c->rl.kl_beta);
    return rl_has_pairs(c) || tess_policy_needs_whole(&policy);
}

const tess_dry_task rl_dry_task = {create, second, pause, destroy, serve, needs_whole};
