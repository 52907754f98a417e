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

static tess_status rotate(const tess_run *run, const tess_attention_call *call, void *x, int64_t n_heads, bool inverse)
{
    int64_t D = call->config->head_size;
    return run->kernels->rope(run->stream, x, n_heads * D, call->batch->pos, call->cos_table, call->sin_table, run->T,
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
    TESS_TRY(rotate(run, call, seen_q(call, saved, work), call->config->n_heads, false));
    return rotate(run, call, seen_k(call, saved, work), call->config->n_kv_heads, false);
}

static tess_attention describe(const tess_run *run, const tess_attention_call *call, const tess_attention_saved *saved,
                               const tess_attention_work *work)
{
    const tess_model_config *c = call->config;
    bool windowed = c->sliding_window > 0 && call->layer >= c->full_layers;
    int64_t q_row = c->n_heads * c->head_size, kv_row = c->n_kv_heads * c->head_size;
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
        .q_stride = q_row,
        .k_stride = kv_row,
        .v_stride = kv_row,
        .out_stride = q_row,
        .lse = saved->lse,
        .dtype = run->dtype,
    };
}

/* Each sequence sees its own rows of the batch. */
static void sequences_of_batch(const tess_run *run, const tess_attention_call *call, const void *k, const void *v,
                               tess_attention_seq *seqs)
{
    int64_t kv_row = call->config->n_kv_heads * call->config->head_size;
    for (int64_t i = 0; i < call->batch->n_seqs; i++) {
        int64_t begin = call->batch->cu_seqlens[i], length = call->batch->cu_seqlens[i + 1] - begin;
        seqs[i] = (tess_attention_seq){begin, length, length, tess_at(run, k, begin * kv_row),
                                       tess_at(run, v, begin * kv_row)};
    }
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
        TESS_TRY(run->kernels->convert(run->stream, tess_at(run, k, begin * kv_row), run->dtype,
                                       tess_at(run, k_slot, past * kv_row), run->dtype, length * kv_row));
        TESS_TRY(run->kernels->convert(run->stream, tess_at(run, v, begin * kv_row), run->dtype,
                                       tess_at(run, v_slot, past * kv_row), run->dtype, length * kv_row));
        seqs[i] = (tess_attention_seq){begin, length, past + length, k_slot, v_slot};
    }
    return TESS_OK;
}

tess_status tess_attention_block_forward(const tess_run *run, const tess_attention_call *call, const void *y,
                                         const tess_attention_saved *saved, const tess_attention_work *work,
                                         void *projected)
{
    const tess_layout *layout = call->layout;
    TESS_TRY(tess_linear_forward(run, &layout->q, y, saved->q, run->dtype));
    TESS_TRY(tess_linear_forward(run, &layout->k, y, saved->k, run->dtype));
    TESS_TRY(tess_linear_forward(run, &layout->v, y, saved->v, run->dtype));
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
    int64_t q_row = c->n_heads * c->head_size, kv_row = c->n_kv_heads * c->head_size;
    tess_attention_grad grad = {work->dout, work->dq, work->dk, work->dv, q_row, q_row, kv_row, kv_row};
    TESS_TRY(run->kernels->attention_backward(run->stream, &attention, &grad));
    if (layout->rope) {
        TESS_TRY(rotate(run, call, work->dq, c->n_heads, true));
        TESS_TRY(rotate(run, call, work->dk, c->n_kv_heads, true));
    }
    const void *dq = work->dq, *dk = work->dk;
    if (c->qk_norm) {
        TESS_TRY(norm_heads_backward(run, call, saved, work));
        dq = work->q;
        dk = work->k;
    }
    TESS_TRY(tess_linear_backward_params(run, &layout->q, y, dq, false));
    TESS_TRY(tess_linear_backward_params(run, &layout->k, y, dk, false));
    TESS_TRY(tess_linear_backward_params(run, &layout->v, y, work->dv, false));
    if (dy == NULL)
        return TESS_OK;
    const tess_linear_grad grads[] = {{&layout->q, dq}, {&layout->k, dk}, {&layout->v, work->dv}};
    return tess_linear_backward_inputs(run, grads, 3, work->fusing, dy);
}
