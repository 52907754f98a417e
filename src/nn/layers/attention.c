/* The parts of attention around the kernel: the layout of q, k and v in memory, and their norms and rotation. */
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

/* ---- y -> q, k, v ---- */
/* The maps that compute q, k and v, one for each stored matrix. A fused matrix gives all three at once if they are
 * parts of one row. */
typedef struct projections {
    int n;
    tess_linear linear[3];
} projections;

static projections projections_of(const tess_layer_call *c)
{
    const tess_attention_params *p = c->own;
    tess_head_strides stride = tess_head_strides_of(p);
    projections maps = {.n = 3, .linear = {p->q, p->k, p->v}};
    if (p->per_head) {
        maps.n = 1;
        maps.linear[0] = p->qkv;
        return maps;
    }
    if (!tess_norms_heads(p) && p->qkv.weight >= 0 && !tess_is_split(c, p->q.out)) {
        maps.n = 1;
        maps.linear[0] = p->qkv;
    }
    for (int i = 0; i < maps.n; i++)
        maps.linear[i].out_stride = i == 0 ? stride.q : stride.kv;
    return maps;
}

static bool shares_key_heads(const tess_layer_call *c)
{
    return c->points->degree > 1 && tess_shares_key_heads(c->own);
}

/* How the ranks that share the layer cut the heads of a projection. */
static tess_cut heads_of(const tess_attention_params *p, const tess_linear *map)
{
    return (tess_cut){map->out.size / p->head_size, map->out.unit / p->head_size};
}

/* Copies heads between `mixed` (T, H, 3, D) and a row of q, k and v, (T, 3, H, D). */
static tess_status mix(const tess_layer_call *c, void *row, void *mixed, bool into_mixed)
{
    const tess_attention_params *p = c->own;
    const int64_t H = p->n_heads, D = p->head_size;
    if (!p->per_head)
        return TESS_OK;
    for (int64_t i = 0; i < 3 * H; i++) {
        void *one = tess_at(c, row, (i % 3 * H + i / 3) * D), *other = tess_at(c, mixed, i * D);
        TESS_TRY(tess_layer_copy_rows(c, (int64_t)tess_dtype_size(c->dtype), c->T, D, into_mixed ? one : other,
                                      3 * H * D, into_mixed ? other : one, 3 * H * D));
    }
    return TESS_OK;
}

/* Bounds n heads of every token: y = x, or the bound where x is beyond it. With dy, y is the gradient: dy, or 0 where x
 * is beyond the bound. Does nothing without a bound. */
static tess_status clip(const tess_layer_call *c, int64_t n, const void *x, const void *dy, void *y)
{
    const tess_attention_params *p = c->own;
    if (p->clip == 0)
        return TESS_OK;
    return c->kernels->clip(
        c->stream,
        &(tess_clip_args){.x = x, .dy = dy, .y = y, .n = c->T * n * p->head_size, .limit = p->clip, .dtype = c->dtype});
}

tess_status tess_qkv_forward(const tess_layer_call *c, const void *y, const tess_attention_tensors *t)
{
    if (tess_has_latents(c->own))
        return tess_latent_forward(c, y, t);
    const tess_attention_params *p = c->own;
    projections maps = projections_of(c);
    void *const to[] = {p->per_head ? t->mixed : t->q_raw, t->k_raw, p->clip > 0 ? t->v_raw : t->v};
    for (int i = 0; i < maps.n; i++)
        TESS_TRY(tess_linear_forward(c, &maps.linear[i], y, to[i]));
    TESS_TRY(clip(c, p->n_kv_heads, t->v_raw, NULL, t->v));
    return mix(c, t->q_raw, t->mixed, false);
}

tess_status tess_qkv_backward(const tess_layer_call *c, const void *y, const tess_attention_tensors *t, bool inputs,
                              void *dy)
{
    if (tess_has_latents(c->own))
        return tess_latent_backward(c, y, t, inputs, dy);
    projections maps = projections_of(c);
    const tess_attention_params *p = c->own;
    bool normed = tess_norms_heads(p);
    TESS_TRY(mix(c, t->dq, t->mixed, true));
    const void *const from[] = {p->per_head ? t->mixed : normed ? t->q : t->dq, normed ? t->k : t->dk, t->dv};
    tess_linear_grad grads[3];
    for (int i = 0; i < maps.n; i++) {
        TESS_TRY(tess_linear_backward_params(c, &maps.linear[i], y, from[i]));
        grads[i] = (tess_linear_grad){&maps.linear[i], from[i]};
    }
    TESS_TRY(tess_low_rank_backward_joined(c, grads, maps.n, y));
    return dy == NULL ? TESS_OK : tess_linear_backward_inputs(c, grads, maps.n, c->fusing, dy);
}

