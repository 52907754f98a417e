/* The attention block: projections, optional norms on q and k, rotary positions, attention, output projection. */
#include <math.h>

#include "nn/layers/layers.h"

/* q and k as the kernel sees them: in work space when norms stand between them and what is saved. */
static void *seen_q(const tess_attention_call *call, const tess_attention_saved *saved, const tess_attention_work *work)
{
    return call->config->qk_norm ? work->q : saved->q;
}

static void *seen_k(const tess_attention_call *call, const tess_attention_saved *saved, const tess_attention_work *work)
{
    return call->config->qk_norm ? work->k : saved->k;
}

static tess_status rotate(const tess_run *run, const tess_attention_call *call, void *x, int64_t stride,
                          int64_t n_heads, bool inverse)
{
    int64_t D = call->config->head_size;
    return run->kernels->rope(run->stream, x, stride, call->batch->pos, call->cos_table, call->sin_table, run->T,
                              n_heads, D, D, inverse, run->dtype);
}

static tess_status norm_heads(const tess_run *run, const tess_attention_call *call, const tess_attention_saved *saved,
                              const tess_attention_work *work)
{
    const tess_model_config *c = call->config;
    TESS_TRY(tess_norm_forward(run, &call->layout->q_norm, false, c->norm_eps, run->T * c->n_heads, c->head_size,
                               saved->q, NULL, NULL, work->q, (tess_norm_stats){NULL, saved->q_rstd}));
    return tess_norm_forward(run, &call->layout->k_norm, false, c->norm_eps, run->T * c->n_kv_heads, c->head_size,
                             saved->k, NULL, NULL, work->k, (tess_norm_stats){NULL, saved->k_rstd});
}

static tess_status norm_and_rotate(const tess_run *run, const tess_attention_call *call,
                                   const tess_attention_saved *saved, const tess_attention_work *work)
{
    if (call->config->qk_norm)
        TESS_TRY(norm_heads(run, call, saved, work));
    if (!call->layout->rope)
        return TESS_OK;
    TESS_TRY(rotate(run, call, seen_q(call, saved, work), call->rows.q, call->config->n_heads, false));
    return rotate(run, call, seen_k(call, saved, work), call->rows.kv, call->config->n_kv_heads, false);
}

static tess_attention describe(const tess_run *run, const tess_attention_call *call, const tess_attention_saved *saved,
                               const tess_attention_work *work)
{
    const tess_model_config *c = call->config;
    bool windowed = c->sliding_window > 0 && call->layer >= c->full_layers;
    int64_t kv_stride = call->batch->cache != NULL ? c->n_kv_heads * c->head_size : call->rows.kv;
    return (tess_attention){
        .n_seqs = call->batch->n_seqs,
        .seqs = work->seqs,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_size = c->head_size,
        .window = windowed ? c->sliding_window : 0,
        .scale = (float)(1 / sqrt((double)c->head_size)),
        .q = seen_q(call, saved, work),
        .out = saved->out,
        .q_stride = call->rows.q,
        .k_stride = kv_stride,
        .v_stride = kv_stride,
        .out_stride = c->n_heads * c->head_size,
        .lse = saved->lse,
        .dtype = run->dtype,
    };
}

/* Each sequence sees its own rows of the batch. */
static void sequences_of_batch(const tess_run *run, const tess_attention_call *call, const void *k, const void *v,
                               tess_attention_seq *seqs)
{
    for (int64_t i = 0; i < call->batch->n_seqs; i++) {
        int64_t begin = call->batch->cu_seqlens[i], length = call->batch->cu_seqlens[i + 1] - begin;
        seqs[i] = (tess_attention_seq){begin, length, length, tess_at(run, k, begin * call->rows.kv),
                                       tess_at(run, v, begin * call->rows.kv)};
    }
}

static tess_status copy_rows(const tess_run *run, const void *from, int64_t stride, void *to, int64_t width, int64_t n)
{
    int64_t whole = stride == width ? n : 1; /* rows a call */
    for (int64_t i = 0; i < n; i += whole)
        TESS_TRY(run->kernels->convert(run->stream, tess_at(run, from, i * stride), run->dtype,
                                       tess_at(run, to, i * width), run->dtype, whole * width));
    return TESS_OK;
}

/* New keys and values go behind the old ones in the sequence's slot, and all are seen there. */
static tess_status sequences_of_cache(const tess_run *run, const tess_attention_call *call, const void *k,
                                      const void *v, tess_attention_seq *seqs)
{
    const tess_batch *batch = call->batch;
    int64_t kv_row = call->config->n_kv_heads * call->config->head_size;
    for (int64_t i = 0; i < batch->n_seqs; i++) {
        int64_t begin = batch->cu_seqlens[i], length = batch->cu_seqlens[i + 1] - begin, past = batch->pos[begin];
        int64_t slot = batch->cache_slot[i] * batch->cache->slot_stride;
        void *k_slot = tess_at(run, batch->cache->k[call->layer], slot);
        void *v_slot = tess_at(run, batch->cache->v[call->layer], slot);
        TESS_TRY(copy_rows(run, tess_at(run, k, begin * call->rows.kv), call->rows.kv,
                           tess_at(run, k_slot, past * kv_row), kv_row, length));
        TESS_TRY(copy_rows(run, tess_at(run, v, begin * call->rows.kv), call->rows.kv,
                           tess_at(run, v_slot, past * kv_row), kv_row, length));
        seqs[i] = (tess_attention_seq){begin, length, past + length, k_slot, v_slot};
    }
    return TESS_OK;
}

