/* Builds the rows of a rollout to train on. Every rank computes all of them, except for values of models, which are
 * distributed over ranks like micro-batches and then exchanged. */
#include <string.h>

#include "base/os/os.h"
#include "rl/algo/rl_advantage.h"
#include "rl/algo/rl_moments.h"
#include "rl/rl_impl.h"

/* ---- Memory ---- */
typedef struct array_of_rows {
    void **at;
    size_t count, size;
} array_of_rows;

static tess_status alloc_arrays(tess_scope *scope, const array_of_rows *arrays, int n)
{
    for (int i = 0; i < n; i++)
        TESS_TRY(tess_scope_alloc(scope, TESS_POOL_MISC, arrays[i].count + 1, arrays[i].size, "rows of a rollout",
                                  arrays[i].at));
    return TESS_OK;
}

void rl_rows_free(rl *r)
{
    tess_scope_end(&r->rows.own);
    r->rows = (rl_rows){.own = {.mem = r->mem}};
}

static tess_status alloc_rows(rl *r)
{
    rl_rows *rows = &r->rows;
    const size_t n_seqs = (size_t)rows->n_seqs, n_rows = (size_t)rows->n_rows;
    const array_of_rows arrays[] = {
        {(void **)&rows->mask, n_rows, sizeof(*rows->mask)}, {(void **)&rows->version, n_rows, sizeof(*rows->version)},
        {(void **)&rows->drawn, n_rows, sizeof(float)},      {(void **)&rows->old, n_rows, sizeof(float)},
        {(void **)&rows->advantage, n_rows, sizeof(float)},  {(void **)&rows->n_targets, n_seqs, sizeof(int64_t)}};
    const array_of_rows of_values[] = {{(void **)&rows->value, n_rows, sizeof(float)},
                                       {(void **)&rows->returns, n_rows, sizeof(float)}};
    const array_of_rows of_reference[] = {{(void **)&rows->reference, n_rows, sizeof(float)}};
    if (rl_has_values(r->config))
        TESS_TRY(alloc_arrays(&rows->own, of_values, 2));
    if (r->reference != NULL)
        TESS_TRY(alloc_arrays(&rows->own, of_reference, 1));
    return alloc_arrays(&rows->own, arrays, (int)(sizeof(arrays) / sizeof(arrays[0])));
}

/* ---- Samples to rows ---- */
static tess_status list_sequences(rl *r)
{
    rl_rows *rows = &r->rows;
    const int64_t n = r->config->rollout.n;
    rows->n_groups = (int64_t)r->trained.n;
    rows->n_seqs = rows->n_groups * n;
    const array_of_rows arrays[] = {{(void **)&rows->samples, (size_t)rows->n_seqs, sizeof(*rows->samples)},
                                    {(void **)&rows->begin, (size_t)rows->n_seqs, sizeof(int64_t)},
                                    {(void **)&rows->group, (size_t)rows->n_groups, sizeof(int64_t)}};
    TESS_TRY(alloc_arrays(&rows->own, arrays, 3));
    for (int64_t i = 0; i < rows->n_seqs; i++) {
        rows->samples[i] = &r->trained.group[i / n].samples[i % n];
        rows->begin[i + 1] = rows->begin[i] + rows->samples[i]->n - 1;
    }
    for (int64_t g = 0; g <= rows->n_groups; g++)
        rows->group[g] = g * n;
    rows->n_rows = rows->begin[rows->n_seqs];
    return TESS_OK;
}

static void fill_rows(rl_rows *rows, bool pairs)
{
    for (int64_t i = 0; i < rows->n_seqs; i++) {
        const rl_sample *s = rows->samples[i];
        const int64_t first = rows->begin[i], n = s->n - 1;
        rows->n_targets[i] = 0;
        for (int64_t t = 0; t < n; t++) {
            rows->mask[first + t] = t + 1 >= s->n_prompt && (pairs || s->version[t + 1] != RL_NOT_DRAWN);
            rows->n_targets[i] += rows->mask[first + t];
        }
        memcpy(rows->version + first, s->version + 1, (size_t)n * sizeof(int32_t));
        memcpy(rows->drawn + first, s->logprob + 1, (size_t)n * sizeof(float));
    }
    memcpy(rows->old, rows->drawn, (size_t)rows->n_rows * sizeof(float));
}

/* ---- The models' values of rows ---- */
typedef struct rl_scoring {
    float *into, *logprob; /* (n_rows), (rows of a micro-batch) */
    bool of_reference;
    int64_t n_seen; /* micro-batches so far */
} rl_scoring;

