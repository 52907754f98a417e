/* PPO's values of a rollout's rows, computed by a critic or by a head on the policy; and the critic's step over the
 * policy's micro-batches. */
#include <string.h>

#include "rl/rl_micro.h"
#include "tessera/comm.h"
#include "base/mem/scoped.h"

/* ---- Values ---- */
typedef struct valuing {
    float *into, *value; /* (n_rows), (rows of a micro-batch) */
} valuing;

/* Ranks that divide the tokens of a micro-batch compute the values of their own ones. */
static tess_status value_rows(rl *r, const tess_batch *batch, const int64_t *place, void *self)
{
    valuing *v = self;
    tess_engine *e = r->engine;
    const int64_t n_own = tess_context_tokens(&e->pieces.context, batch->n_tokens);
    const bool mine = tess_engine_counts(e);
    if (r->critic != NULL) {
        TESS_TRY(tess_critic_values(r->critic, batch, v->value));
    } else {
        const tess_head_task task = {.values = e->meter.logprobs};
        tess_batch own = *batch;
        own.loss = NULL;
        TESS_TRY(tess_pieces_take(&e->pieces, 0, &own));
        TESS_TRY(tess_engine_evaluate(e, e->executor, &own, &task));
        if (mine)
            TESS_TRY(tess_fetch(e->compute.stream, v->value, e->meter.logprobs, (size_t)n_own * sizeof(float)));
    }
    if (mine)
        rl_place_rows(r, batch->n_tokens, n_own, v->value, place, v->into);
    return TESS_OK;
}

tess_status rl_values_make(rl *r)
{
    rl_rows *rows = &r->rows;
    valuing v;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)rl_most_rows(r), sizeof(float), "values",
                                  (void **)&v.value));
    v.into = rows->value;
    tess_status status = rl_micro_plan(r, 0, rows->n_seqs, &r->micro);
    if (status == TESS_OK)
        status = rl_micro_visit(r, value_rows, &v);
    tess_mem_drop(&r->micro);
    tess_mem_free(r->mem, v.value);
    return status == TESS_OK ? rl_share_floats(r, rows->value, rows->n_rows) : status;
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
