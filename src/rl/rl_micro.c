/* Builds the micro-batches of a step. Which sequences share a micro-batch is a function of the lengths only. Ranks
 * take micro-batches by index, in the order that the engine's sum requires. */
#include <string.h>

#include "rl/algo/rl_balance.h"
#include "rl/rl_micro.h"
#include "base/mem/scoped.h"

/* ---- The plan ---- */
/* Assigns sequences to micro-batches so that those which ranks process at the same time cost about the same. length,
 * cost (n_seqs) are work space. */
static tess_status deal_out(rl *r, rl_micro_batches *m, int64_t *length, int64_t *cost)
{
    static const tess_balance_fn balances[] = {NULL, tess_balance_lpt, tess_balance_differencing};
    const tess_config *c = r->config;
    const tess_balance_fn balance = balances[c->rl.balance];
    const int64_t *begin = r->rows.begin + m->first, width = 6 * tess_trainer_model(r->trainer)->hidden_size;
    const int64_t most = c->training.local_batch_size * c->training.seq_len;
    const int together = rl_has_pairs(c) ? 2 : 1;
    int32_t n_bins;
    for (int64_t i = 0; i < m->n_seqs; i++) {
        length[i] = begin[i + 1] - begin[i];
        cost[i] = tess_sequence_cost(length[i], width);
    }
    TESS_TRY(balance == NULL
                 ? tess_pack_first_fit(length, m->n_seqs, most, together, m->bin, &n_bins)
                 : tess_pack_balanced(r->mem, balance, length, cost, m->n_seqs, most, together, m->bin, &n_bins));
    m->n = n_bins;
    return tess_pack_by_cost(r->mem, cost, m->n_seqs, m->bin, n_bins);
}

static tess_status plan(rl *r, rl_micro_batches *m)
{
    const tess_config *c = r->config;
    TESS_AUTO(tess_mem_drop) int64_t *lengths = NULL;
    TESS_TRY(TESS_NEW(r->mem, 2 * (size_t)m->n_seqs + 1, "lengths", &lengths));
    TESS_TRY(deal_out(r, m, lengths, lengths + m->n_seqs));
    m->n_own = tess_coordinates_rounds(&r->engine->at, m->n);
    TESS_TRY(TESS_PART(m, m->n_own, "micro-batches", &m->own));
    for (int64_t i = m->first; i < m->first + m->n_seqs; i++)
        m->n_valued += r->rows.samples[i]->grade == RL_SCORED ? r->rows.n_targets[i] : 0;
    m->divisor = (double)m->n_seqs / 2;
    if (rl_has_pairs(c))
        return TESS_OK;
    return tess_reduction_plan(r->policy.reduction, r->policy.constant, r->rows.n_targets + m->first, m->n_seqs,
                               m->scale, &m->divisor);
}

tess_status rl_micro_plan(rl *r, int64_t first, int64_t n, rl_micro_batches **out)
{
    TESS_AUTO(tess_mem_drop) rl_micro_batches *m = NULL;
    tess_mem_drop(out);
    TESS_TRY(TESS_NEW(r->mem, 1, "micro-batches", &m));
    *m = (rl_micro_batches){.first = first, .n_seqs = n};
    TESS_TRY(TESS_PART(m, n + 1, "micro-batches", &m->bin));
    TESS_TRY(TESS_PART(m, n + 1, "micro-batches", &m->scale));
    TESS_TRY(plan(r, m));
    *out = TESS_GIVE(m);
    return TESS_OK;
}

/* ---- A micro-batch ---- */
static tess_status alloc_micro_batch(rl_micro_batches *m, rl_micro_batch *b, int64_t n_seqs, int64_t n_rows)
{
    const size_t rows = (size_t)n_rows, seqs = (size_t)n_seqs;
    const struct {
        void **at;
        size_t count, size;
    } arrays[] = {{(void **)&b->ids, rows, sizeof(int32_t)},     {(void **)&b->pos, rows, sizeof(int32_t)},
                  {(void **)&b->targets, rows, sizeof(int32_t)}, {(void **)&b->cu, seqs + 1, sizeof(int32_t)},
                  {(void **)&b->place, rows, sizeof(int64_t)},   {(void **)&b->mask, rows, 1},
                  {(void **)&b->advantage, rows, sizeof(float)}, {(void **)&b->old, rows, sizeof(float)},
                  {(void **)&b->drawn, rows, sizeof(float)},     {(void **)&b->reference, rows, sizeof(float)},
                  {(void **)&b->scale, seqs, sizeof(float)},     {(void **)&b->value, rows, sizeof(float)},
                  {(void **)&b->returns, rows, sizeof(float)},   {(void **)&b->valued, rows, 1}};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        TESS_TRY(tess_scope_alloc(tess_scope_of(m), TESS_POOL_MISC, arrays[i].count + 1, arrays[i].size, "micro-batch",
                                  arrays[i].at));
    return TESS_OK;
}

