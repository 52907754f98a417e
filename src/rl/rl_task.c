/* The task of reinforcement learning: rollouts and steps in turn. Step s learns from rollout s / (updates * epochs).
 * With rollout.lag the next rollout is drawn before the step that changes the weights, or during that step by ranks
 * that only draw (rollout.ranks). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "rl/rl_copy.h"
#include "rl/rl_page_samples.h"
#include "train/text/text_ends.h"
#include "rl/rl_task.h"

static const char *const what = "the checkpoint's description";

/* ---- Opening ---- */
static tess_status open_prompts(rl *r, const tess_text_list *files, tess_prompts **prompts)
{
    const tess_config *c = r->config;
    const char *names[TESS_LIST_SIZE];
    const tess_tokenizer *tokenizer = r->text.tokenizer;
    const tess_model_config *model = tess_trainer_model(r->trainer);
    tess_prefix bos;
    for (int i = 0; i < files->n; i++)
        names[i] = files->item[i];
    TESS_TRY(tess_model_begin_of_text(model, tokenizer, (tess_add_bos)c->data.add_bos, &bos));
    const tess_prompts_options options = {.files = names,
                                          .n_files = files->n,
                                          .prompt_key = c->rollout.prompt_key[0] != '\0' ? c->rollout.prompt_key : NULL,
                                          .label_key = c->rollout.label_key[0] != '\0' ? c->rollout.label_key : NULL,
                                          .pairs = rl_has_pairs(c),
                                          .tokenizer = tokenizer,
                                          .chat = &r->text.chat.how,
                                          .bos = bos,
                                          .eos_id = tess_model_end_of_text(model, tokenizer),
                                          .max_prompt_tokens = c->rollout.max_prompt_tokens,
                                          .max_tokens = c->training.seq_len};
    TESS_TRY(tess_prompts_open(r->mem, &options, prompts));
    if (options.pairs && options.eos_id < 0)
        tess_trainer_warn(r->trainer, "no token ends an answer that is a text: no file names an eos_token");
    if (tess_prompts_dropped(*prompts) > 0)
        tess_trainer_warn(r->trainer,
                          "%lld of %lld prompts are longer than %lld tokens and left out (rollout.max_prompt_tokens)",
                          (long long)tess_prompts_dropped(*prompts),
                          (long long)(tess_prompts_dropped(*prompts) + tess_prompts_count(*prompts)),
                          (long long)c->rollout.max_prompt_tokens);
    return TESS_OK;
}

/* Refuses a prompt whose answers no grader could judge. */
static tess_status check_prompts(const rl *r, const tess_prompts *prompts)
{
    for (int64_t i = 0; i < tess_prompts_count(prompts); i++) {
        const tess_reward_item item = rl_item_of(tess_prompts_at(prompts, i));
        TESS_TRY_CTX(tess_rewarder_check_item(r->rewarder, &item), "prompt %lld ('%.40s')", (long long)i + 1,
                     item.prompt);
    }
    return TESS_OK;
}

/* Whether the run draws samples, and so needs its outside programs: always, except for runs that only learn from
 * kept samples and do not evaluate. */
static bool draws(const rl *r)
{
    return r->config->rl.phase != TESS_RL_TRAIN || r->held_out != NULL;
}

static tess_status open_rewarder(rl *r, const tess_reward_options *options)
{
    TESS_TRY(tess_rewarder_create(r->mem, options, &r->rewarder));
    TESS_TRY_CTX(check_prompts(r, r->prompts), "data.files");
    if (r->held_out != NULL)
        TESS_TRY_CTX(check_prompts(r, r->held_out), "validation.files");
    return draws(r) ? tess_rewarder_check(r->rewarder) : TESS_OK;
}

static tess_status open_data(rl *r)
{
    const tess_config *c = r->config;
    const tess_reward_options reward = rl_reward_of(c);
    TESS_TRY_CTX(open_prompts(r, &c->data.files, &r->prompts), "data.files");
    if (c->validation.enable && c->validation.files.n > 0 && !rl_has_pairs(c))
        TESS_TRY_CTX(open_prompts(r, &c->validation.files, &r->held_out), "validation.files");
    if (rl_has_pairs(c))
        return TESS_OK;
    if (c->rollout.env_command.n > 0) {
        TESS_TRY(tess_rl_environment_create(r->mem, &c->rollout.env_command, &reward, &r->environment));
        if (draws(r))
            TESS_TRY(tess_rl_environment_check(r->environment));
    }
    return open_rewarder(r, &reward);
}

