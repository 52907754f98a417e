/* A transformer layer and its backward pass. All families run this code.
 *
 *     h2 = h  + attention(rope(norm(norm(h) Wq)), rope(norm(norm(h) Wk)), norm(h) Wv) Wo
 *     h3 = h2 + (silu(norm(h2) Wgate) * norm(h2) Wup) Wdown
 *
 * Families omit some terms: norms of q and k (all but Qwen3), biases, and in GPT-2 rotary positions and the gate.
 * GPT-2's activation is a GELU and its norms are LayerNorm. Shapes use the letters of layers.h: if ranks share the
 * stream, each has R of its T rows. */
#include "nn/layers/layers.h"

tess_status tess_layer_forward(const tess_layer_call *c, const tess_layer_saved *before, const tess_layer_saved *s,
                               const tess_layer_work *w)
{
    const tess_block *p = c->block;
    void *y = w->y, *branch = w->branch; /* (T, C), (R, C) */

    /* h (R, C) = h2 + branch of the layer before;  y = norm(h) */
    if (before != NULL)
        TESS_TRY(tess_norm_forward(c, &p->input_norm, branch, before->h2, s->h, y, s->input_stats));
    else
        TESS_TRY(tess_norm_forward(c, &p->input_norm, s->h, NULL, NULL, y, s->input_stats));

    /* q (T, H, D), k (T, G, D), v (T, G, D) = y Wq, y Wk, y Wv;  q = rope(norm(q));  k = rope(norm(k)) */
    TESS_TRY(tess_qkv_forward(c, y, s));
    TESS_TRY(tess_heads_forward(c, s));

    /* out (T, H, D) = softmax(q k^T / sqrt(D)) v, causal, each sequence by itself;  branch = out Wo */
    TESS_TRY(tess_attention_forward(c, s, w->seqs));
    TESS_TRY(tess_linear_forward(c, &p->o, s->out, branch));
    tess_layer_show(c, "attention output", branch, c->config->hidden_size);

    /* h2 (R, C) = h + branch;  y = norm(h2) */
    TESS_TRY(tess_norm_forward(c, &p->mlp_norm, branch, s->h, s->h2, y, s->mlp_stats));

    /* gate, up (T, F) = y Wgate, y Wup;  act (T, F) = silu(gate) * up;  branch = act Wdown */
    if (p->gate.weight >= 0)
        TESS_TRY(tess_linear_forward(c, &p->gate, y, s->gate));
    TESS_TRY(tess_linear_act_forward(c, &p->up, y, s->gate, s->up, w->act));
    TESS_TRY(tess_linear_forward(c, &p->down, w->act, branch));
    tess_layer_show(c, "feed-forward output", branch, c->config->hidden_size);
    return TESS_OK;
}

/* Repeats the lines of forward for the groups that the layer has dropped. Each line starts from h or from the result
 * of a group before it. Also computes y = norm(h2), if backward reads it. Norms of q and k write attention's q and k
 * to work space, which has been reused. Here they are computed only if attention runs again; backward computes them
 * itself. */
static tess_status compute_dropped(const tess_layer_call *c, const tess_layer_saved *s, const tess_layer_work *w)
{
    const tess_block *p = c->block;
    void *y = w->y, *branch = w->branch; /* (T, C), (R, C) */
    bool gated = p->gate.weight >= 0;
    bool reads_y = (gated && tess_linear_reads_input(c, &p->gate)) || tess_linear_reads_input(c, &p->up);
    unsigned rotates = tess_block_norms_heads(p) ? TESS_GROUP_ATTENTION : TESS_GROUP_ATTENTION_INPUTS;

    if (s->dropped & TESS_GROUP_ATTENTION_INPUTS) {
        TESS_TRY(tess_norm_forward(c, &p->input_norm, s->h, NULL, NULL, y, s->input_stats));
        TESS_TRY(tess_qkv_forward(c, y, s));
    }
    if (s->dropped & rotates)
        TESS_TRY(tess_heads_forward(c, s));
    if (s->dropped & TESS_GROUP_ATTENTION)
        TESS_TRY(tess_attention_forward(c, s, w->seqs));
    if (s->dropped & TESS_GROUP_RESIDUAL) {
        TESS_TRY(tess_linear_forward(c, &p->o, s->out, branch));
        TESS_TRY(tess_norm_forward(c, &p->mlp_norm, branch, s->h, s->h2, y, s->mlp_stats));
    } else if (reads_y || (s->dropped & TESS_GROUP_FEED_FORWARD)) {
        TESS_TRY(tess_norm_again(c, &p->mlp_norm, s->h2, y));
    }
    if (!(s->dropped & TESS_GROUP_FEED_FORWARD))
        return TESS_OK;
    if (gated)
        TESS_TRY(tess_linear_forward(c, &p->gate, y, s->gate));
    return tess_linear_forward(c, &p->up, y, s->up);
}

/* Runs the lines of forward from the last to the first. The stream's gradient passes unchanged through both
 * additions, and each branch adds its own part: dh3 -> dh2 -> dh. */
