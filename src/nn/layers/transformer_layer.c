/* A transformer layer and its backward pass: two parts, attention and feed-forward. All families run this code. The
 * shared expert of a mixture of experts is a feed-forward that is parallel to the experts.
 *
 *     h2 = h  + end(attention(rope(norm(norm(h) Wq)), rope(norm(norm(h) Wk)), norm(h) Wv) Wo)
 *     h3 = h2 + end((silu(norm(h2) Wgate) * norm(h2) Wup) Wdown)
 *
 * If the feed-forward is parallel, h3 = h + both branches, and it reads norm(h). The end of a branch is a norm, a
 * factor, both or nothing. Families omit other terms: norms at the begin of a branch or of q and k, biases, rotary
 * positions and the gate. Norms may be LayerNorm, and the activation a GELU. Shapes use the letters of layers.h: if
 * ranks share the stream, each has R of its T rows. */
#include "nn/layers/transformer_layer.h"

#include "nn/layers/experts.h"
#include "nn/layers/layers.h"

/* Shows what a part adds to the stream. Backward, which computes it again, does not. */
static void show_branch(const tess_layer_call *c, const char *what, const tess_tensors *t)
{
    if (c->dw == NULL)
        tess_layer_show(c, what, t->branch, c->block->hidden_size);
}

/* ---- Forward. Backward repeats the lines of the groups that the layer has dropped. Each line starts from h or from
 * the result of a group before it. ---- */
static tess_status attention_forward(const tess_layer_call *c, const tess_tensors *t, const void *before,
                                     unsigned groups)
{
    const tess_attention_params *p = c->own;
    const tess_attention_tensors *w = t->own;
    void *raw = p->end.norm.weight >= 0 ? w->raw : t->branch;
    const void *y;
    /* Norms of q and k write attention's q and k to work space, which has been reused. So they run again with attention
     * only; backward computes them itself. */
    unsigned rotates = tess_norms_heads(p) ? TESS_GROUP_ATTENTION : TESS_GROUP_ATTENTION_INPUTS;

    /* h (R, C) = the stream that the layer before left;  y = norm(h) */
    /* q (T, H, D), k (T, G, D), v (T, G, D) = y Wq, y Wk, y Wv;  q = rope(norm(q));  k = rope(norm(k)) */
    if (groups & TESS_GROUP_ATTENTION_INPUTS) {
        TESS_TRY(tess_norm_input(c, &p->norm, t, before, w->stats, &y));
        TESS_TRY(tess_qkv_forward(c, y, w));
    }
    if (groups & rotates)
        TESS_TRY(tess_heads_forward(c, w));

    /* out (T, H, D) = softmax(scale q k^T) v, causal, each sequence by itself;  branch = end(out Wo) */
    if (groups & TESS_GROUP_ATTENTION)
        TESS_TRY(tess_attention_forward(c, w));
    if (groups & TESS_GROUP_RESIDUAL && !(p->beside && c->dw != NULL)) { /* a parallel part reads no sum */
        TESS_TRY(tess_linear_forward(c, &p->o, w->out, raw));
        TESS_TRY(tess_branch_finish(c, &p->end, t, raw, w->raw_stats));
    }
    show_branch(c, "attention output", t);
    return TESS_OK;
}

/* branch (R, C) = branch + raw, of a parallel part. */
static tess_status add_to_branch(const tess_layer_call *c, const tess_tensors *t, const void *raw)
{
    int64_t begin, n = tess_own_rows(c, &begin) * c->block->hidden_size;
    return c->kernels->add(c->stream,
                           &(tess_add_args){.a = raw, .b = t->branch, .y = t->branch, .n = n, .dtype = c->dtype});
}

/* A gate, like a router, is no map of a layer: it has no adapter and no fp8, and its sum is in float32. */
static tess_layer_call call_of_gate(const tess_layer_call *c, int64_t T)
{
    tess_layer_call call = *c;
    call.rounds = false;
    call.T = T;
    return call;
}