/* Hashes the settings and prompts that samples depend on. Earlier samples and the drawing weights are hashed by
 * rl_rollout.c. */
static uint64_t identify(const rl *r)
{
    static const char *const sections[] = {"rollout", "reward"};
    const tess_config *c = r->config;
    json_t *config = tess_config_to_json(c);
    json_object_del(json_object_get(config, "rollout"), "ranks"); /* the ranks that draw do not matter */
    json_object_del(json_object_get(config, "rollout"), "sync_bytes");
    json_object_set_new(json_object_get(config, "reward"), "url", tess_json_text(c->reward.url));
    const uint64_t words[] = {tess_prompts_hash(r->prompts), (uint64_t)c->debug.seed, (uint64_t)c->training.seq_len,
                              (uint64_t)c->data.shuffle,     (uint64_t)c->rl.filter,  (uint64_t)c->rl.max_rounds};
    uint64_t hash = tess_hash_bytes(words, sizeof(words), tess_hash_text(TESS_VERSION));
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        char *text = json_dumps(json_object_get(config, sections[i]), JSON_SORT_KEYS | JSON_COMPACT);
        hash = tess_hash_bytes(&(uint64_t){text != NULL ? tess_hash_text(text) : 0}, sizeof(uint64_t), hash);
        free(text);
    }
    json_decref(config);
    return hash;
}

static tess_status next_step(void *self, tess_batch_source *source);
static void place(const void *self, tess_task_place *at);
static tess_status go_to(void *self, const tess_task_place *at, const tess_engine_report *newest);
static tess_status describe(void *self, json_t *meta);
static tess_status restore(void *self, const json_t *meta);
static int n_tensors(const void *self);
static tess_status tensors(void *self, tess_ckpt_tensor *tensors);
static tess_status loaded(void *self, const json_t *meta);
static tess_status settle(void *self);
static bool evaluates(const void *self, bool last);
static tess_status after_step(void *self, bool last, tess_validation_report *report);
static void report(void *self, tess_step_report *report);
static tess_status finish(void *self, bool interrupted);
static tess_status export(const void *self, const char *folder);
static tess_status conclude(void *self, const char *folder);

static tess_status create(tess_trainer *trainer, tess_task *task)
{
    rl *r;
    tess_runtime *runtime = tess_trainer_runtime(trainer);
    TESS_TRY(TESS_NEW(tess_runtime_mem(runtime), 1, "reinforcement learning", &r));
    *r = (rl){.rows.own.mem = tess_runtime_mem(runtime),
              .trainer = trainer,
              .config = tess_trainer_config(trainer),
              .mem = tess_runtime_mem(runtime),
              .team = tess_trainer_team(trainer)};
    r->training.rollout = -1;
    r->next = (rl_state){.chain = (uint64_t)r->config->debug.seed, .kl_beta = r->config->rl.kl_beta};
    *task = (tess_task){.self = r,
                        .next_step = next_step,
                        .place = place,
                        .go_to = go_to,
                        .describe = describe,
                        .restore = restore,
                        .settle = settle,
                        .evaluates = evaluates,
                        .after_step = after_step,
                        .n_tensors = n_tensors,
                        .tensors = tensors,
                        .loaded = loaded,
                        .report = report,
                        .finish = finish,
                        .export = export,
                        .conclude = conclude};
    TESS_TRY(tess_run_text_create(trainer, &r->text));
    return tess_trainer_path(trainer, "rl", r->folder, sizeof(r->folder));
}

static tess_status identify_text(const void *self, uint64_t *hash)
{
    const rl *r = self;
    return tess_run_text_identify(&r->text, hash);
}

static tess_status open_task(void *self, tess_model_config *model)
{
    rl *r = self;
    TESS_TRY(tess_run_text_open(&r->text, model));
    TESS_TRY(open_data(r));
    r->identity = identify(r);
    return TESS_OK;
}

static void say_note(void *self, const char *text)
{
    tess_trainer_note(self, "%s", text);
}

static tess_status ready(void *self, tess_engine *engine)
{
    rl *r = self;
    const tess_reporter reporter = {say_note, r->trainer};
    r->engine = engine;
    TESS_TRY(rl_orders_create(r));
    return rl_models_create(engine, &reporter, &r->reference, &r->critic);
}

static tess_status collect(rl *r, const rl_state *of, bool may_draw);
static void take_newest(rl *r);