bool tess_qkv_trains(const tess_layer_call *c)
{
    const tess_attention_params *p = c->own;
    const tess_latent_params *l = &p->latent;
    for (int i = 0; i < p->n_head_norms; i++)
        if (tess_wants(c, p->q_norm.weight + i))
            return true;
    bool trains = tess_linear_trains(c, &p->q) || tess_linear_trains(c, &p->k) || tess_linear_trains(c, &p->v) ||
                  tess_norm_trains(c, &p->q_norm) || tess_norm_trains(c, &p->k_norm) || tess_wants(c, p->sinks);
    if (tess_has_latents(p))
        trains |= tess_linear_trains(c, &l->q_a) || tess_linear_trains(c, &l->kv_a) ||
                  tess_linear_trains(c, &l->kv_b) || tess_norm_trains(c, &l->norm) || tess_norm_trains(c, &l->q_norm);
    return trains;
}

bool tess_qkv_reads_input(const tess_layer_call *c)
{
    const tess_attention_params *p = c->own;
    if (tess_has_latents(p))
        return tess_linear_reads_input(c, &p->q) || tess_linear_reads_input(c, &p->latent.q_a) ||
               tess_linear_reads_input(c, &p->latent.kv_a);
    return tess_linear_reads_input(c, &p->q) || tess_linear_reads_input(c, &p->k) || tess_linear_reads_input(c, &p->v);
}

tess_status tess_sinks_backward(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    int64_t begin = 0, n;
    if (!tess_wants(c, p->sinks))
        return TESS_OK;
    tess_own_range(c, heads_of(p, &p->q), &begin, &n);
    return c->kernels->copy(c->stream, &(tess_copy_args){.to = c->dw[p->sinks],
                                                         .from = t->dsinks + (shares_key_heads(c) ? begin : 0),
                                                         .bytes = n * (int64_t)sizeof(float)});
}

/* ---- Norms and rotation of heads ---- */
static tess_status rotate_heads(const tess_layer_call *c, tess_rope_table table, int64_t n_heads, int64_t stride,
                                void *x, bool inverse)
{
    const tess_attention_params *p = c->own;
    return c->kernels->rope(c->stream, &(tess_rope_args){.x = x,
                                                         .stride = stride,
                                                         .pos = c->inputs[TESS_INPUT_POSITIONS],
                                                         .cos_table = c->ropes[table].cos_table,
                                                         .sin_table = c->ropes[table].sin_table,
                                                         .T = c->T,
                                                         .n_heads = n_heads,
                                                         .D = p->head_size,
                                                         .R = p->rotary,
                                                         .inverse = inverse,
                                                         .interleaved = p->interleaved,
                                                         .dtype = c->dtype});
}

static tess_status rotate(const tess_layer_call *c, void *q, void *k, bool inverse)
{
    const tess_attention_params *p = c->own;
    tess_head_strides stride = tess_head_strides_of(p);
    if (p->q_rope == TESS_ROPE_NONE)
        return TESS_OK;
    if (p->q_rope == p->k_rope && stride.q == stride.kv && k == tess_at(c, q, p->n_heads * p->head_size))
        return rotate_heads(c, p->q_rope, p->n_heads + p->n_kv_heads, stride.q, q, inverse); /* they share rows */
    TESS_TRY(rotate_heads(c, p->q_rope, p->n_heads, stride.q, q, inverse));
    return rotate_heads(c, p->k_rope, p->n_kv_heads, stride.kv, k, inverse);
}

/* Copies head h of n between rows of all heads and t->head, or another tensor of one head. */
static tess_status copy_head(const tess_layer_call *c, int64_t n, int64_t h, const void *all, void *one, bool out)
{
    const tess_attention_params *p = c->own;
    const int64_t D = p->head_size, element = (int64_t)tess_dtype_size(c->dtype);
    const void *from = tess_at(c, all, h * D);
    return out ? tess_layer_copy_rows(c, element, c->T, D, from, n * D, one, D)
               : tess_layer_copy_rows(c, element, c->T, D, one, D, (void *)(uintptr_t)from, n * D);
}

/* y (T, n, D) = the LayerNorm of each of this rank's n heads of x. first: parameter of the first of all heads; stats
 * (n, T) */
static tess_status each_norm_forward(const tess_layer_call *c, const tess_attention_tensors *t, int first,
                                     tess_cut heads, const void *x, tess_norm_stats stats, void *y)
{
    const tess_attention_params *p = c->own;
    int64_t begin, n;
    tess_own_range(c, heads, &begin, &n);
    for (int64_t h = 0; h < n; h++) {
        TESS_TRY(copy_head(c, n, h, x, t->head, true));
        TESS_TRY(c->kernels->layernorm_forward(
            c->stream, &(tess_norm_args){.x = t->head,
                                         .w = c->w[first + begin + h],
                                         .y = t->dhead,
                                         .mean = stats.mean != NULL ? stats.mean + h * c->T : NULL,
                                         .rstd = stats.rstd != NULL ? stats.rstd + h * c->T : NULL,
                                         .T = c->T,
                                         .C = p->head_size,
                                         .eps = (float)c->config->norm_eps,
                                         .dtype = c->dtype}));
        TESS_TRY(copy_head(c, n, h, y, t->dhead, false));
    }
    return TESS_OK;
}