/* out (T, C) = act Wdown, of which every rank that shares the layer has all rows;  logit (T) = y Wscale */
static tess_status gated_forward(const tess_layer_call *c, const void *y, const tess_feed_forward_tensors *w)
{
    const tess_feed_forward_params *p = c->own;
    const tess_layer_call gate = call_of_gate(c, c->T);
    tess_layer_call whole = *c;
    whole.rows = (tess_cut){c->T, 0};
    whole.split.by_rows = false;
    TESS_TRY(tess_linear_own_forward(&gate, &p->scale, y, w->logit, TESS_F32));
    return tess_linear_forward(&whole, &p->down, w->act, w->out);
}

/* branch (R, C) = branch + sigmoid(logit) out */
static tess_status add_gated(const tess_layer_call *c, const tess_tensors *t)
{
    const tess_feed_forward_tensors *w = t->own;
    int64_t begin, R = tess_own_rows(c, &begin);
    return c->kernels->combine_rows(c->stream, &(tess_combine_rows_args){.rows = tess_own_part(c, w->out),
                                                                         .gate = w->logit + begin,
                                                                         .base = t->branch,
                                                                         .y = t->branch,
                                                                         .T = R,
                                                                         .K = 1,
                                                                         .C = c->block->hidden_size,
                                                                         .sigmoid = true,
                                                                         .dtype = c->dtype});
}

static tess_status feed_forward_forward(const tess_layer_call *c, const tess_tensors *t, const void *before,
                                        unsigned groups)
{
    const tess_feed_forward_params *p = c->own;
    const tess_feed_forward_tensors *w = t->own;
    bool gated = p->gate.weight >= 0, normed = p->end.norm.weight >= 0, again = c->dw != NULL;
    const bool scaled = p->scale.weight >= 0;
    void *raw = normed ? w->raw : t->adds ? t->y : t->branch;
    const void *y = t->y;

    /* h2 (R, C) = h + branch;  y = norm(h2), which backward also reads */
    if (p->shares_norm && !again)
        ; /* attention has left it */
    else if (groups & TESS_GROUP_RESIDUAL)
        TESS_TRY(
            tess_norm_input(c, &p->norm, t, before, p->shares_norm ? (tess_norm_stats){NULL, NULL} : w->stats, &y));
    else if (groups & TESS_GROUP_FEED_FORWARD || (gated && tess_linear_reads_input(c, &p->gate)) ||
             tess_linear_reads_input(c, &p->up) || (scaled && tess_wants(c, p->scale.weight)))
        TESS_TRY(tess_norm_again(c, &p->norm, t, &y));
    if (!(groups & TESS_GROUP_FEED_FORWARD))
        return TESS_OK;

    /* gate, up (T, F) = y Wgate, y Wup;  act (T, F) = silu(gate) * up;  branch = end(act Wdown) */
    if (gated)
        TESS_TRY(tess_linear_forward(c, &p->gate, y, w->gate));
    if (again && !normed && !scaled)
        return tess_linear_forward(c, &p->up, y, w->up);
    TESS_TRY(tess_linear_act_forward(c, &p->up, y, w->gate, w->up, w->act));
    if (scaled) {
        TESS_TRY(gated_forward(c, y, w));
        TESS_TRY(again ? TESS_OK : add_gated(c, t));
    } else {
        TESS_TRY(tess_linear_forward(c, &p->down, w->act, raw));
        TESS_TRY(t->adds ? add_to_branch(c, t, raw) : tess_branch_finish(c, &p->end, t, raw, w->raw_stats));
    }
    show_branch(c, "feed-forward output", t);
    return TESS_OK;
}

/* ---- Backward: the lines of forward from the last to the first. The stream's gradient passes unchanged through both
 * additions, and each branch adds its own part: dh3 -> dh2 -> dh. The weight part computes only the parameters'
 * gradients; its norms also compute the stream's gradient again, in work space that nothing reads. ---- */