/* Ranks that divide the tokens of a micro-batch score their own ones. */
static tess_status score_by_policy(rl *r, const tess_batch *batch, const int64_t *place, rl_scoring *s)
{
    tess_engine *e = r->engine;
    const tess_head_task task = {.inv_temperature = rl_inv_temperature(r->config), .logprob = e->meter.logprobs};
    tess_batch own = *batch;
    own.loss = NULL;
    TESS_TRY(tess_pieces_take(&e->pieces, 0, &own));
    TESS_TRY(tess_engine_evaluate(e, e->executor, &own, &task));
    if (!tess_engine_counts(e))
        return TESS_OK;
    TESS_TRY(tess_fetch(e->compute.stream, s->logprob, e->meter.logprobs, (size_t)own.n_tokens * sizeof(float)));
    rl_place_rows(r, batch->n_tokens, own.n_tokens, s->logprob, place, s->into);
    return TESS_OK;
}

/* Every rank has the whole reference: ranks that have the same micro-batches take turns. */
static tess_status score_by_reference(rl *r, const tess_batch *batch, const int64_t *place, rl_scoring *s)
{
    const tess_coordinates *at = &r->engine->at;
    if (s->n_seen++ % at->n_parts != at->part || batch->n_tokens == 0)
        return TESS_OK;
    TESS_TRY(tess_reference_logprobs(r->reference, batch, rl_inv_temperature(r->config), s->logprob, NULL));
    for (int64_t t = 0; t < batch->n_tokens; t++)
        s->into[place[t]] = s->logprob[t];
    return TESS_OK;
}

static tess_status score(rl *r, const tess_batch *batch, const int64_t *place, void *self)
{
    rl_scoring *s = self;
    return (s->of_reference ? score_by_reference : score_by_policy)(r, batch, place, s);
}

/* Computes log-probabilities of all rows, by the reference or the present weights. */
static tess_status score_all(rl *r, bool of_reference, float *into)
{
    rl_scoring s = {.into = into, .of_reference = of_reference};
    TESS_TRY(TESS_NEW(r->mem, rl_most_rows(r) + 1, "rows of a rollout", &s.logprob));
    memset(into, 0, (size_t)r->rows.n_rows * sizeof(*into)); /* rows of other ranks are added */
    tess_status status = rl_micro_plan(r, 0, r->rows.n_seqs, &r->micro);
    if (status == TESS_OK)
        status = rl_micro_visit(r, score, &s);
    tess_mem_drop(&r->micro);
    tess_mem_free(r->mem, s.logprob);
    return status == TESS_OK ? rl_share_floats(r, into, r->rows.n_rows) : status;
}

static tess_status ask_models(rl *r)
{
    if (rl_scores_samples(r->config))
        TESS_TRY_CTX(score_all(r, false, r->rows.old), "log-probabilities of samples");
    if (r->reference != NULL) /* uses the loss's temperature */
        TESS_TRY_CTX(score_all(r, true, r->rows.reference), "log-probabilities of the reference");
    if (rl_has_values(r->config))
        TESS_TRY_CTX(rl_values_make(r), "values");
    return TESS_OK;
}

/* ---- Rewards to advantages ---- */
typedef struct rewards {
    double *reward, *advantage; /* (n_seqs) */
    bool *scored;
    int32_t *cu;   /* (n_seqs + 1) */
    float *token;  /* (n_rows) */
    uint8_t *mask; /* (n_rows) of sequences that have a reward */
} rewards;

/* Returns the reward of sequence i from which its baseline is computed. by_token: the divergence is subtracted from
 * the tokens' rewards instead. */
static double reward_of(const rl *r, int64_t i, bool by_token)
{
    const tess_config *c = r->config;
    const rl_rows *rows = &r->rows;
    const rl_sample *s = rows->samples[i];
    const int64_t length = s->n - s->n_prompt, first = rows->begin[i];
    double reward = s->reward;
    if (c->rl.overlong_tokens > 0)
        reward +=
            tess_overlong_penalty(length, c->rollout.max_new_tokens, c->rl.overlong_tokens, c->rl.overlong_penalty);
    if (c->rl.kl_in_reward && !by_token)
        reward -=
            r->training.kl_beta * tess_sequence_kl((tess_kl_kind)c->rl.kl, rows->begin[i + 1] - first,
                                                   rows->mask + first, rows->old + first, rows->reference + first);
    return reward;
}

static tess_advantage_kind kind_of(int algorithm)
{
    switch ((tess_rl_algorithm)algorithm) {
    case TESS_RL_DR_GRPO:
        return TESS_ADV_DR_GRPO;
    case TESS_RL_RLOO:
        return TESS_ADV_RLOO;
    case TESS_RL_BATCH_STD:
        return TESS_ADV_BATCH_STD;
    case TESS_RL_REINFORCE_PP:
        return TESS_ADV_REINFORCE_PP;
    case TESS_RL_REINFORCE_PP_BASELINE:
        return TESS_ADV_REINFORCE_PP_BASELINE;
    case TESS_RL_PPO:
        return TESS_ADV_GAE;
    default:
        return TESS_ADV_GRPO;
    }
}

