/* A transformer layer and its backward pass: two parts, attention and feed-forward. All families run this code.
 *
 *     h2 = h  + attention(rope(norm(norm(h) Wq)), rope(norm(norm(h) Wk)), norm(h) Wv) Wo
 *     h3 = h2 + (silu(norm(h2) Wgate) * norm(h2) Wup) Wdown
 *
 * Families omit some terms: norms of q and k (all but Qwen3), biases, and in GPT-2 rotary positions and the gate.
 * GPT-2's activation is a GELU and its norms are LayerNorm. Shapes use the letters of layers.h: if ranks share the
 * stream, each has R of its T rows. */
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
    const tess_block *p = c->block;
    /* Norms of q and k write attention's q and k to work space, which has been reused. So they run again with attention
     * only; backward computes them itself. */
    unsigned rotates = tess_block_norms_heads(p) ? TESS_GROUP_ATTENTION : TESS_GROUP_ATTENTION_INPUTS;

    /* h (R, C) = the stream that the layer before left;  y = norm(h) */
    /* q (T, H, D), k (T, G, D), v (T, G, D) = y Wq, y Wk, y Wv;  q = rope(norm(q));  k = rope(norm(k)) */
    if (groups & TESS_GROUP_ATTENTION_INPUTS) {
        TESS_TRY(tess_norm_input(c, &p->input_norm, t, before, t->h, t->input_stats));
        TESS_TRY(tess_qkv_forward(c, t->y, t));
    }
    if (groups & rotates)
        TESS_TRY(tess_heads_forward(c, t));

    /* out (T, H, D) = softmax(q k^T / sqrt(D)) v, causal, each sequence by itself;  branch = out Wo */
    if (groups & TESS_GROUP_ATTENTION)
        TESS_TRY(tess_attention_forward(c, t));
    if (groups & TESS_GROUP_RESIDUAL)
        TESS_TRY(tess_linear_forward(c, &p->o, t->out, t->branch));
    show_branch(c, "attention output", t);
    return TESS_OK;
}

static tess_status feed_forward_forward(const tess_layer_call *c, const tess_tensors *t, const void *before,
                                        unsigned groups)
{
    const tess_block *p = c->block;
    bool gated = p->gate.weight >= 0, again = c->dw != NULL;

    /* h2 (R, C) = h + branch;  y = norm(h2), which backward also reads if nothing is dropped */
    if (groups & TESS_GROUP_RESIDUAL)
        TESS_TRY(tess_norm_input(c, &p->mlp_norm, t, before, t->h2, t->mlp_stats));
    else if (groups & TESS_GROUP_FEED_FORWARD || (gated && tess_linear_reads_input(c, &p->gate)) ||
             tess_linear_reads_input(c, &p->up))
        TESS_TRY(tess_norm_again(c, &p->mlp_norm, t->h2, t->y));
    if (!(groups & TESS_GROUP_FEED_FORWARD))
        return TESS_OK;

    /* gate, up (T, F) = y Wgate, y Wup;  act (T, F) = silu(gate) * up;  branch = act Wdown */
    if (gated)
        TESS_TRY(tess_linear_forward(c, &p->gate, t->y, t->gate));
    if (again)
        return tess_linear_forward(c, &p->up, t->y, t->up);
    TESS_TRY(tess_linear_act_forward(c, &p->up, t->y, t->gate, t->up, t->act));
    TESS_TRY(tess_linear_forward(c, &p->down, t->act, t->branch));
    show_branch(c, "feed-forward output", t);
    return TESS_OK;
}

/* ---- Backward: the lines of forward from the last to the first. The stream's gradient passes unchanged through both
 * additions, and each branch adds its own part: dh3 -> dh2 -> dh. The weight part computes only the parameters'
 * gradients; its norms also compute the stream's gradient again, in work space that nothing reads. ---- */
static tess_status feed_forward_backward(const tess_layer_call *c, const tess_tensors *t, bool inputs, bool want_dh)
{
    const tess_block *p = c->block;
    void *act = t->deferred || tess_linear_reads_input(c, &p->down) ? t->act : NULL; /* (T, F) */
    const void *dh3;                                                                 /* (T, C) */
    bool gated = p->gate.weight >= 0;
    (void)want_dh; /* attention reads dh2 */

    /* dact (T, F) = dh3 Wdown^T;  dgate, dup (T, F), which overwrite gate, up;  dWdown = act^T dh3 */
    TESS_TRY(tess_stream_gather(c, t->dh3, c->split.stream, &dh3));
    if (inputs)
        TESS_TRY(tess_linear_act_backward(c, &p->down, dh3, t->gate, t->up, act, t->fusing));
    TESS_TRY(tess_linear_backward_params(c, &p->down, act, dh3));

    /* dWgate, dWup = y^T dgate, y^T dup;  dy = dgate Wgate^T + dup Wup^T */
    const tess_linear_grad terms[] = {{&p->gate, t->gate}, {&p->up, t->up}};
    for (int i = gated ? 0 : 1; i < 2; i++)
        TESS_TRY(tess_linear_backward_params(c, terms[i].linear, t->y, terms[i].dy));
    if (inputs)
        TESS_TRY(tess_linear_backward_inputs(c, gated ? terms : terms + 1, gated ? 2 : 1, t->fusing, t->dy_mlp));

    /* dh2 = dh3 + norm'(dy) at h2 */
    if (!inputs && !tess_norm_trains(c, &p->mlp_norm))
        return TESS_OK;
    return tess_norm_backward(c, &p->mlp_norm, t->h2, t->mlp_stats, t->dy_mlp, inputs ? t->dh3 : NULL,
                              inputs ? t->dh2 : t->branch);
}