static void add_sequence(rl_micro_batch *b, const rl_rows *rows, int64_t i, float scale)
{
    const rl_sample *s = rows->samples[i];
    const int64_t first = rows->begin[i], n = s->n - 1, at = b->cu[b->batch.n_seqs];
    for (int64_t t = 0; t < n; t++) {
        b->ids[at + t] = s->ids[t];
        b->pos[at + t] = (int32_t)t;
        b->targets[at + t] = rows->mask[first + t] ? s->ids[t + 1] : -1;
        b->place[at + t] = first + t;
    }
    memcpy(b->mask + at, rows->mask + first, (size_t)n);
    memcpy(b->advantage + at, rows->advantage + first, (size_t)n * sizeof(float));
    memcpy(b->old + at, rows->old + first, (size_t)n * sizeof(float));
    memcpy(b->drawn + at, rows->drawn + first, (size_t)n * sizeof(float));
    if (rows->reference != NULL)
        memcpy(b->reference + at, rows->reference + first, (size_t)n * sizeof(float));
    if (rows->value != NULL) {
        memcpy(b->value + at, rows->value + first, (size_t)n * sizeof(float));
        memcpy(b->returns + at, rows->returns + first, (size_t)n * sizeof(float));
        if (s->grade == RL_SCORED)
            memcpy(b->valued + at, rows->mask + first, (size_t)n);
    }
    b->scale[b->batch.n_seqs++] = scale;
    b->cu[b->batch.n_seqs] = (int32_t)(at + n);
    b->batch.n_tokens = at + n;
}

static tess_status make_micro_batch(rl *r, rl_micro_batches *m, int64_t index, rl_micro_batch *b)
{
    const rl_rows *rows = &r->rows;
    int64_t n_seqs = 0, n_rows = 0;
    for (int64_t i = 0; i < m->n_seqs; i++)
        if (m->bin[i] == index) {
            n_seqs++;
            n_rows += rows->begin[m->first + i + 1] - rows->begin[m->first + i];
        }
    TESS_TRY(alloc_micro_batch(m, b, n_seqs, n_rows));
    b->r = r;
    b->first_begin = -1;
    for (int64_t i = 0; i < m->n_seqs; i++)
        if (m->bin[i] == index)
            add_sequence(b, rows, m->first + i, m->scale[i]);
    b->rows = (tess_policy_rows){.n_rows = n_rows,
                                 .n_seqs = n_seqs,
                                 .cu = b->cu,
                                 .mask = b->mask,
                                 .advantage = b->advantage,
                                 .old_logprob = b->old,
                                 .rollout_logprob = b->drawn,
                                 .reference = rows->reference != NULL ? b->reference : NULL,
                                 .seq_scale = b->scale};
    b->loss = rl_loss_of(b);
    b->batch.ids = b->ids;
    b->batch.pos = b->pos;
    b->batch.targets = b->targets;
    b->batch.cu_seqlens = b->cu;
    b->batch.loss = &b->loss;
    return TESS_OK;
}

tess_status rl_micro_take(rl *r, int64_t index, rl_micro_batch **out)
{
    rl_micro_batches *m = r->micro;
    const tess_shares shares = tess_axes_shares(r->engine->at.degree);
    *out = &m->own[tess_shares_order(&shares, index)];
    return (*out)->r != NULL ? TESS_OK : make_micro_batch(r, m, index, *out);
}

/* ---- A step's source ---- */
static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    rl_micro_batch *b;
    TESS_TRY(rl_micro_take(self, index, &b));
    *batch = b->batch;
    return TESS_OK;
}

tess_batch_source rl_micro_source(rl *r)
{
    return (tess_batch_source){
        .self = r, .next = next, .n_micro = r->micro->n, .divisor = r->micro->divisor, .judge = rl_judge};
}

tess_status rl_micro_visit(rl *r, rl_visit_fn visit, void *self)
{
    static const int32_t nothing[1] = {0};
    const tess_batch empty = {.ids = nothing, .pos = nothing, .targets = nothing, .cu_seqlens = nothing};
    for (int64_t i = 0; i < r->micro->n_own; i++) {
        const int64_t index = tess_coordinates_micro(&r->engine->at, i);
        rl_micro_batch *b = NULL;
        if (index < r->micro->n)
            TESS_TRY(rl_micro_take(r, index, &b));
        TESS_TRY(b != NULL ? visit(r, &b->batch, b->place, self) : visit(r, &empty, NULL, self));
    }
    return TESS_OK;
}

int64_t rl_most_rows(const rl *r)
{
    const int64_t own = r->engine->pieces.max_tokens,
                  all = r->config->training.local_batch_size * r->config->training.seq_len;
    return own > all ? own : all;
}

void rl_place_rows(const rl *r, int64_t n_tokens, int64_t n_own, const float *own, const int64_t *place, float *into)
{
    for (int64_t row = 0; row < n_own; row++) {
        const int64_t token = tess_context_token(&r->engine->pieces.context, n_tokens, row);
        if (token < n_tokens)
            into[place[token]] = own[row];
    }
}
