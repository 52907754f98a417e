/* Forward and backward of a micro-batch. The gradient of the stream walks down in buffer c. */
#include "nn/executor_impl.h"

/* Forward of a checkpointed layer again from its input, up to what backward reads: h2, attention's insides, gate and
 * up. b ends as the feed-forward's input. */
static tess_status recompute_layer(tess_executor *e, const tess_run *run, const tess_attention_call *call,
                                   const tess_layer_saved *saved)
{
    const tess_layout *layout = &e->model->layout;
    const tess_model_config *c = &e->model->config;
    TESS_TRY(tess_norm_forward(run, &layout->input_norm, layout->layer_norm, c->norm_eps, run->T, c->hidden_size,
                               saved->h, NULL, NULL, e->b, saved->input_stats));
    TESS_TRY(tess_attention_block_forward(run, call, e->b, &saved->attention, &e->attention, e->a));
    TESS_TRY(tess_norm_forward(run, &layout->mlp_norm, layout->layer_norm, c->norm_eps, run->T, c->hidden_size, e->a,
                               saved->h, saved->h2, e->b, saved->mlp_stats));
    return tess_mlp_forward_up(run, layout, e->b, &saved->mlp);
}

static tess_status norm_again(tess_executor *e, const tess_run *run, const tess_norm *norm, const void *h)
{
    const tess_model_config *c = &e->model->config;
    return tess_norm_forward(run, norm, e->model->layout.layer_norm, c->norm_eps, run->T, c->hidden_size, h, NULL, NULL,
                             e->b, (tess_norm_stats){NULL, NULL});
}

static tess_status backward_layer(tess_executor *e, const tess_batch *batch, int64_t l)
{
    const tess_layout *layout = &e->model->layout;
    int64_t C = e->model->config.hidden_size;
    const tess_layer_saved *saved = &e->layers[l];
    tess_attention_call call = tess_executor_attention(e, batch, l);
    tess_run run = tess_executor_run(e, batch);
    int unit = (int)l + 1;
    TESS_TRY(e->hooks.pre_backward(e->hooks.self, unit, &run.w, &run.dw));
    bool recompute = tess_executor_recomputes(&e->options, l);
    if (recompute)
        TESS_TRY(recompute_layer(e, &run, &call, saved));

    if (!recompute && (tess_wants(&run, layout->up.weight) || tess_wants(&run, layout->gate.weight)))
        TESS_TRY(norm_again(e, &run, &layout->mlp_norm, saved->h2));
    TESS_TRY(tess_mlp_backward(&run, layout, e->b, &saved->mlp, e->act, e->fusing, e->c, e->a));
    TESS_TRY(tess_norm_backward(&run, &layout->mlp_norm, layout->layer_norm, run.T, C, saved->h2, saved->mlp_stats,
                                e->a, e->c, e->c));

    bool norm_trains = tess_wants(&run, layout->input_norm.weight) || tess_wants(&run, layout->input_norm.bias);
    bool want_dy = unit > e->options.first_trainable_unit || norm_trains;
    if (tess_wants(&run, layout->q.weight) || tess_wants(&run, layout->k.weight) || tess_wants(&run, layout->v.weight))
        TESS_TRY(norm_again(e, &run, &layout->input_norm, saved->h));
    TESS_TRY(tess_attention_block_backward(&run, &call, e->b, &saved->attention, &e->attention, e->c,
                                           want_dy ? e->a : NULL));
    if (want_dy) {
        TESS_TRY(tess_norm_backward(&run, &layout->input_norm, layout->layer_norm, run.T, C, saved->h,
                                    saved->input_stats, e->a, e->c, e->c));
        tess_executor_show(e, &run, unit, "input gradient", e->c, C);
    }
    return e->hooks.post_backward(e->hooks.self, unit);
}

/* The embedding unit's windows: when tied they are opened by the head and closed by the embedding's backward. */
typedef struct embedding_window {
    const void *const *w;
    float *const *dw;
} embedding_window;