/* out (T, C) = sigmoid(logit) dh3, and the gradient of logit */
static tess_status gated_backward(const tess_layer_call *c, const tess_tensors *t, const tess_feed_forward_tensors *w)
{
    const void *dh3;
    TESS_TRY(tess_stream_gather(c, t->dout, c->split.stream, &dh3));
    TESS_TRY(c->kernels->combine_backward(c->stream, &(tess_combine_grad_args){.dy = dh3,
                                                                               .rows = w->out,
                                                                               .gate = w->logit,
                                                                               .drows = w->out,
                                                                               .dgate = w->logit,
                                                                               .n = c->T,
                                                                               .C = c->block->hidden_size,
                                                                               .sigmoid = true,
                                                                               .dtype = c->dtype}));
    return c->kernels->convert(
        c->stream, &(tess_convert_args){.x = w->logit, .from = TESS_F32, .y = w->dlogit, .to = c->dtype, .n = c->T});
}

/* dWscale = y^T dlogit;  din (R, C) = din + dlogit Wscale^T */
static tess_status scale_backward(const tess_layer_call *c, const void *y, const tess_tensors *t, bool inputs)
{
    const tess_feed_forward_params *p = c->own;
    const tess_feed_forward_tensors *w = t->own;
    int64_t begin, R = tess_own_rows(c, &begin);
    const tess_layer_call all = call_of_gate(c, c->T), own = call_of_gate(c, R);
    TESS_TRY(tess_linear_own_backward_params(&all, &p->scale, y, w->dlogit, false));
    if (!inputs)
        return TESS_OK;
    TESS_TRY(tess_linear_own_backward_input(&own, &p->scale, tess_at(c, w->dlogit, begin), t->branch));
    return c->kernels->add(
        c->stream,
        &(tess_add_args){.a = t->din, .b = t->branch, .y = t->din, .n = R * c->block->hidden_size, .dtype = c->dtype});
}

/* The stream's gradient is computed in any case: attention reads dh2. */
static tess_status feed_forward_backward(const tess_layer_call *c, const tess_tensors *t, bool inputs,
                                         TESS_UNUSED bool want_dh)
{
    const tess_feed_forward_params *p = c->own;
    const tess_feed_forward_tensors *w = t->own;
    void *act = t->deferred || tess_linear_reads_input(c, &p->down) ? w->act : NULL; /* (T, F) */
    const void *draw = NULL, *y;                                                     /* (T, C) */
    bool gated = p->gate.weight >= 0;

    /* draw = end'(dh3);  dact (T, F) = draw Wdown^T;  dgate, dup (T, F), which overwrite gate, up;
     * dWdown = act^T draw */
    if (p->scale.weight < 0)
        TESS_TRY(tess_branch_gradient(c, &p->end, t, w->raw, w->raw_stats, &draw));
    else if (inputs)
        TESS_TRY(gated_backward(c, t, w));
    draw = p->scale.weight < 0 ? draw : w->out;
    if (inputs)
        TESS_TRY(tess_linear_act_backward(c, &p->down, draw, w->gate, w->up, act, c->fusing));
    TESS_TRY(tess_linear_backward_params(c, &p->down, act, draw));

    /* dWgate, dWup = y^T dgate, y^T dup;  dy = dgate Wgate^T + dup Wup^T */
    y = p->norm.weight >= 0 || tess_is_split(c, c->rows) ? t->y : t->in;
    if (c->block->parts[c->block->n_parts - 1].own != p) /* a later part has overwritten what forward left in y */
        TESS_TRY(tess_norm_again(c, &p->norm, t, &y));
    const tess_linear_grad terms[] = {{&p->gate, w->gate}, {&p->up, w->up}};
    for (int i = gated ? 0 : 1; i < 2; i++)
        TESS_TRY(tess_linear_backward_params(c, terms[i].linear, y, terms[i].dy));
    if (inputs)
        TESS_TRY(tess_linear_backward_inputs(c, gated ? terms : terms + 1, gated ? 2 : 1, c->fusing,
                                             p->shares_norm ? t->din : t->dy));
    if (p->scale.weight >= 0)
        TESS_TRY(scale_backward(c, y, t, inputs));

    /* dh2 = dh3 + norm'(dy) at h2 */
    if (p->shares_norm || (!inputs && !tess_norm_trains(c, &p->norm)))
        return TESS_OK;
    return tess_norm_backward(c, &p->norm, t->in, w->stats, t->dy, inputs ? t->dsum : NULL,
                              inputs ? t->din : t->branch);
}

