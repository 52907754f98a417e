/* Values of PPO: of a rollout's rows, and what is learned of them. They come from a critic, whose step goes over the
 * policy's micro-batches, or from a head on the policy, whose loss goes with the policy's. */
#include <string.h>

#include "rl/rl_micro.h"
#include "tessera/comm.h"

/* ---- Values ---- */
typedef struct valuing {
    float *into, *value; /* (n_rows), (a micro-batch) */
} valuing;

static tess_status value_rows(rl *r, const tess_batch *batch, const int64_t *place, void *self)
{
    valuing *v = self;
    tess_engine *e = r->engine;
    if (r->critic != NULL) {
        TESS_TRY(tess_critic_values(r->critic, batch, v->value));
    } else {
        TESS_TRY(tess_executor_values(e->executor, batch, e->logprobs));
        TESS_TRY(tess_fetch(e->compute.stream, v->value, e->logprobs, (size_t)batch->n_tokens * sizeof(float)));
    }
    for (int64_t t = 0; t < batch->n_tokens; t++)
        v->into[place[t]] = v->value[t];
    return TESS_OK;
}

tess_status rl_values_make(rl *r)
{
    rl_rows *rows = &r->rows;
    const size_t most = (size_t)(r->config->training.local_batch_size * r->config->training.seq_len);
    valuing v;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, most, sizeof(float), "values", (void **)&v.value));
    v.into = rows->value;
    tess_status status = rl_micro_plan(r, 0, rows->n_seqs, &r->micro);
    if (status == TESS_OK)
        status = rl_micro_visit(r, value_rows, &v);
    rl_micro_free(r, &r->micro);
    tess_mem_free(r->mem, v.value);
    return status == TESS_OK ? rl_share_floats(r, rows->value, rows->n_rows) : status;
}

/* ---- Learning them ---- */
/* A critic's loss is the mean over the step's rows. Beside the policy's, whose divisor the step has, it is that mean
 * with its weight. */
static float scale_of(const rl *r)
{
    const rl_micro_batches *m = r->micro;
    if (!rl_shares_trunk(r->config))
        return 1;
    return m->n_valued > 0 ? (float)(r->config->critic.coef * m->divisor / (double)m->n_valued) : 0;
}

tess_status rl_grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    rl_micro_batch *b = self;
    const float scale = scale_of(b->r);
    memset(&b->value_sums, 0, sizeof(b->value_sums)); /* a step may run again */
    TESS_TRY(tess_value_grade(b->r->config->rl.value_clip, b->valued, value, b->value, b->returns, n, dvalue,
                              &b->value_sums));
    for (int64_t t = 0; t < n; t++)
        dvalue[t] *= scale;
    return TESS_OK;
}

tess_status rl_values_sum(rl *r)
{
    int64_t all[TESS_VALUE_SUM_WORDS] = {0}, words[TESS_VALUE_SUM_WORDS];
    for (int64_t i = 0; i < r->micro->n_own; i++) {
        if (r->micro->own[i].r == NULL)
            continue;
        tess_value_sums_pack(&r->micro->own[i].value_sums, words);
        for (int k = 0; k < TESS_VALUE_SUM_WORDS; k++)
            all[k] += words[k];
    }
    TESS_TRY(tess_all_reduce(r->team, all, all, TESS_VALUE_SUM_WORDS, TESS_I64, TESS_SUM, NULL));
    tess_value_sums_unpack(all, &r->value_sums);
    return TESS_OK;
}

/* ---- The critic's step ---- */
static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    rl_micro_batch *b;
    TESS_TRY(rl_micro_take(self, index, &b));
    b->value_loss = (tess_token_loss){.self = b, .grade_values = rl_grade_values};
    *batch = b->batch;
    batch->loss = &b->value_loss;
    return TESS_OK;
}

static tess_status judge(void *self, tess_engine_report *report)
{
    rl *r = self;
    TESS_TRY(rl_values_sum(r));
    report->loss = tess_value_mean_loss(&r->value_sums);
    return TESS_OK;
}

tess_status rl_values_step(rl *r)
{
    tess_engine_report report;
    const tess_batch_source source = {
        .self = r, .next = next, .n_micro = r->micro->n, .divisor = (double)r->micro->n_valued, .judge = judge};
    TESS_TRY_CTX(tess_critic_step(r->critic, &source, &report), "critic");
    return TESS_OK;
}