static tess_status attention_backward(const tess_layer_call *c, const tess_tensors *t, bool inputs, bool want_dh)
{
    const tess_block *p = c->block;
    const void *dh2; /* (T, C) */
    bool want_dy = want_dh || tess_norm_trains(c, &p->input_norm);

    /* dWo = out^T dh2;  dout (T, H, D) = dh2 Wo^T */
    if (tess_linear_reads_input(c, &p->q) || tess_linear_reads_input(c, &p->k) || tess_linear_reads_input(c, &p->v))
        TESS_TRY(tess_norm_again(c, &p->input_norm, t->h, t->y));
    TESS_TRY(tess_stream_gather(c, t->dh2, c->split.stream, &dh2));
    TESS_TRY(tess_linear_backward_params(c, &p->o, t->out, dh2));
    if (!want_dy && !tess_qkv_trains(c))
        return TESS_OK;
    if (inputs)
        TESS_TRY(tess_linear_backward_input(c, &p->o, dh2, t->dout));

    /* dq (T, H, D), dk (T, G, D), dv (T, G, D) of attention, then back through rope and the norms of q and k */
    if (inputs && tess_block_norms_heads(p))
        TESS_TRY(tess_heads_forward(c, t));
    if (inputs)
        TESS_TRY(tess_attention_backward(c, t));
    TESS_TRY(tess_heads_backward(c, t, inputs));

    /* dWq, dWk, dWv = y^T dq, y^T dk, y^T dv;  dy = dq Wq^T + dk Wk^T + dv Wv^T */
    TESS_TRY(tess_qkv_backward(c, t->y, t, inputs && want_dy ? t->dy_input : NULL));
    if (!want_dy)
        return TESS_OK;

    /* dh = dh2 + norm'(dy) at h */
    TESS_TRY(tess_norm_backward(c, &p->input_norm, t->h, t->input_stats, t->dy_input, inputs ? t->dh2 : NULL,
                                inputs ? t->dh : t->branch));
    if (inputs)
        tess_layer_show(c, "input gradient", t->dh, c->block->hidden_size);
    return TESS_OK;
}

/* ---- Tensors ---- */
/* Q_ROW, K_ROW: without norms of q and k, q, k and v are parts of one row, and the others have no memory. */
enum { Q = TESS_OWN_DIMS, H, Q_ROW, K_ROW, NORMED_Q, NORMED_K, NORMED_H, NORMED_G };

static void attention_sizes(const tess_model *model, const tess_block *p, int64_t sizes[TESS_N_DIMS])
{
    const int64_t q = p->n_heads * p->head_size, k = p->n_kv_heads * p->head_size;
    const bool normed = tess_block_norms_heads(p);
    (void)model;
    sizes[Q] = q;
    sizes[H] = p->n_heads;
    sizes[Q_ROW] = normed ? q : q + 2 * k;
    sizes[NORMED_Q] = normed ? q : -1;
    sizes[K_ROW] = sizes[NORMED_K] = normed ? k : -1;
    sizes[NORMED_H] = normed ? p->n_heads : -1;
    sizes[NORMED_G] = normed ? p->n_kv_heads : -1;
}

static void *column(void *row, int64_t first, size_t element)
{
    return row != NULL ? (char *)row + (size_t)first * element : NULL;
}

static void attention_views(const tess_block *p, size_t element, tess_tensors *t)
{
    const int64_t q = p->n_heads * p->head_size, k = p->n_kv_heads * p->head_size;
    if (tess_block_norms_heads(p))
        return;
    t->q = t->q_raw;
    t->k = t->k_raw = column(t->q_raw, q, element);
    t->v = column(t->q_raw, q + k, element);
    t->dk = column(t->dq, q, element);
    t->dv = column(t->dq, q + k, element);
}