static tess_status attention_backward(const tess_layer_call *c, const tess_tensors *t, bool inputs, bool want_dh)
{
    const tess_attention_params *p = c->own;
    const tess_attention_tensors *w = t->own;
    const void *draw, *y = NULL; /* (T, C) */
    int64_t begin;
    bool want_dy = want_dh || tess_norm_trains(c, &p->norm);

    /* draw = end'(dh2);  dWo = out^T draw;  dout (T, H, D) = draw Wo^T */
    if (tess_qkv_reads_input(c))
        TESS_TRY(tess_norm_again(c, &p->norm, t, &y));
    TESS_TRY(tess_branch_gradient(c, &p->end, t, w->raw, w->raw_stats, &draw));
    TESS_TRY(tess_linear_backward_params(c, &p->o, w->out, draw));
    if (!want_dy && !tess_qkv_trains(c))
        return TESS_OK;
    if (inputs)
        TESS_TRY(tess_linear_backward_input(c, &p->o, draw, w->dout));

    /* dq (T, H, D), dk (T, G, D), dv (T, G, D) of attention, then back through rope and the norms of q and k */
    if (inputs && tess_norms_heads(p))
        TESS_TRY(tess_heads_forward(c, w));
    if (inputs)
        TESS_TRY(tess_attention_backward(c, w));
    TESS_TRY(tess_heads_backward(c, w, inputs));
    TESS_TRY(tess_sinks_backward(c, w));

    /* dWq, dWk, dWv = y^T dq, y^T dk, y^T dv;  dy = dq Wq^T + dk Wk^T + dv Wv^T */
    TESS_TRY(tess_qkv_backward(c, y, w, inputs, inputs && want_dy ? t->dy : NULL));
    if (!want_dy)
        return TESS_OK;

    /* dh = dh2 + norm'(dy) at h */
    const void *dresidual = p->lends_norm ? t->dout : t->dsum;
    if (inputs && p->lends_norm)
        TESS_TRY(c->kernels->add(c->stream, &(tess_add_args){.a = t->dy,
                                                             .b = t->dsum,
                                                             .y = t->dy,
                                                             .n = tess_own_rows(c, &begin) * c->block->hidden_size,
                                                             .dtype = c->dtype}));
    TESS_TRY(tess_norm_backward(c, &p->norm, t->in, w->stats, t->dy, inputs ? dresidual : NULL,
                                inputs ? t->din : t->branch));
    if (inputs)
        tess_layer_show(c, "input gradient", t->din, c->block->hidden_size);
    return TESS_OK;
}

/* ---- Tensors ---- */
/* Q_ROW, K_ROW: without norms of q and k, q, k and v are parts of one row, and the others have no memory. */
enum {
    Q = TESS_OWN_DIMS,
    H,
    Q_ROW,
    K_ROW,
    NORMED_Q,
    NORMED_K,
    NORMED_H,
    NORMED_G,
    RAW,
    RAW_ONE,
    Q_LATENT,
    Q_LATENT_ONE,
    LATENT,
    LATENT_ONE,
    SHARED,
    WIDE,
    KV,
    SINKS,
    MIXED,
    MEAN_H,
    MEAN_G,
    ONE_HEAD,
    CLIPPED,
    HEAD_NORMS
};

/* The sizes of what a norm at the branch's end needs. */
static void end_sizes(const tess_branch_end *end, int64_t sizes[TESS_N_DIMS], int raw, int one)
{
    const bool normed = end->norm.weight >= 0;
    sizes[raw] = normed ? sizes[TESS_DIM_C] : -1;
    sizes[one] = normed ? 1 : -1;
}