/* The memory for the gradient of head h's norm. Ranks that share the layer exchange it before it is a parameter's. */
static float *norm_gradient(const tess_layer_call *c, const tess_attention_tensors *t, int first, tess_cut heads,
                            int64_t h)
{
    const tess_attention_params *p = c->own;
    float *dw = c->dw[first + h];
    return dw != NULL && tess_is_split(c, heads) ? t->dnorms + h * p->head_size : dw;
}

/* Gathers the gradients of the norms of all heads. */
static tess_status gather_norms(const tess_layer_call *c, const tess_attention_tensors *t, int first, tess_cut heads)
{
    const tess_attention_params *p = c->own;
    const int64_t D = p->head_size, width = heads.size * D;
    int64_t begin, n;
    bool wanted = false;
    for (int64_t h = 0; h < heads.size; h++)
        wanted |= tess_wants(c, first + (int)h);
    if (!wanted || !tess_is_split(c, heads))
        return TESS_OK;
    tess_own_range(c, heads, &begin, &n);
    TESS_TRY(tess_split_gather_gradient(c, (tess_cut){width, heads.unit * D}, t->dnorms + begin * D, 1, width));
    for (int64_t h = 0; h < heads.size; h++)
        if (tess_wants(c, first + (int)h))
            TESS_TRY(c->kernels->copy(c->stream, &(tess_copy_args){.to = c->dw[first + h],
                                                                   .from = t->dnorms + h * D,
                                                                   .bytes = D * (int64_t)sizeof(float)}));
    return TESS_OK;
}

static tess_status each_norm_backward(const tess_layer_call *c, const tess_attention_tensors *t, int first,
                                      tess_cut heads, const void *x, tess_norm_stats stats, const void *dy, void *dx)
{
    const tess_attention_params *p = c->own;
    int64_t begin, n;
    tess_own_range(c, heads, &begin, &n);
    for (int64_t h = 0; h < n; h++) {
        TESS_TRY(copy_head(c, n, h, x, t->head, true));
        TESS_TRY(copy_head(c, n, h, dy, t->dhead, true));
        TESS_TRY(tess_norm_sums(c, true,
                                &(tess_norm_grad_args){.h = t->head,
                                                       .w = c->w[first + begin + h],
                                                       .mean = stats.mean + h * c->T,
                                                       .rstd = stats.rstd + h * c->T,
                                                       .dy = t->dhead,
                                                       .dx = t->dhead,
                                                       .dw = norm_gradient(c, t, first, heads, begin + h),
                                                       .T = c->T,
                                                       .C = p->head_size,
                                                       .dtype = c->dtype}));
        TESS_TRY(copy_head(c, n, h, dx, t->dhead, false));
    }
    return gather_norms(c, t, first, heads);
}

/* q, k = norm(q_raw), norm(k_raw), if the layer has these norms. */
static tess_status norm_heads(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    if (!tess_norms_heads(p))
        return TESS_OK;
    if (p->n_head_norms > 0) {
        const tess_norm_stats q = {.mean = t->q_mean, .rstd = t->q_rstd}, k = {.mean = t->k_mean, .rstd = t->k_rstd};
        TESS_TRY(each_norm_forward(c, t, p->q_norm.weight, heads_of(p, &p->q), t->q_raw, q, t->q));
        return each_norm_forward(c, t, p->k_norm.weight, heads_of(p, &p->k), t->k_raw, k, t->k);
    }
    TESS_TRY(tess_head_norm_forward(c, &p->q_norm, heads_of(p, &p->q), t->q_raw, t->q_rstd, t->q));
    return tess_head_norm_forward(c, &p->k_norm, heads_of(p, &p->k), t->k_raw, t->k_rstd, t->k);
}

tess_status tess_heads_forward(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    TESS_TRY(norm_heads(c, t));
    TESS_TRY(clip(c, p->n_heads, t->q, NULL, t->q));
    TESS_TRY(clip(c, p->n_kv_heads, t->k, NULL, t->k));
    return tess_has_latents(p) ? TESS_OK : rotate(c, t->q, t->k, false);
}

/* Sets the gradients of bounded values to 0. It computes q and k as they were before, in their own places, which
 * nothing reads any more. */