/* rl.phase=rollout: draws all rollouts of the run with the present weights, so that other runs can learn from them. */
static tess_status draw_all(rl *r)
{
    const int64_t n = r->config->training.steps / rl_steps_per_rollout(r->config);
    for (int64_t i = r->next.rollout; i < n; i++) {
        TESS_TRY(collect(r, &r->next, true));
        take_newest(r);
        double sum = 0;
        for (size_t g = 0; g < r->trained.n; g++)
            for (int64_t k = 0; k < r->config->rollout.n; k++)
                sum += r->trained.group[g].samples[k].reward;
        tess_trainer_note(r->trainer, "rollout: %5lld  reward: %.4f  %lld of %lld samples were kept already  (%.1f s)",
                          (long long)i, sum / (double)(r->config->rollout.prompts * r->config->rollout.n),
                          (long long)r->newest.facts.known_samples,
                          (long long)(r->config->rollout.prompts * r->config->rollout.n),
                          r->newest.facts.draw_s + r->newest.facts.grade_s);
    }
    tess_trainer_end_here(r->trainer);
    return TESS_OK;
}

static tess_status begin(void *self)
{
    rl *r = self;
    const tess_config *c = r->config;
    const long long count = (long long)tess_prompts_count(r->prompts), prompts = (long long)c->rollout.prompts;
    if (rl_has_pairs(c))
        tess_trainer_note(r->trainer, "pairs: %lld, %lld a step", count, prompts);
    else
        tess_trainer_note(r->trainer,
                          "prompts: %lld, %lld a rollout x %lld samples of at most %lld tokens, %lld step%s each",
                          count, prompts, (long long)c->rollout.n, (long long)c->rollout.max_new_tokens,
                          (long long)rl_steps_per_rollout(c), rl_steps_per_rollout(c) == 1 ? "" : "s");
    if (r->orders != NULL) {
        const int n_ranks = tess_runtime_world(tess_trainer_runtime(r->trainer));
        tess_trainer_note(r->trainer, "rollout ranks: the last %lld of %d draw; %s", (long long)c->rollout.ranks,
                          n_ranks, c->rollout.lag > 0 ? "the others train meanwhile" : "the others wait for them");
    }
    if (!rl_has_pairs(c))
        TESS_TRY(rl_keep_tokenizer(r));
    if (c->rl.phase == TESS_RL_ROLLOUT)
        return draw_all(r);
    return r->held_out != NULL && c->evaluation.at_start && r->engine->step == 0 ? rl_evaluate(r) : TESS_OK;
}

static void close_task(void *self)
{
    rl *r = self;
    const int64_t n = r->config->rollout.n;
    tess_mem_drop(&r->micro);
    rl_rows_free(r);
    rl_groups_free(r->mem, &r->trained, n);
    rl_groups_free(r->mem, &r->newest.chosen, n);
    rl_groups_free(r->mem, &r->newest.under_way, n);
    rl_orders_free(r);
    rl_copy_close(&r->copy);
    tess_critic_destroy(&r->critic);
    tess_reference_destroy(&r->reference);
    tess_rl_environment_destroy(&r->environment);
    tess_rewarder_destroy(&r->rewarder);
    tess_prompts_close(&r->held_out);
    tess_prompts_close(&r->prompts);
    rl_advice_free(r->mem, &r->advice);
    tess_run_text_close(&r->text);
    tess_mem_free(r->mem, r);
}

/* ---- Rollouts ---- */
/* Makes rollout `of` the newest one: draws it, or reads it from the journal. */
static tess_status collect(rl *r, const rl_state *of, bool may_draw)
{
    if (r->orders != NULL) {
        TESS_TRY(rl_order(r, of, may_draw));
        return rl_take_order(r);
    }
    r->newest.state = *of;
    return rl_has_pairs(r->config) ? rl_collect_pairs(r)
                                   : rl_collect(r, may_draw && r->config->rl.phase != TESS_RL_TRAIN);
}

/* Makes the newest rollout the one to train on. */
static void take_newest(rl *r)
{
    rl_rows_free(r);
    rl_groups_free(r->mem, &r->trained, r->config->rollout.n);
    r->trained = r->newest.chosen;
    r->newest.chosen = (rl_groups){.n = 0};
    r->training = r->newest.state;
    r->next = r->newest.after;
}

/* Prepares the rollout that follows the one being learned. */
static tess_status begin_next(rl *r, bool may_draw)
{
    return r->orders != NULL ? rl_order(r, &r->next, may_draw) : collect(r, &r->next, may_draw);
}