static void attention_sizes(const tess_model *model, const void *own, int64_t sizes[TESS_N_DIMS])
{
    const tess_attention_params *p = own;
    const int64_t q = p->n_heads * p->head_size, k = p->n_kv_heads * p->head_size;
    const bool normed = tess_norms_heads(p), latent = tess_has_latents(p);
    sizes[Q] = latent ? p->n_heads * p->latent.value : q;
    sizes[H] = p->n_heads;
    sizes[MIXED] = p->per_head ? 3 * q : -1;
    sizes[Q_ROW] = normed || latent ? q : q + 2 * k;
    sizes[K_ROW] = normed || latent ? k : -1;
    sizes[NORMED_Q] = normed ? q : -1;
    sizes[NORMED_K] = normed ? k : -1;
    sizes[LATENT] = latent ? p->latent.kv_a.n_out : -1;
    sizes[LATENT_ONE] = latent ? 1 : -1;
    sizes[Q_LATENT] = latent && p->latent.q_a.weight >= 0 ? p->q.n_in : -1;
    sizes[Q_LATENT_ONE] = latent && p->latent.q_a.weight >= 0 ? 1 : -1;
    sizes[SHARED] = latent ? p->rotary : -1;
    sizes[WIDE] = latent ? q : -1;
    sizes[KV] = latent ? p->latent.kv_b.n_out : -1;
    sizes[NORMED_H] = !normed ? -1 : p->wide_norms ? 1 : p->n_heads;
    sizes[NORMED_G] = !normed ? -1 : p->wide_norms ? 1 : p->n_kv_heads;
    sizes[MEAN_H] = p->n_head_norms > 0 ? p->n_heads : -1;
    sizes[MEAN_G] = p->n_head_norms > 0 ? p->n_kv_heads : -1;
    sizes[ONE_HEAD] = p->n_head_norms > 0 ? p->head_size : -1;
    sizes[HEAD_NORMS] = p->n_head_norms > 0 && model->part.tp_degree > 1 ? p->q.out.size : -1;
    sizes[CLIPPED] = p->clip > 0 ? k : -1;
    sizes[SINKS] = p->sinks >= 0 ? p->q.out.size / p->head_size : -1;
    end_sizes(&p->end, sizes, RAW, RAW_ONE);
}

static void *column(void *row, int64_t first, size_t element)
{
    return row != NULL ? (char *)row + (size_t)first * element : NULL;
}

static void attention_views(const void *own, size_t element, void *tensors)
{
    const tess_attention_params *p = own;
    tess_attention_tensors *t = tensors;
    const int64_t q = p->n_heads * p->head_size, k = p->n_kv_heads * p->head_size;
    if (tess_norms_heads(p))
        return;
    t->q = t->q_raw;
    t->k = t->k_raw;
    if (tess_has_latents(p))
        return;
    t->k = t->k_raw = column(t->q_raw, q, element);
    t->v = column(t->q_raw, q + k, element);
    t->dk = column(t->dq, q, element);
    t->dv = column(t->dq, q + k, element);
}