static tess_status clip_backward(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    TESS_TRY(norm_heads(c, t));
    TESS_TRY(clip(c, p->n_heads, t->q, t->dq, t->dq));
    TESS_TRY(clip(c, p->n_kv_heads, t->k, t->dk, t->dk));
    return clip(c, p->n_kv_heads, t->v_raw, t->dv, t->dv);
}

tess_status tess_heads_backward(const tess_layer_call *c, const tess_attention_tensors *t, bool rotated)
{
    const tess_attention_params *p = c->own;
    if (tess_has_latents(p))
        return rotated ? tess_latent_heads_backward(c, t) : TESS_OK;
    if (rotated)
        TESS_TRY(rotate(c, t->dq, t->dk, true));
    if (rotated && p->clip > 0)
        TESS_TRY(clip_backward(c, t));
    if (!tess_norms_heads(p))
        return TESS_OK;
    if (p->n_head_norms > 0) {
        const tess_norm_stats q = {.mean = t->q_mean, .rstd = t->q_rstd}, k = {.mean = t->k_mean, .rstd = t->k_rstd};
        TESS_TRY(each_norm_backward(c, t, p->q_norm.weight, heads_of(p, &p->q), t->q_raw, q, t->dq, t->q));
        return each_norm_backward(c, t, p->k_norm.weight, heads_of(p, &p->k), t->k_raw, k, t->dk, t->k);
    }
    TESS_TRY(tess_head_norm_backward(c, &p->q_norm, heads_of(p, &p->q), t->q_raw, t->q_rstd, t->dq, t->q));
    return tess_head_norm_backward(c, &p->k_norm, heads_of(p, &p->k), t->k_raw, t->k_rstd, t->dk, t->k);
}

/* ---- Attention ---- */
static tess_attention describe(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    tess_head_strides stride = tess_head_strides_of(p);
    int64_t kv_stride = c->batch->cache != NULL ? tess_cached_row(p) : stride.kv;
    return (tess_attention){
        .n_seqs = c->batch->n_seqs,
        .seqs = c->seqs,
        .n_heads = p->n_heads,
        .n_kv_heads = p->n_kv_heads,
        .head_size = p->head_size,
        .window = p->window,
        .scale = p->scale,
        .soft_cap = p->soft_cap,
        .sinks = p->sinks >= 0 ? c->w[p->sinks] : NULL,
        .q = t->q,
        .out = tess_has_latents(p) ? t->wide : t->out,
        .q_stride = stride.q,
        .k_stride = kv_stride,
        .v_stride = kv_stride,
        .out_stride = p->n_heads * p->head_size,
        .page_stride = c->batch->cache != NULL ? c->batch->cache->page_stride : 0,
        .lse = t->lse,
        .dtype = c->dtype,
    };
}

tess_status tess_attention_forward(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    if (shares_key_heads(c))
        return tess_shared_attention_forward(c, t);
    if (p->n_kv_heads == 0) /* there are more ranks than heads, and this rank has none */
        return TESS_OK;
    const int64_t stride = tess_head_strides_of(p).kv;
    TESS_TRY(tess_cache_append(c, t->k, t->v, stride));
    tess_attention attention = describe(c, t);
    if (c->context->n_leaves > 1) {
        TESS_TRY(tess_context_attention_forward(c, &attention, t->k, t->v));
    } else {
        tess_attention_sequences(c, t->k, t->v, stride, 0, c->seqs);
        TESS_TRY(c->kernels->attention_forward(c->stream, &attention));
    }
    return tess_has_latents(p) ? tess_latent_narrow(c, t->wide, t->out) : TESS_OK;
}

tess_status tess_attention_backward(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    if (shares_key_heads(c))
        return tess_shared_attention_backward(c, t);
    if (p->n_kv_heads == 0)
        return TESS_OK;
    tess_head_strides stride = tess_head_strides_of(p);
    if (tess_has_latents(p)) {
        TESS_TRY(tess_latent_widen(c, t->out, t->wide));
        TESS_TRY(tess_latent_widen(c, t->dout, t->dwide));
    }
    tess_attention_grad grad = {.forward = describe(c, t),
                                .dout = tess_has_latents(p) ? t->dwide : t->dout,
                                .dq = t->dq,
                                .dk = t->dk,
                                .dv = t->dv,
                                .dsinks = p->sinks >= 0 ? t->dsinks : NULL,
                                .dout_stride = p->n_heads * p->head_size,
                                .dq_stride = stride.q,
                                .dk_stride = stride.kv,
                                .dv_stride = stride.kv};
    if (c->context->n_leaves > 1)
        return tess_context_attention_backward(c, &grad, t->k, t->v);
    tess_attention_sequences(c, t->k, t->v, stride.kv, 0, c->seqs);
    grad.forward.row_keys = c->context->row_tokens;
    return c->kernels->attention_backward(c->stream, &grad);
}
