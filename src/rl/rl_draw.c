/* Draws this rank's samples, while the weights of all units are held. */
#include <string.h>

#include "base/os/os.h"
#include "comm/agree.h"
#include "data/tokenizer/stop_texts.h"
#include "engine/drawing.h"
#include "inject/inject.h"
#include "rl/rl_impl.h"

typedef struct rl_drawing {
    rl *r;
    const rl_draw_options *options;
    rl_sample *const *samples;
    int64_t n, next;
    rl_sample **again; /* (n) samples that have another turn */
    int64_t n_again;
    int32_t version;
    bool alone; /* ranks that draw together with this one have not learned of its failure */
    tess_generator_options generator;
    const char *stops[TESS_LIST_SIZE + 1];
} rl_drawing;

/* ---- Questions of the generator ---- */
static rl_sample *next_sample(rl_drawing *d)
{
    if (d->n_again > 0)
        return d->again[--d->n_again];
    return d->next < d->n ? d->samples[d->next++] : NULL;
}

static tess_status next(void *self, tess_request *request, bool *none)
{
    rl_drawing *d = self;
    TESS_TRY(rl_copy_look(d->r));
    TESS_TRY(tess_inject_failure(tess_trainer_runtime(d->r->trainer), "drawing"));
    rl_sample *s = next_sample(d);
    *none = s == NULL;
    if (*none)
        return TESS_OK;
    TESS_TRY(rl_sample_reserve(d->r->mem, s, s->n_prompt + d->options->max_new_tokens)); /* ids are borrowed */
    *request = (tess_request){.id = d->options->numbers + (uint64_t)s->number,
                              .ids = s->ids,
                              .n = s->n,
                              .n_prompt = s->n_prompt,
                              .max_new_tokens = d->options->max_new_tokens - (s->n - s->n_prompt),
                              .budget = d->options->budget_tokens,
                              .prefix = 1 + (uint64_t)(s->number / d->options->prefix_n),
                              .user = s};
    return TESS_OK;
}

/* Returns the first token of the sample's newest turn, but none before `least`. The previous turn ends with the
 * environment's text. */
static int64_t turn_begin(const rl_sample *s, int64_t least)
{
    int64_t first = s->n;
    while (first > s->n_prompt && first > least && s->version[first - 1] != RL_NOT_DRAWN)
        first--;
    return first;
}

static tess_status token(void *self, const tess_request *request, TESS_UNUSED int64_t position, int32_t id,
                         float logprob, bool generated, bool *stop)
{
    rl_drawing *d = self;
    rl_sample *s = request->user;
    TESS_TRY(rl_copy_look(d->r));
    if (!generated)
        return TESS_OK;
    TESS_TRY(rl_sample_add(d->r->mem, s, id, logprob, d->version));
    const int64_t first = turn_begin(s, s->n - 2 * TESS_TEXT_SIZE); /* no stop text is longer */
    return tess_stop_texts_end(d->r->text.tokenizer, d->stops, s->ids, (size_t)s->n, (size_t)first, d->r->mem, stop);
}

/* Whether the sample continues with another turn, and has room for one. */
static tess_status turn_over(rl_drawing *d, rl_sample *s, tess_finish why, bool *goes_on)
{
    *goes_on = false;
    if (d->r->environment == NULL || (why != TESS_FINISH_END && why != TESS_FINISH_STOP))
        return TESS_OK;
    const int64_t turn = s->turns++;
    if (s->turns >= d->r->config->rollout.max_turns)
        return TESS_OK;
    TESS_TRY(rl_turn(d->r, d->options->prompts, s, turn, turn_begin(s, 0), goes_on));
    if (*goes_on && s->n - s->n_prompt >= d->options->max_new_tokens) {
        *goes_on = false; /* the environment's answer has filled the sample */
        s->finish = TESS_FINISH_LENGTH;
    }
    return TESS_OK;
}