/* clang-format off */
enum {
    INPUTS = TESS_GROUP_ATTENTION_INPUTS, ATTENTION = TESS_GROUP_ATTENTION, RESIDUAL = TESS_GROUP_RESIDUAL,
    FEED = TESS_GROUP_FEED_FORWARD, SAVED = TESS_TENSOR_SAVED, RESULT = SAVED | TESS_TENSOR_FORWARD,
    WORK = TESS_TENSOR_FORWARD | TESS_TENSOR_BACKWARD, BACKWARD = TESS_TENSOR_BACKWARD, LEFT = TESS_TENSOR_WEIGHTS
};
#define AT(member) offsetof(tess_attention_tensors, member)
static const tess_tensor_row attention_tensors[] = {
    {AT(stats.rstd), TESS_DIM_R, TESS_DIM_ONE,  true,  SAVED,           INPUTS},
    {AT(stats.mean), TESS_DIM_R, TESS_DIM_MEAN, true,  SAVED,           INPUTS},
    {AT(q_raw),      TESS_DIM_T, Q_ROW,         false, RESULT,          INPUTS},
    {AT(k_raw),      TESS_DIM_T, K_ROW,         false, RESULT,          INPUTS},
    {AT(v),          TESS_DIM_T, K_ROW,         false, RESULT,          INPUTS},
    {AT(q_rstd),     TESS_DIM_T, NORMED_H,      true,  SAVED,           INPUTS},
    {AT(k_rstd),     TESS_DIM_T, NORMED_G,      true,  SAVED,           INPUTS},
    {AT(v_raw),      TESS_DIM_T, CLIPPED,       false, RESULT,          INPUTS},
    {AT(q_mean),     TESS_DIM_T, MEAN_H,        true,  SAVED,           INPUTS},
    {AT(k_mean),     TESS_DIM_T, MEAN_G,        true,  SAVED,           INPUTS},
    {AT(head),       TESS_DIM_T, ONE_HEAD,      false, WORK,            0},
    {AT(dhead),      TESS_DIM_T, ONE_HEAD,      false, WORK,            0},
    {AT(dnorms),     TESS_DIM_ONE, HEAD_NORMS,  true,  BACKWARD | LEFT, 0},
    {AT(out),        TESS_DIM_T, Q,             false, RESULT,          ATTENTION},
    {AT(lse),        TESS_DIM_T, H,             true,  SAVED,           ATTENTION},
    {AT(q),          TESS_DIM_T, NORMED_Q,      false, WORK,            0},
    {AT(k),          TESS_DIM_T, NORMED_K,      false, WORK,            0},
    {AT(dout),       TESS_DIM_T, Q,             false, BACKWARD,        0},
    {AT(dq),         TESS_DIM_T, Q_ROW,         false, BACKWARD | LEFT, 0},
    {AT(dk),         TESS_DIM_T, K_ROW,         false, BACKWARD | LEFT, 0},
    {AT(dv),         TESS_DIM_T, K_ROW,         false, BACKWARD | LEFT, 0},
    {AT(dsinks),     TESS_DIM_ONE, SINKS,       true,  BACKWARD | LEFT, 0},
    {AT(mixed),      TESS_DIM_T, MIXED,         false, WORK | LEFT,     0},
    {AT(raw),        TESS_DIM_R, RAW,           false, RESULT,          RESIDUAL},
    {AT(raw_stats.rstd), TESS_DIM_R, RAW_ONE,   true,  SAVED,           RESIDUAL},
    {AT(q_latent),   TESS_DIM_T, Q_LATENT,      false, RESULT,          INPUTS},
    {AT(latent),     TESS_DIM_T, LATENT,        false, RESULT,          INPUTS},
    {AT(q_latent_rstd), TESS_DIM_T, Q_LATENT_ONE, true, SAVED,          INPUTS},
    {AT(latent_rstd), TESS_DIM_T, LATENT_ONE,   true,  SAVED,           INPUTS},
    {AT(q_normed),   TESS_DIM_T, Q_LATENT,      false, WORK,            0},
    {AT(normed),     TESS_DIM_T, LATENT,        false, WORK,            0},
    {AT(shared),     TESS_DIM_T, SHARED,        false, WORK,            0},
    {AT(kv),         TESS_DIM_T, KV,            false, WORK,            0},
    {AT(wide),       TESS_DIM_T, WIDE,          false, WORK,            0},
    {AT(dwide),      TESS_DIM_T, WIDE,          false, BACKWARD,        0},
    {AT(dkv),        TESS_DIM_T, KV,            false, BACKWARD | LEFT, 0},
    {AT(dshared),    TESS_DIM_T, SHARED,        false, BACKWARD | LEFT, 0},
    {AT(dnormed),    TESS_DIM_T, LATENT,        false, BACKWARD | LEFT, 0},
    {AT(dq_normed),  TESS_DIM_T, Q_LATENT,      false, BACKWARD | LEFT, 0},
    {AT(dlatent),    TESS_DIM_T, LATENT,        false, BACKWARD | LEFT, 0},
    {AT(dq_latent),  TESS_DIM_T, Q_LATENT,      false, BACKWARD | LEFT, 0},
};
#undef AT