/* Begins to train on a rollout. With a lag, it was drawn before the newest update, unless the run has just begun.
 * Ranks that only draw may still be drawing it; meanwhile they receive the weights for the next one. */
static tess_status begin_rollout(rl *r, int64_t rollout, bool is_first_step)
{
    const bool lags = r->config->rollout.lag > 0;
    const double kl_beta = r->next.kl_beta; /* newer weights than those that drew the rollout */
    TESS_CHECK(r->next.rollout == rollout, TESS_E_INTERNAL, "step %lld is of rollout %lld, the newest state of %lld",
               (long long)r->engine->step + 1, (long long)rollout, (long long)r->next.rollout);
    if (lags && is_first_step)
        TESS_TRY(rl_send_weights(r));
    TESS_TRY(rl_take_order(r));
    const bool is_here = lags && r->newest.state.rollout == rollout && r->newest.chosen.n > 0;
    if (!is_here)
        TESS_TRY(collect(r, &r->next, is_first_step && (!lags || rollout == 0)));
    take_newest(r);
    r->training.kl_beta = r->next.kl_beta = kl_beta;
    r->policy = rl_policy_of(r->config, kl_beta);
    TESS_TRY(rl_rows_make(r, is_first_step));
    if (!rl_has_pairs(r->config))
        TESS_TRY(rl_report_rollout(r));
    return lags ? begin_next(r, is_first_step) : TESS_OK;
}

static tess_status next_step(void *self, tess_batch_source *source)
{
    rl *r = self;
    const tess_config *c = r->config;
    const int64_t steps = rl_steps_per_rollout(c), rollout = r->engine->step / steps, u = r->engine->step % steps;
    const int64_t n_part = c->rollout.prompts / c->rl.updates * c->rollout.n;
    r->in_step = true;
    if (r->rows.n_seqs == 0 || r->training.rollout != rollout)
        TESS_TRY(begin_rollout(r, rollout, u == 0));
    TESS_TRY(rl_micro_plan(r, u % c->rl.updates * n_part, n_part, &r->micro));
    if (r->critic != NULL)
        TESS_TRY(rl_values_step(r));
    *source = rl_micro_source(r);
    return TESS_OK;
}

/* ---- The state of a run ---- */
/* Returns the state that step `step` (counted from 0) needs. */
static const rl_state *state_for(const rl *r, int64_t step)
{
    return step / rl_steps_per_rollout(r->config) == r->training.rollout ? &r->training : &r->next;
}

static void place(const void *self, tess_task_place *at)
{
    const rl *r = self;
    const rl_state *s = state_for(r, r->engine->step + r->in_step);
    *at = (tess_task_place){{s->rollout, s->cursor, s->carried, (int64_t)s->chain}};
    memcpy(&at->word[4], &s->kl_beta, sizeof(s->kl_beta));
}

static void set_state(rl *r, const rl_state *state)
{
    r->next = *state;
    r->training.rollout = -1;
    r->restored = true;
}

/* The place was noted before the newest step adapted the divergence's weight; the new weight is in the step's
 * report. */
static tess_status go_to(void *self, const tess_task_place *at, const tess_engine_report *newest)
{
    rl_state s = {
        .rollout = at->word[0], .cursor = at->word[1], .carried = at->word[2], .chain = (uint64_t)at->word[3]};
    memcpy(&s.kl_beta, &at->word[4], sizeof(s.kl_beta));
    if (newest != NULL)
        s.kl_beta = newest->carry;
    set_state(self, &s);
    return TESS_OK;
}

/* A rollout that is being drawn must be in the journal before a checkpoint is made, because no later process has its
 * weights. */
static tess_status describe(void *self, json_t *meta)
{
    rl *r = self;
    char chain[24];
    TESS_TRY(rl_take_order(r));
    const rl_state *s = state_for(r, r->engine->step);
    snprintf(chain, sizeof(chain), "%016llx", (unsigned long long)s->chain);
    json_t *mine =
        json_pack("{s:{s:I, s:I, s:I, s:s, s:f}}", "rl", "rollout", (json_int_t)s->rollout, "cursor",
                  (json_int_t)s->cursor, "carried", (json_int_t)s->carried, "chain", chain, "kl_beta", s->kl_beta);
    bool failed = mine == NULL || json_object_update(meta, mine) != 0;
    json_decref(mine);
    if (r->critic != NULL)
        failed |= json_object_set_new(meta, "critic", tess_critic_describe(r->critic)) != 0;
    TESS_CHECK(!failed, TESS_E_NOMEM, "no memory to describe the checkpoint");
    return TESS_OK;
}