tess_attention_rows tess_attention_rows_of(const tess_model_config *c)
{
    int64_t q = c->n_heads * c->head_size, kv = c->n_kv_heads * c->head_size;
    if (c->qk_norm)
        return (tess_attention_rows){.q = q, .kv = kv};
    return (tess_attention_rows){.q = q + 2 * kv, .kv = q + 2 * kv, .together = true};
}

/* The maps to q, k and v, as many as there are stored matrices: a fused one gives all three where they lie together. */
typedef struct projections {
    int n;
    tess_linear linear[3];
} projections;

static projections projections_of(const tess_attention_call *call)
{
    const tess_layout *layout = call->layout;
    projections p = {.n = 3, .linear = {layout->q, layout->k, layout->v}};
    if (call->rows.together && layout->qkv.weight >= 0) {
        p.n = 1;
        p.linear[0] = layout->qkv;
    }
    for (int i = 0; i < p.n; i++)
        p.linear[i].out_stride = i == 0 ? call->rows.q : call->rows.kv;
    return p;
}

tess_status tess_attention_block_forward(const tess_run *run, const tess_attention_call *call, const void *y,
                                         const tess_attention_saved *saved, const tess_attention_work *work,
                                         void *projected)
{
    const tess_layout *layout = call->layout;
    projections p = projections_of(call);
    void *const to[] = {saved->q, saved->k, saved->v};
    for (int i = 0; i < p.n; i++)
        TESS_TRY(tess_linear_forward(run, &p.linear[i], y, to[i], run->dtype));
    TESS_TRY(norm_and_rotate(run, call, saved, work));
    const void *k = seen_k(call, saved, work);
    if (call->batch->cache != NULL)
        TESS_TRY(sequences_of_cache(run, call, k, saved->v, work->seqs));
    else
        sequences_of_batch(run, call, k, saved->v, work->seqs);
    tess_attention attention = describe(run, call, saved, work);
    TESS_TRY(run->kernels->attention_forward(run->stream, &attention));
    return tess_linear_forward(run, &layout->o, saved->out, projected, run->dtype);
}

/* From the gradients of normed q and k (in dq, dk) to those of the projections (in work q, k, which are done with). */
static tess_status norm_heads_backward(const tess_run *run, const tess_attention_call *call,
                                       const tess_attention_saved *saved, const tess_attention_work *work)
{
    const tess_model_config *c = call->config;
    TESS_TRY(tess_norm_backward(run, &call->layout->q_norm, false, run->T * c->n_heads, c->head_size, saved->q,
                                (tess_norm_stats){NULL, saved->q_rstd}, work->dq, NULL, work->q));
    return tess_norm_backward(run, &call->layout->k_norm, false, run->T * c->n_kv_heads, c->head_size, saved->k,
                              (tess_norm_stats){NULL, saved->k_rstd}, work->dk, NULL, work->k);
}

tess_status tess_attention_block_backward(const tess_run *run, const tess_attention_call *call, const void *y,
                                          const tess_attention_saved *saved, const tess_attention_work *work,
                                          const void *dprojected, void *dy)
{
    const tess_layout *layout = call->layout;
    const tess_model_config *c = call->config;
    TESS_TRY(tess_linear_backward_params(run, &layout->o, saved->out, dprojected, false));
    bool trains = tess_linear_trains(run, &layout->q) || tess_linear_trains(run, &layout->k) ||
                  tess_linear_trains(run, &layout->v) || tess_wants(run, layout->q_norm.weight) ||
                  tess_wants(run, layout->k_norm.weight);
    if (dy == NULL && !trains)
        return TESS_OK;
    TESS_TRY(tess_linear_backward_input(run, &layout->o, dprojected, work->dout));

    if (c->qk_norm)
        TESS_TRY(norm_and_rotate(run, call, saved, work));
    sequences_of_batch(run, call, seen_k(call, saved, work), saved->v, work->seqs);
    tess_attention attention = describe(run, call, saved, work);
    tess_attention_grad grad = {work->dout,   work->dq,      work->dk,     work->dv, c->n_heads * c->head_size,
                                call->rows.q, call->rows.kv, call->rows.kv};
    TESS_TRY(run->kernels->attention_backward(run->stream, &attention, &grad));
    if (layout->rope) {
        TESS_TRY(rotate(run, call, work->dq, call->rows.q, c->n_heads, true));
        TESS_TRY(rotate(run, call, work->dk, call->rows.kv, c->n_kv_heads, true));
    }
    const void *gradients[] = {work->dq, work->dk, work->dv};
    if (c->qk_norm) {
        TESS_TRY(norm_heads_backward(run, call, saved, work));
        gradients[0] = work->q;
        gradients[1] = work->k;
    }
    projections p = projections_of(call);
    tess_linear_grad grads[3];
    for (int i = 0; i < p.n; i++) {
        TESS_TRY(tess_linear_backward_params(run, &p.linear[i], y, gradients[i], false));
        grads[i] = (tess_linear_grad){&p.linear[i], gradients[i]};
    }
    if (dy == NULL)
        return TESS_OK;
    return tess_linear_backward_inputs(run, grads, p.n, work->fusing, dy);
}