static tess_status finished(void *self, const tess_request *request, tess_finish why)
{
    rl_drawing *d = self;
    rl_sample *s = request->user;
    bool goes_on;
    s->finish = why == TESS_FINISH_BUDGET ? RL_UNFINISHED : (int32_t)why;
    TESS_TRY(turn_over(d, s, why, &goes_on));
    tess_runtime_phase(tess_trainer_runtime(d->r->trainer), "rollout", rl_step(d->r) + 1, d->r->newest.state.rollout);
    if (goes_on) {
        d->again[d->n_again++] = s;
        return TESS_OK;
    }
    return d->options->journal != NULL ? rl_write_down(d->r, d->options->journal, d->options->round, s) : TESS_OK;
}

/* ---- Drawing ---- */
static tess_status run(rl_drawing *d, const tess_held_weights *held)
{
    const tess_model_config *model = tess_trainer_model(d->r->trainer);
    const tess_sampling sampling = {
        .temperature = d->options->temperature, .top_p = 1, .seed = (uint64_t)d->r->config->debug.seed, .exact = true};
    const tess_request_source source = {d, next, token, finished};
    const bool together = rl_draws_together(d->r);
    TESS_AUTO(tess_generator_destroy) tess_generator *generator = NULL;
    tess_status status = TESS_OK;
    if (d->n > 0)
        status =
            tess_generator_create(held->compute.stream, held->model, &held->compute.hooks, &d->generator, &generator);
    if (together)
        status = tess_team_agree(d->r->team, status);
    d->alone = false;
    if (status == TESS_OK && d->n > 0) {
        status = tess_generator_run(generator, &sampling, model->eos_token_id, model->n_eos, &source);
        d->alone = together && !d->r->newest.turns.all_failed;
    }
    return status;
}

/* Frees the activations of training before drawing allocates its memory, and the other way round afterwards. */
static tess_status run_while_training_sleeps(rl_drawing *d, const tess_held_weights *held)
{
    rl *r = d->r;
    if (r->engine == NULL) /* this rank only draws */
        return run(d, held);
    tess_executor_sleep(r->engine->executor);
    if (r->critic != NULL)
        tess_critic_sleep(r->critic);
    tess_status status = run(d, held);
    TESS_TRY(tess_executor_wake(r->engine->executor));
    if (r->critic != NULL)
        TESS_TRY(tess_critic_wake(r->critic));
    return status;
}

tess_status rl_draw(rl *r, const rl_draw_options *options, rl_sample *const *samples, int64_t n, bool *alone)
{
    rl_drawing d = {.r = r,
                    .options = options,
                    .samples = samples,
                    .n = n,
                    .alone = rl_draws_together(r),
                    .version = (int32_t)rl_step(r),
                    .generator = tess_drawing_options(r->config, n)};
    tess_held_weights held;
    double begin_s = tess_os_now_s();
    for (int i = 0; i < r->config->rollout.stop.n; i++)
        d.stops[i] = r->config->rollout.stop.item[i];
    tess_runtime_phase(tess_trainer_runtime(r->trainer), "rollout", rl_step(r) + 1, r->newest.state.rollout);
    *alone = true;
    TESS_TRY(TESS_NEW(r->mem, n + 1, "turns", &d.again));
    tess_status status = r->copy != NULL ? rl_copy_hold(r, &held) : tess_weights_hold(r->engine, &held);
    if (status == TESS_OK && r->engine != NULL)
        status = tess_drawing_share(&held, &d.generator);
    if (status == TESS_OK && (n > 0 || d.alone)) /* d.alone: all agree on what they have created */
        status = run_while_training_sleeps(&d, &held);
    tess_status freed = tess_weights_let_go(&held);
    tess_mem_free(r->mem, d.again);
    r->newest.facts.draw_s += tess_os_now_s() - begin_s;
    status = status != TESS_OK ? status : freed;
    *alone = d.alone && status != TESS_OK;
    return *alone ? status : tess_team_agree(r->team, status);
}