static tess_status restore(void *self, const json_t *meta)
{
    rl *r = self;
    rl_state s = {.rollout = -1};
    const char *chain = NULL;
    const json_t *mine = json_object_get(meta, "rl");
    TESS_CHECK(json_is_object(mine), TESS_E_FORMAT,
               "%s is not of a run of `tessera rl`: begin another run with its weights (checkpoint.initial_load_path)",
               what);
    TESS_TRY(tess_json_get_int(mine, "rollout", what, &s.rollout));
    TESS_TRY(tess_json_get_int(mine, "cursor", what, &s.cursor));
    TESS_TRY(tess_json_get_int(mine, "carried", what, &s.carried));
    TESS_TRY(tess_json_get_double(mine, "kl_beta", what, &s.kl_beta));
    TESS_TRY(tess_json_get_string(mine, "chain", what, &chain));
    TESS_CHECK(chain != NULL && s.rollout == r->engine->step / rl_steps_per_rollout(r->config), TESS_E_INVALID,
               "%s is of step %lld in rollout %lld: keep rl.updates and rl.epochs as they were", what,
               (long long)r->engine->step, (long long)s.rollout);
    s.chain = strtoull(chain, NULL, 16);
    set_state(r, &s);
    return TESS_OK;
}

static int n_tensors(const void *self)
{
    const rl *r = self;
    return (r->reference != NULL ? tess_reference_n_tensors(r->reference) : 0) +
           (r->critic != NULL ? tess_critic_n_tensors(r->critic) : 0);
}

static tess_status tensors(void *self, tess_ckpt_tensor *tensors)
{
    const rl *r = self;
    if (r->reference != NULL) {
        TESS_TRY(tess_reference_tensors(r->reference, tensors));
        tensors += tess_reference_n_tensors(r->reference);
    }
    return r->critic != NULL ? tess_critic_tensors(r->critic, tensors) : TESS_OK;
}

static tess_status loaded(void *self, const json_t *meta)
{
    rl *r = self;
    if (r->reference != NULL && tess_reference_n_tensors(r->reference) > 0)
        TESS_TRY(tess_reference_loaded(r->reference));
    return r->critic != NULL ? tess_critic_loaded(r->critic, json_object_get(meta, "critic")) : TESS_OK;
}

/* ---- After a step ---- */
static tess_status settle(void *self)
{
    rl *r = self;
    r->in_step = false;
    return r->reference != NULL ? tess_reference_after_step(r->reference, r->engine->step) : TESS_OK;
}

static bool evaluates(const void *self, bool last)
{
    const rl *r = self;
    return r->held_out != NULL && (last || r->engine->step % r->config->validation.interval == 0);
}

static tess_status after_step(void *self, bool last, TESS_UNUSED tess_validation_report *report)
{
    rl *r = self;
    if (!rl_has_pairs(r->config) && r->figures.n > 0) /* this process made the step */
        TESS_TRY(rl_advise(r));
    return evaluates(r, last) ? rl_evaluate(r) : TESS_OK;
}

static tess_status finish(void *self, bool interrupted)
{
    TESS_TRY(rl_take_order(self));
    return rl_dismiss(self, interrupted);
}

static tess_status export(const void *self, const char *folder)
{
    const rl *r = self;
    return tess_run_text_export(&r->text, folder, false);
}

static tess_status conclude(void *self, const char *folder)
{
    const rl *r = self;
    const tess_prefix no_bos = {0};
    const int n_threads = tess_threads_count(tess_stream_threads(r->engine->stream));
    return tess_run_text_sample(&r->text, &no_bos, n_threads, folder);
}

static void report(void *self, tess_step_report *step)
{
    const rl *r = self;
    rl_show(r);
    step->metrics = r->figures.metrics;
    step->n_metrics = r->figures.n;
    step->words = r->figures.words;
    if (!rl_has_pairs(r->config)) {
        step->curve = "reward";
        step->curve_value = r->figures.metrics[RL_METRIC_REWARD].value;
    }
}

static const char *const defaults[] = {"optimizer.lr=1e-6", NULL};

const tess_task_kind tess_rl_task_kind = {.has_own_batches = true,
                                          .defaults = defaults,
                                          .check = rl_check,
                                          .create = create,
                                          .identify = identify_text,
                                          .open = open_task,
                                          .ready = ready,
                                          .begin = begin,
                                          .serve = rl_serve,
                                          .dry = &rl_dry_task,
                                          .page_samples = rl_page_samples,
                                          .close = close_task};
