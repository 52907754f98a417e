/* The critic of PPO beside the policy: values of a rollout's rows, and its own step on each of the policy's
 * micro-batches. */
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
    TESS_TRY(tess_critic_values(r->critic, batch, v->value));
    for (int64_t t = 0; t < batch->n_tokens; t++)
        v->into[place[t]] = v->value[t];
    return TESS_OK;
}

tess_status rl_values_make(rl *r)
{
    rl_rows *rows = &r->rows;
    const size_t n = (size_t)rows->n_rows + 1;
    const size_t most = (size_t)(r->config->training.local_batch_size * r->config->training.seq_len);
    valuing v;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(float), "values", (void **)&rows->value));
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(float), "returns", (void **)&rows->returns));
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, most, sizeof(float), "values", (void **)&v.value));
    v.into = rows->value;
    tess_status status = rl_micro_plan(r, 0, rows->n_seqs, &r->micro);
    if (status == TESS_OK)
        status = rl_micro_visit(r, value_rows, &v);
    rl_micro_free(r, &r->micro);
    tess_mem_free(r->mem, v.value);
    return status == TESS_OK ? rl_share_floats(r, rows->value, rows->n_rows) : status;
}

/* ---- The critic's step ---- */
static tess_status grade_values(void *self, int64_t begin, int64_t n, const float *value, const float *entropy,
                                float *dvalue, float *dentropy)
{
    rl_micro_batch *b = self;
    (void)entropy, (void)dentropy;
    if (begin == 0) /* a step may run again */
        memset(&b->value_sums, 0, sizeof(b->value_sums));
    return tess_value_grade(b->r->config->rl.value_clip, b->mask + begin, value, b->value + begin, b->returns + begin,
                            n, dvalue, &b->value_sums);
}

static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    rl *r = self;
    rl_micro_batch *b;
    TESS_TRY(rl_micro_take(r, index, &b));
    b->value_loss = (tess_token_loss){.self = b, .kind = TESS_LOSS_VALUE, .inv_temperature = 1, .grade = grade_values};
    *batch = b->batch;
    batch->loss = &b->value_loss;
    return TESS_OK;
}

static tess_status judge(void *self, tess_engine_report *report)
{
    rl *r = self;
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
    report->loss = tess_exact_value(&r->value_sums.loss) / report->divisor;
    return TESS_OK;
}

tess_status rl_values_step(rl *r)
{
    tess_engine_report report;
    const tess_batch_source source = {.self = r, .next = next, .n_micro = r->micro->n, .judge = judge};
    TESS_TRY_CTX(tess_critic_step(r->critic, &source, &report), "critic");
    return TESS_OK;
}