/* clang-format off */
#define AT(member) offsetof(tess_tensors, member)
enum {
    INPUTS = TESS_GROUP_ATTENTION_INPUTS, ATTENTION = TESS_GROUP_ATTENTION, RESIDUAL = TESS_GROUP_RESIDUAL,
    FEED = TESS_GROUP_FEED_FORWARD, SAVED = TESS_TENSOR_SAVED, RESULT = SAVED | TESS_TENSOR_FORWARD,
    WORK = TESS_TENSOR_FORWARD | TESS_TENSOR_BACKWARD, BACKWARD = TESS_TENSOR_BACKWARD, LEFT = TESS_TENSOR_WEIGHTS
};
static const tess_tensor_row attention_tensors[] = {
    {AT(h),                TESS_DIM_R, TESS_DIM_C,    false, SAVED | TESS_TENSOR_STREAM, 0},
    {AT(input_stats.rstd), TESS_DIM_R, TESS_DIM_ONE,  true,  SAVED,           INPUTS},
    {AT(input_stats.mean), TESS_DIM_R, TESS_DIM_MEAN, true,  SAVED,           INPUTS},
    {AT(q_raw),            TESS_DIM_T, Q_ROW,         false, RESULT,          INPUTS},
    {AT(k_raw),            TESS_DIM_T, K_ROW,         false, RESULT,          INPUTS},
    {AT(v),                TESS_DIM_T, K_ROW,         false, RESULT,          INPUTS},
    {AT(q_rstd),           TESS_DIM_T, NORMED_H,      true,  SAVED,           INPUTS},
    {AT(k_rstd),           TESS_DIM_T, NORMED_G,      true,  SAVED,           INPUTS},
    {AT(out),              TESS_DIM_T, Q,             false, RESULT,          ATTENTION},
    {AT(lse),              TESS_DIM_T, H,             true,  SAVED,           ATTENTION},
    {AT(q),                TESS_DIM_T, NORMED_Q,      false, WORK,            0},
    {AT(k),                TESS_DIM_T, NORMED_K,      false, WORK,            0},
    {AT(dout),             TESS_DIM_T, Q,             false, BACKWARD,        0},
    {AT(dq),               TESS_DIM_T, Q_ROW,         false, BACKWARD | LEFT, 0},
    {AT(dk),               TESS_DIM_T, K_ROW,         false, BACKWARD | LEFT, 0},
    {AT(dv),               TESS_DIM_T, K_ROW,         false, BACKWARD | LEFT, 0},
    {AT(dh2),              TESS_DIM_R, TESS_DIM_C,    false, LEFT,            0},
    {AT(dy_input),         TESS_DIM_R, TESS_DIM_C,    false, LEFT,            0},
};

enum { F = TESS_OWN_DIMS, GATE };
static const tess_tensor_row feed_forward_tensors[] = {
    {AT(h2),               TESS_DIM_R, TESS_DIM_C,    false, SAVED | TESS_TENSOR_STREAM, RESIDUAL},
    {AT(mlp_stats.rstd),   TESS_DIM_R, TESS_DIM_ONE,  true,  SAVED,           RESIDUAL},
    {AT(mlp_stats.mean),   TESS_DIM_R, TESS_DIM_MEAN, true,  SAVED,           RESIDUAL},
    {AT(gate),             TESS_DIM_T, GATE,          false, RESULT | TESS_TENSOR_OVERWRITTEN, FEED},
    {AT(up),               TESS_DIM_T, F,             false, RESULT | TESS_TENSOR_OVERWRITTEN, FEED},
    {AT(act),              TESS_DIM_T, F,             false, WORK | LEFT,     0},
    {AT(dy_mlp),           TESS_DIM_R, TESS_DIM_C,    false, LEFT,            0},
};
#undef AT
/* clang-format on */

static void feed_forward_sizes(const tess_model *model, const tess_block *p, int64_t sizes[TESS_N_DIMS])
{
    (void)model;
    sizes[F] = p->intermediate_size;
    sizes[GATE] = p->gate.weight >= 0 ? p->intermediate_size : -1;
}

/* Each head takes two products of length T in forward and four in backward; they are not halved for the causal mask,
 * but limited to the layer's window. */
static double attention_flops(const tess_block *p, int64_t seq_len)
{
    const bool windowed = p->window > 0 && p->window < seq_len;
    return 12.0 * (double)(p->n_heads * p->head_size) * (double)(windowed ? p->window : seq_len);
}

static const size_t attention_maps[] = {offsetof(tess_block, q), offsetof(tess_block, k), offsetof(tess_block, v),
                                        offsetof(tess_block, qkv), offsetof(tess_block, o)};
static const size_t feed_forward_maps[] = {offsetof(tess_block, gate), offsetof(tess_block, up),
                                           offsetof(tess_block, down)};

const tess_part tess_attention_part = {
    .name = "attention",
    .input = offsetof(tess_tensors, h),
    .tensors = attention_tensors,
    .n_tensors = sizeof(attention_tensors) / sizeof(attention_tensors[0]),
    .maps = attention_maps,
    .n_maps = sizeof(attention_maps) / sizeof(attention_maps[0]),
    .sizes = attention_sizes,
    .place_views = attention_views,
    .forward = attention_forward,
    .backward = attention_backward,
    .flops = attention_flops,
};

const tess_part tess_feed_forward_part = {
    .name = "feed-forward",
    .input = offsetof(tess_tensors, h2),
    .tensors = feed_forward_tensors,
    .n_tensors = sizeof(feed_forward_tensors) / sizeof(feed_forward_tensors[0]),
    .maps = feed_forward_maps,
    .n_maps = sizeof(feed_forward_maps) / sizeof(feed_forward_maps[0]),
    .sizes = feed_forward_sizes,
    .forward = feed_forward_forward,
    .backward = feed_forward_backward,
};