static tess_status train_head(tess_executor *e, const tess_batch *batch, embedding_window *embedding, float *logprob)
{
    static float *const frozen[2] = {NULL, NULL};
    const tess_layout *layout = &e->model->layout;
    const tess_model_config *c = &e->model->config;
    int last = e->model->n_units - 1;
    bool tied = c->tied, embedding_trains = e->options.first_trainable_unit == 0;
    tess_run run = tess_executor_run(e, batch);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, last, &run.w));
    TESS_TRY(tess_executor_final_norm(e, &run));
    tess_executor_show(e, &run, last, "final norm", e->b, c->hidden_size);
    TESS_TRY(e->hooks.post_forward(e->hooks.self, last));

    TESS_TRY(e->hooks.pre_backward(e->hooks.self, last, &run.w, &run.dw));
    tess_run head = run;
    if (tied && embedding_trains) {
        TESS_TRY(e->hooks.pre_backward(e->hooks.self, 0, &embedding->w, &embedding->dw));
        head.w = embedding->w;
        head.dw = embedding->dw;
    } else if (tied) {
        TESS_TRY(e->hooks.pre_forward(e->hooks.self, 0, &head.w));
        head.dw = frozen;
    }
    bool want_dx = e->options.first_trainable_unit < last;
    bool want_dy = want_dx || tess_wants(&run, layout->final_norm.weight) || tess_wants(&run, layout->final_norm.bias);
    TESS_TRY(tess_head_train(&head, &layout->head, e->b, batch->targets, &e->head, want_dy, logprob));
    if (e->watch.see != NULL)
        e->watch.see(e->watch.self, last, "log-probabilities", logprob, TESS_F32, run.T, 1);
    if (tied && !embedding_trains)
        TESS_TRY(e->hooks.post_forward(e->hooks.self, 0));
    if (want_dy) {
        TESS_TRY(tess_norm_backward(&run, &layout->final_norm, layout->layer_norm, run.T, c->hidden_size, e->a,
                                    e->final_stats, e->b, NULL, e->c));
        tess_executor_show(e, &run, last, "input gradient", e->c, c->hidden_size);
    }
    return e->hooks.post_backward(e->hooks.self, last);
}

static tess_status backward_embedding(tess_executor *e, const tess_batch *batch, embedding_window *embedding)
{
    const tess_layout *layout = &e->model->layout;
    const tess_model_config *c = &e->model->config;
    tess_run run = tess_executor_run(e, batch);
    if (!c->tied)
        TESS_TRY(e->hooks.pre_backward(e->hooks.self, 0, &embedding->w, &embedding->dw));
    float *dtable = embedding->dw[layout->table];
    if (dtable != NULL) /* tied: the head has written its part */
        TESS_TRY(run.kernels->embedding_backward(run.stream, batch->ids, e->c, dtable, c->vocab_size, run.T,
                                                 c->hidden_size, c->tied, run.dtype));
    float *dpositions = layout->positions >= 0 ? embedding->dw[layout->positions] : NULL;
    if (dpositions != NULL)
        TESS_TRY(run.kernels->embedding_backward(run.stream, batch->pos, e->c, dpositions, c->max_position, run.T,
                                                 c->hidden_size, false, run.dtype));
    return e->hooks.post_backward(e->hooks.self, 0);
}

tess_status tess_executor_train(tess_executor *e, const tess_batch *batch, float *logprob)
{
    TESS_CHECK(e->options.train, TESS_E_INVALID, "executor: made without memory for backward (train is false)");
    TESS_CHECK(batch->targets != NULL && batch->cache == NULL, TESS_E_INVALID,
               "batch: training needs targets and cannot use a key/value cache");
    TESS_TRY(tess_executor_check_batch(e, batch));
    TESS_TRY(tess_executor_forward(e, batch));
    embedding_window embedding = {NULL, NULL};
    TESS_TRY_CTX(train_head(e, batch, &embedding, logprob), "head");
    int64_t first = e->options.first_trainable_unit;
    for (int64_t l = e->model->config.n_layers - 1; l >= 0 && l + 1 >= first; l--)
        TESS_TRY_CTX(backward_layer(e, batch, l), "%s: backward", tess_model_unit_name(e->model, (int)l + 1));
    if (first == 0)
        TESS_TRY_CTX(backward_embedding(e, batch, &embedding), "embedding: backward");
    return TESS_OK;
}