tess_status tess_layer_backward(const tess_layer_call *c, const tess_layer_saved *s, const tess_layer_work *w,
                                bool want_dh)
{
    const tess_block *p = c->block;
    void *y = w->y, *act = w->deferred || tess_linear_reads_input(c, &p->down) ? w->act : NULL; /* (T, C), (T, F) */
    const void *dh3, *dh2;                                                                      /* (T, C) */
    bool gated = p->gate.weight >= 0;
    bool want_dy = want_dh || tess_norm_trains(c, &p->input_norm);

    /* y = norm(h2), and the dropped groups again */
    TESS_TRY(compute_dropped(c, s, w));

    /* dact (T, F) = dh3 Wdown^T;  dgate, dup (T, F), which overwrite gate, up;  dWdown = act^T dh3 */
    TESS_TRY(tess_stream_gather(c, w->dh3, c->split.stream, &dh3));
    TESS_TRY(tess_linear_act_backward(c, &p->down, dh3, s->gate, s->up, act, w->fusing));
    TESS_TRY(tess_linear_backward_params(c, &p->down, act, dh3));

    /* dWgate, dWup = y^T dgate, y^T dup;  dy = dgate Wgate^T + dup Wup^T */
    const tess_linear_grad terms[] = {{&p->gate, s->gate}, {&p->up, s->up}};
    for (int i = gated ? 0 : 1; i < 2; i++)
        TESS_TRY(tess_linear_backward_params(c, terms[i].linear, y, terms[i].dy));
    TESS_TRY(tess_linear_backward_inputs(c, gated ? terms : terms + 1, gated ? 2 : 1, w->fusing, w->dy_mlp));

    /* dh2 = dh3 + norm'(dy) at h2 */
    TESS_TRY(tess_norm_backward(c, &p->mlp_norm, s->h2, s->mlp_stats, w->dy_mlp, w->dh3, w->dh2));

    /* dWo = out^T dh2;  dout (T, H, D) = dh2 Wo^T */
    if (tess_linear_reads_input(c, &p->q) || tess_linear_reads_input(c, &p->k) || tess_linear_reads_input(c, &p->v))
        TESS_TRY(tess_norm_again(c, &p->input_norm, s->h, y));
    TESS_TRY(tess_stream_gather(c, w->dh2, c->split.stream, &dh2));
    TESS_TRY(tess_linear_backward_params(c, &p->o, s->out, dh2));
    if (!want_dy && !tess_qkv_trains(c))
        return TESS_OK;
    TESS_TRY(tess_linear_backward_input(c, &p->o, dh2, w->dout));

    /* dq (T, H, D), dk (T, G, D), dv (T, G, D) of attention, then back through rope and the norms of q and k */
    if (tess_block_norms_heads(p))
        TESS_TRY(tess_heads_forward(c, s));
    TESS_TRY(tess_attention_backward(c, s, w));
    TESS_TRY(tess_heads_backward(c, s, w));

    /* dWq, dWk, dWv = y^T dq, y^T dk, y^T dv;  dy = dq Wq^T + dk Wk^T + dv Wv^T */
    TESS_TRY(tess_qkv_backward(c, y, s, w, want_dy ? w->dy_input : NULL));
    if (!want_dy)
        return TESS_OK;

    /* dh = dh2 + norm'(dy) at h */
    TESS_TRY(tess_norm_backward(c, &p->input_norm, s->h, s->input_stats, w->dy_input, w->dh2, w->dh));
    tess_layer_show(c, "input gradient", w->dh, c->config->hidden_size);
    return TESS_OK;
}

/* Runs the lines of backward that compute parameter gradients, in their order. The norms' kernels also compute the
 * stream's gradient again, in work space that nothing reads. */
tess_status tess_layer_backward_weights(const tess_layer_call *c, const tess_layer_saved *s, const tess_layer_work *w)
{
    const tess_block *p = c->block;
    void *y = w->y, *again = w->branch; /* (T, C), (R, C) */
    const void *dh3, *dh2;              /* (T, C) */

    /* dWdown = act^T dh3;  dWgate, dWup = y^T dgate, y^T dup */
    TESS_TRY(tess_norm_again(c, &p->mlp_norm, s->h2, y));
    TESS_TRY(tess_stream_gather(c, w->dh3, c->split.stream, &dh3));
    TESS_TRY(tess_linear_backward_params(c, &p->down, w->act, dh3));
    if (p->gate.weight >= 0)
        TESS_TRY(tess_linear_backward_params(c, &p->gate, y, s->gate));
    TESS_TRY(tess_linear_backward_params(c, &p->up, y, s->up));
    if (tess_norm_trains(c, &p->mlp_norm))
        TESS_TRY(tess_norm_backward(c, &p->mlp_norm, s->h2, s->mlp_stats, w->dy_mlp, NULL, again));

    /* dWo = out^T dh2;  dWq, dWk, dWv = y^T dq, y^T dk, y^T dv */
    TESS_TRY(tess_norm_again(c, &p->input_norm, s->h, y));
    TESS_TRY(tess_stream_gather(c, w->dh2, c->split.stream, &dh2));
    TESS_TRY(tess_linear_backward_params(c, &p->o, s->out, dh2));
    TESS_TRY(tess_head_norms_backward(c, s, w));
    TESS_TRY(tess_qkv_backward(c, y, s, w, NULL));
    if (!tess_norm_trains(c, &p->input_norm))
        return TESS_OK;
    return tess_norm_backward(c, &p->input_norm, s->h, s->input_stats, w->dy_input, NULL, again);
}