#define AT(member) offsetof(tess_feed_forward_tensors, member)
enum { F = TESS_OWN_DIMS, GATE, RAW_OUT, RAW_OUT_ONE, SCALED, SCALED_ONE };
static const tess_tensor_row feed_forward_tensors[] = {
    {AT(stats.rstd), TESS_DIM_R, TESS_DIM_ONE,  true,  SAVED,           RESIDUAL},
    {AT(stats.mean), TESS_DIM_R, TESS_DIM_MEAN, true,  SAVED,           RESIDUAL},
    {AT(gate),       TESS_DIM_T, GATE,          false, RESULT | TESS_TENSOR_OVERWRITTEN, FEED},
    {AT(up),         TESS_DIM_T, F,             false, RESULT | TESS_TENSOR_OVERWRITTEN, FEED},
    {AT(act),        TESS_DIM_T, F,             false, WORK | LEFT,     0},
    {AT(raw),        TESS_DIM_R, RAW_OUT,       false, RESULT,          FEED},
    {AT(raw_stats.rstd), TESS_DIM_R, RAW_OUT_ONE, true, SAVED,          FEED},
    {AT(out),        TESS_DIM_T, SCALED,        false, RESULT | TESS_TENSOR_OVERWRITTEN, FEED},
    {AT(logit),      TESS_DIM_T, SCALED_ONE,    true,  RESULT | TESS_TENSOR_OVERWRITTEN, FEED},
    {AT(dlogit),     TESS_DIM_T, SCALED_ONE,    false, BACKWARD | LEFT, 0},
};
#undef AT
/* clang-format on */

static void feed_forward_sizes(TESS_UNUSED const tess_model *model, const void *own, int64_t sizes[TESS_N_DIMS])
{
    const tess_feed_forward_params *p = own;
    sizes[F] = p->size;
    sizes[GATE] = p->gate.weight >= 0 ? p->size : -1;
    end_sizes(&p->end, sizes, RAW_OUT, RAW_OUT_ONE);
    sizes[SCALED] = p->scale.weight >= 0 ? sizes[TESS_DIM_C] : -1;
    sizes[SCALED_ONE] = p->scale.weight >= 0 ? 1 : -1;
}

/* ---- Work space and costs ---- */
static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Head norms gather q before the norm and its gradient from attention, and compute the gradient for the projection.
 * Attention with shared key heads gathers all heads and their gradients. */
static void attention_room(const void *own, tess_part_room *room)
{
    const tess_attention_params *p = own;
    const int64_t q = p->q.out.size, kv = p->k.out.size;
    room->width = larger(room->width, (p->n_heads + 2 * p->n_kv_heads) * p->head_size);
    if (tess_has_latents(p)) { /* all of y's maps together, and the widest map of a latent */
        const int64_t maps = q + p->latent.q_a.n_out + p->latent.kv_a.n_out + p->rotary, wide = p->latent.kv_b.out.size;
        room->width = larger(room->width, larger(maps, p->latent.kv_b.n_out));
        room->shared = larger(room->shared, larger(maps, wide));
        room->operands = larger(room->operands, larger(larger(q, wide), 2 * q / p->head_size * p->rotary));
    }
    room->shared = larger(room->shared, q + 2 * kv);
    room->operands = larger(room->operands, tess_norms_heads(p) ? 3 * q : 0);
    room->operands = larger(room->operands, tess_shares_key_heads(p) ? 4 * (q + kv) + q / p->head_size : 0);
    room->rstd = larger(room->rstd, q / p->head_size);
}

static void feed_forward_room(const void *own, tess_part_room *room)
{
    const tess_feed_forward_params *p = own;
    const int n = p->gate.weight >= 0 ? 2 : 1;
    room->width = larger(room->width, n * p->size);
    room->shared = larger(room->shared, n * p->down.in.size);
    room->activated = larger(room->activated, p->size);
    room->sums |= p->down.adapter.rank > 0;
}

/* Time grows with the length of a sequence in attention alone. The attention's output projection computes the stream
 * between attention and feed-forward. */