static void whiten(rl *r, const uint8_t *mask)
{
    tess_moments moments = {.n = 0};
    tess_moments_add_rows(&moments, r->rows.advantage, mask, r->rows.n_rows);
    tess_whiten(&moments, 1e-8, mask, r->rows.advantage, r->rows.n_rows);
}

/* Computes rewards of tokens first: -beta (log p - log p_ref), plus the sample's reward at the last token. */
static void advantages_of_tokens(rl *r, const rewards *w)
{
    const tess_config *c = r->config;
    rl_rows *rows = &r->rows;
    const double beta = c->rl.kl_in_reward ? r->training.kl_beta : 0;
    tess_token_rewards(beta, (tess_kl_kind)c->rl.kl, rows->n_seqs, w->cu, w->mask, w->advantage, rows->old,
                       beta > 0 ? rows->reference : NULL, w->token);
    if (rows->value != NULL)
        tess_gae(c->rl.gamma, c->rl.lambda, rows->n_seqs, w->cu, w->mask, w->token, rows->value, rows->advantage,
                 rows->returns);
    else
        tess_returns_to_go(c->rl.gamma, rows->n_seqs, w->cu, w->mask, w->token, rows->advantage);
}

static tess_status fill_advantages(rl *r, const rewards *w)
{
    const tess_config *c = r->config;
    rl_rows *rows = &r->rows;
    const tess_advantage_kind kind = kind_of(c->rl.algorithm);
    const bool by_token = kind == TESS_ADV_REINFORCE_PP || kind == TESS_ADV_GAE;
    for (int64_t i = 0; i < rows->n_seqs; i++) {
        w->scored[i] = rows->samples[i]->grade == RL_SCORED;
        w->reward[i] = w->scored[i] ? reward_of(r, i, by_token) : 0;
        w->cu[i + 1] = (int32_t)rows->begin[i + 1];
        for (int64_t t = rows->begin[i]; t < rows->begin[i + 1]; t++)
            w->mask[t] = w->scored[i] && rows->mask[t];
    }
    TESS_TRY(tess_group_advantages(kind, c->rl.eps, w->reward, w->scored, rows->n_seqs, rows->group, rows->n_groups,
                                   w->advantage));
    if (by_token)
        advantages_of_tokens(r, w);
    else
        tess_token_spread(rows->n_seqs, w->cu, w->mask, w->advantage, rows->advantage);
    if (by_token || kind == TESS_ADV_REINFORCE_PP_BASELINE || c->rl.norm_advantages)
        whiten(r, w->mask);
    return TESS_OK;
}

static tess_status make_advantages(rl *r)
{
    rewards w = {.reward = NULL};
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = r->mem};
    const size_t n = (size_t)r->rows.n_seqs;
    const array_of_rows arrays[] = {{(void **)&w.reward, n, sizeof(double)},
                                    {(void **)&w.advantage, n, sizeof(double)},
                                    {(void **)&w.scored, n, sizeof(bool)},
                                    {(void **)&w.cu, n, sizeof(int32_t)},
                                    {(void **)&w.token, (size_t)r->rows.n_rows, sizeof(float)},
                                    {(void **)&w.mask, (size_t)r->rows.n_rows, 1}};
    TESS_TRY(alloc_arrays(&own, arrays, 6));
    return fill_advantages(r, &w);
}

/* ---- The whole ---- */
static tess_status make(rl *r, bool first_step)
{
    const bool kept = rl_scores_are_kept(r->config);
    TESS_TRY(list_sequences(r));
    TESS_CHECK(r->rows.n_rows < INT32_MAX, TESS_E_INVALID,
               "a rollout of %lld tokens is too large: fewer rollout.prompts or rollout.n", (long long)r->rows.n_rows);
    TESS_TRY(alloc_rows(r));
    fill_rows(&r->rows, rl_has_pairs(r->config));
    TESS_TRY(kept && !first_step ? rl_scores_recall(r) : ask_models(r));
    if (kept && first_step)
        TESS_TRY(rl_scores_keep(r));
    return rl_has_pairs(r->config) ? TESS_OK : make_advantages(r);
}

tess_status rl_rows_make(rl *r, bool first_step)
{
    double begin_s = tess_os_now_s();
    rl_rows_free(r);
    tess_status status = make(r, first_step);
    r->newest.facts.prepare_s = tess_os_now_s() - begin_s;
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "rollout %lld", (long long)r->training.rollout);
}
