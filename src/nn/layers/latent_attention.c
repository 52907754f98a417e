/* Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): a token's keys and values follow from a short vector,
 * the latent, and from one rotated key that all heads share. Attention itself is that of other models.
 *
 *     q (T, H, N + R) = y Wq, or norm(y Wqa) Wqb;   latent (T, L), shared (T, R) = y Wkva
 *     k (T, H, N + R) = (norm(latent) Wkvb, rope(shared));   v (T, H, V) = norm(latent) Wkvb
 *
 * N, R: channels of a head of q and k without and with positions. V: channels of a head of v. D = N + R >= V. Kernels
 * of attention take heads of one size, so v and the output have D channels inside, of which the last D - V are 0. That
 * costs (2 D) / (D + V) of the operations, and D / V of the bytes of v and the output: 1.2 and 1.5 with D = 192 and
 * V = 128. A cache holds k and v. It grows by 2 H D elements for each token; latents would take L + R.
 *
 * Ranks that share the layer divide the heads: the outputs of Wq (or Wqb) and Wkvb, and the inputs of o. All of them
 * compute both latents, the shared key and the gradients of these. */
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

static const float latent_eps = 1e-6f; /* transformers passes no other one to these norms */

/* ---- Pieces ---- */
static tess_status norm_latent(const tess_layer_call *c, const tess_norm *norm, int64_t n, const void *x, float *rstd,
                               void *y)
{
    return c->kernels->rmsnorm_forward(c->stream, &(tess_norm_args){.x = x,
                                                                    .w = c->w[norm->weight],
                                                                    .y = y,
                                                                    .rstd = rstd,
                                                                    .T = c->T,
                                                                    .C = n,
                                                                    .eps = latent_eps,
                                                                    .dtype = c->dtype});
}

static tess_status rotate(const tess_layer_call *c, tess_rope_args args, bool inverse)
{
    const tess_attention_params *p = c->own;
    args.pos = c->inputs[TESS_INPUT_POSITIONS];
    args.cos_table = c->ropes[p->q_rope].cos_table;
    args.sin_table = c->ropes[p->q_rope].sin_table;
    args.T = c->T;
    args.R = p->rotary;
    args.inverse = inverse;
    args.interleaved = p->interleaved;
    args.dtype = c->dtype;
    return c->kernels->rope(c->stream, &args);
}

static tess_status rotate_queries(const tess_layer_call *c, void *q, bool inverse)
{
    const tess_attention_params *p = c->own;
    const int64_t H = p->n_heads, D = p->head_size;
    return rotate(c, (tess_rope_args){.x = q, .stride = H * D, .n_heads = H, .D = D, .first = p->latent.plain},
                  inverse);
}

static tess_status rotate_shared(const tess_layer_call *c, void *k, bool inverse)
{
    const tess_attention_params *p = c->own;
    return rotate(c, (tess_rope_args){.x = k, .stride = p->rotary, .n_heads = 1, .D = p->rotary}, inverse);
}

/* Joins the channels of heads, whose number and types are those of the call. */
static tess_status join(const tess_layer_call *c, tess_join_heads_args args)
{
    const tess_attention_params *p = c->own;
    args.T = c->T;
    args.H = p->n_heads;
    args.dtype = c->dtype;
    return c->kernels->join_heads(c->stream, &args);
}

/* ---- Forward ---- */
/* Whether q follows from a latent of its own. */
static bool has_query_latent(const tess_attention_params *p)
{
    return p->latent.q_a.weight >= 0;
}

tess_status tess_latent_forward(const tess_layer_call *c, const void *y, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    const int64_t D = p->head_size, N = p->latent.plain, V = p->latent.value, L = p->latent.kv_a.n_out;
    const void *from = y;
    if (has_query_latent(p)) {
        TESS_TRY(tess_linear_forward(c, &p->latent.q_a, y, t->q_latent));
        TESS_TRY(norm_latent(c, &p->latent.q_norm, p->q.n_in, t->q_latent, t->q_latent_rstd, t->q_normed));
        from = t->q_normed;
    }
    TESS_TRY(tess_linear_forward(c, &p->q, from, t->q));
    TESS_TRY(rotate_queries(c, t->q, false));

    TESS_TRY(tess_linear_forward(c, &p->latent.kv_a, y, t->latent));
    TESS_TRY(tess_linear_forward(c, &p->latent.shared, y, t->shared));
    TESS_TRY(rotate_shared(c, t->shared, false));
    TESS_TRY(norm_latent(c, &p->latent.norm, L, t->latent, t->latent_rstd, t->normed));
    TESS_TRY(tess_linear_forward(c, &p->latent.kv_b, t->normed, t->kv));
    TESS_TRY(
        join(c, (tess_join_heads_args){
                    .a = t->kv, .a_stride = N + V, .A = N, .shared = t->shared, .S = p->rotary, .y = t->k, .D = D}));
    return join(c, (tess_join_heads_args){.a = tess_at(c, t->kv, N), .a_stride = N + V, .A = V, .y = t->v, .D = D});
}

/* Computes to (T, H, D) = from (T, H, V), padded. */
tess_status tess_latent_widen(const tess_layer_call *c, const void *from, void *to)
{
    const tess_attention_params *p = c->own;
    const int64_t V = p->latent.value;
    return join(c, (tess_join_heads_args){.a = from, .a_stride = V, .A = V, .y = to, .D = p->head_size});
}