tess_group_cost tess_layer_group_cost(const tess_block *block, tess_layer_group group, double element, double context,
                                      int copies)
{
    const tess_attention_params *a = tess_block_find(block, &tess_attention_part);
    const tess_feed_forward_params *f = tess_block_find(block, &tess_feed_forward_part);
    const double C = (double)block->hidden_size;
    const tess_experts_params *experts = tess_block_find(block, &tess_experts_part);
    if (group == TESS_GROUP_FEED_FORWARD) {
        const tess_group_cost routed =
            experts != NULL ? tess_experts_cost(experts, C, element) : (tess_group_cost){0, 0};
        const double rows = f != NULL ? (double)f->up.out.size * (f->gate.weight >= 0 ? 2 : 1) : 0;
        /* the product before a norm at the end, or before a gate */
        const double raw = f != NULL && (f->end.norm.weight >= 0 || f->scale.weight >= 0) ? C : 0;
        return (tess_group_cost){routed.bytes + (rows + raw) * element,
                                 routed.flops + 2 * C * rows + 2 * raw * (f != NULL ? (double)f->up.out.size : 0)};
    }
    if (a == NULL)
        return (tess_group_cost){0, 0};
    const double Q_all = (double)a->q.out.size,
                 rows = Q_all + 2 * (double)(tess_has_latents(a) ? a->q.out.size : a->k.out.size),
                 keys = a->window > 0 && (double)a->window < context ? (double)a->window : context / 2;
    if (group == TESS_GROUP_ATTENTION_INPUTS)
        return (tess_group_cost){(rows + (a->clip > 0 ? (double)a->k.out.size : 0)) * element, 2 * C * rows};
    if (group == TESS_GROUP_RESIDUAL)
        return (tess_group_cost){(a->end.norm.weight >= 0 ? 2 : 1) * C * element * copies, 2 * C * Q_all};
    return (tess_group_cost){Q_all * element + Q_all / (double)a->head_size * (double)sizeof(float), 4 * Q_all * keys};
}

/* Each head takes two products of length T in forward and four in backward; they are not halved for the causal mask,
 * but limited to the layer's window. */
static double attention_flops(const void *own, int64_t seq_len)
{
    const tess_attention_params *p = own;
    const bool windowed = p->window > 0 && p->window < seq_len;
    return 12.0 * (double)(p->n_heads * p->head_size) * (double)(windowed ? p->window : seq_len);
}

#define MAP(member) offsetof(tess_attention_params, member)
static const size_t attention_maps[] = {
    MAP(q), MAP(k), MAP(v), MAP(qkv), MAP(o), MAP(latent.q_a), MAP(latent.kv_a), MAP(latent.shared), MAP(latent.kv_b)};
#undef MAP
#define MAP(member) offsetof(tess_feed_forward_params, member)
static const size_t feed_forward_maps[] = {MAP(gate), MAP(up), MAP(down)};
#undef MAP

const tess_part tess_attention_part = {
    .name = "attention",
    .own_bytes = sizeof(tess_attention_params),
    .work_bytes = sizeof(tess_attention_tensors),
    .tensors = attention_tensors,
    .n_tensors = sizeof(attention_tensors) / sizeof(attention_tensors[0]),
    .maps = attention_maps,
    .n_maps = sizeof(attention_maps) / sizeof(attention_maps[0]),
    .sizes = attention_sizes,
    .place_views = attention_views,
    .room = attention_room,
    .forward = attention_forward,
    .backward = attention_backward,
    .flops = attention_flops,
};

const tess_part tess_feed_forward_part = {
    .name = "feed-forward",
    .group = RESIDUAL,
    .own_bytes = sizeof(tess_feed_forward_params),
    .work_bytes = sizeof(tess_feed_forward_tensors),
    .tensors = feed_forward_tensors,
    .n_tensors = sizeof(feed_forward_tensors) / sizeof(feed_forward_tensors[0]),
    .maps = feed_forward_maps,
    .n_maps = sizeof(feed_forward_maps) / sizeof(feed_forward_maps[0]),
    .sizes = feed_forward_sizes,
    .room = feed_forward_room,
    .forward = feed_forward_forward,
    .backward = feed_forward_backward,
};