/* Computes to (T, H, V) = the first channels of from (T, H, D). */
tess_status tess_latent_narrow(const tess_layer_call *c, const void *from, void *to)
{
    const tess_attention_params *p = c->own;
    const int64_t V = p->latent.value;
    return join(c, (tess_join_heads_args){.a = from, .a_stride = p->head_size, .A = V, .y = to, .D = V});
}

/* ---- Backward ---- */
/* The gradients of a norm of a latent and of the map after it, which reads the norm's output. dout: the gradient of
 * that map's output; dnormed, dx: those of the norm's output and input */
static tess_status map_backward(const tess_layer_call *c, const tess_linear *map, const tess_norm *norm, const void *x,
                                const float *rstd, void *normed, const void *dout, void *dnormed, void *dx, bool inputs)
{
    tess_layer_call whole = *c; /* a latent has all rows on every rank, as the stream may have not */
    whole.rows = (tess_cut){c->T, 0};
    whole.split.by_rows = false;
    if (tess_linear_reads_input(c, map))
        TESS_TRY(norm_latent(c, norm, map->n_in, x, NULL, normed));
    TESS_TRY(tess_linear_backward_params(c, map, normed, dout));
    if (inputs)
        TESS_TRY(tess_linear_backward_inputs(&whole, &(tess_linear_grad){map, dout}, 1, c->fusing, dnormed));
    return tess_norm_sums(c, false,
                          &(tess_norm_grad_args){.h = x,
                                                 .w = c->w[norm->weight],
                                                 .rstd = rstd,
                                                 .dy = dnormed,
                                                 .dx = dx,
                                                 .dw = c->dw[norm->weight],
                                                 .T = c->T,
                                                 .C = map->n_in,
                                                 .dtype = c->dtype});
}

/* dshared (T, R) = the sum over all heads of their last channels of dk. */
static tess_status sum_rotary(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    const int64_t D = p->head_size, R = p->rotary, H = p->q.out.size / D;
    tess_sum_heads_args args = {
        .x = tess_at(c, t->dk, D - R), .stride = D, .y = t->dshared, .T = c->T, .H = H, .C = R, .dtype = c->dtype};
    if (tess_is_split(c, p->q.out)) {
        void *mine = c->split.operands, *all = tess_at(c, mine, c->T * p->n_heads * R);
        TESS_TRY(join(c, (tess_join_heads_args){.a = args.x, .a_stride = D, .A = R, .y = mine, .D = R}));
        TESS_TRY(tess_split_gather(c, (tess_cut){H * R, R}, tess_dtype_size(c->dtype), mine, all, H * R));
        args.x = all;
        args.stride = R;
    }
    return c->kernels->sum_heads(c->stream, &args);
}

/* The gradients of attention's q, k and v become those of q before its rotation, of Wkvb's output and of `shared`. */
tess_status tess_latent_heads_backward(const tess_layer_call *c, const tess_attention_tensors *t)
{
    const tess_attention_params *p = c->own;
    const int64_t D = p->head_size, N = p->latent.plain, V = p->latent.value;
    TESS_TRY(rotate_queries(c, t->dq, true));
    TESS_TRY(
        join(c, (tess_join_heads_args){
                    .a = t->dk, .a_stride = D, .A = N, .b = t->dv, .b_stride = D, .B = V, .y = t->dkv, .D = N + V}));
    TESS_TRY(sum_rotary(c, t));
    return rotate_shared(c, t->dshared, true);
}

tess_status tess_latent_backward(const tess_layer_call *c, const void *y, const tess_attention_tensors *t, bool inputs,
                                 void *dy)
{
    const tess_attention_params *p = c->own;
    tess_linear_grad grads[] = {has_query_latent(p) ? (tess_linear_grad){&p->latent.q_a, t->dq_latent}
                                                    : (tess_linear_grad){&p->q, t->dq},
                                {&p->latent.kv_a, t->dlatent},
                                {&p->latent.shared, t->dshared}};
    TESS_TRY(map_backward(c, &p->latent.kv_b, &p->latent.norm, t->latent, t->latent_rstd, t->normed, t->dkv, t->dnormed,
                          t->dlatent, inputs));
    if (has_query_latent(p))
        TESS_TRY(map_backward(c, &p->q, &p->latent.q_norm, t->q_latent, t->q_latent_rstd, t->q_normed, t->dq,
                              t->dq_normed, t->dq_latent, inputs));
    for (int i = 0; i < 3; i++)
        TESS_TRY(tess_linear_backward_params(c, grads[i].linear, y, grads[i].dy));
    if (dy == NULL)
        return TESS_OK;
    if (!has_query_latent(p)) /* ranks divide the first of the three */
        return tess_linear_backward_inputs(c, grads, 3, c->fusing, dy);
    tess_layer_call own = *c;
    int64_t begin;
    own.T = tess_own_rows(c, &begin);
    for (int i = 0; i < 3; i++)
        grads[i].dy = tess_at(c, grads[i].dy, begin * tess_linear_row(grads[i].linear));
    return tess_linear_backward_inputs(&own, grads, 3, c->fusing, dy);
}
