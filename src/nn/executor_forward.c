/* Forward: embedding, layers, final norm, head. */
#include "nn/executor_impl.h"

static tess_status embed(tess_executor *e, const tess_batch *batch)
{
    const tess_layout *layout = &e->model->layout;
    tess_run run = tess_executor_run(e, batch);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, 0, &run.w));
    TESS_TRY(run.kernels->embedding_forward(
        run.stream, run.w[layout->table], layout->positions >= 0 ? run.w[layout->positions] : NULL, batch->ids,
        batch->pos, e->layers[0].h, run.T, e->model->config.hidden_size, run.dtype));
    tess_executor_show(e, &run, 0, "output", e->layers[0].h, e->model->config.hidden_size);
    return e->hooks.post_forward(e->hooks.self, 0);
}

static tess_status forward_layer(tess_executor *e, const tess_batch *batch, int64_t l)
{
    const tess_layout *layout = &e->model->layout;
    const tess_model_config *c = &e->model->config;
    const tess_layer_saved *saved = &e->layers[l];
    tess_attention_call call = tess_executor_attention(e, batch, l);
    tess_run run = tess_executor_run(e, batch);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, (int)l + 1, &run.w));
    /* The stream between two layers is one layer's h2 plus its feed-forward's output; the next layer's norm adds them.
     */
    TESS_TRY(tess_norm_forward(&run, &layout->input_norm, layout->layer_norm, c->norm_eps, run.T, c->hidden_size,
                               l > 0 ? e->a : saved->h, l > 0 ? e->layers[l - 1].h2 : NULL, l > 0 ? saved->h : NULL,
                               e->b, saved->input_stats));
    TESS_TRY(tess_attention_block_forward(&run, &call, e->b, &saved->attention, &e->attention, e->a));
    tess_executor_show(e, &run, (int)l + 1, "attention output", e->a, c->hidden_size);
    TESS_TRY(tess_norm_forward(&run, &layout->mlp_norm, layout->layer_norm, c->norm_eps, run.T, c->hidden_size, e->a,
                               saved->h, saved->h2, e->b, saved->mlp_stats));
    TESS_TRY(tess_mlp_forward(&run, layout, e->b, &saved->mlp, e->act, e->a));
    tess_executor_show(e, &run, (int)l + 1, "feed-forward output", e->a, c->hidden_size);
    return e->hooks.post_forward(e->hooks.self, (int)l + 1);
}

tess_status tess_executor_forward(tess_executor *e, const tess_batch *batch)
{
    TESS_TRY_CTX(embed(e, batch), "embedding: forward");
    for (int64_t l = 0; l < e->model->config.n_layers; l++)
        TESS_TRY_CTX(forward_layer(e, batch, l), "%s: forward", tess_model_unit_name(e->model, (int)l + 1));
    return TESS_OK;
}

tess_status tess_executor_final_norm(tess_executor *e, const tess_run *run)
{
    const tess_layout *layout = &e->model->layout;
    const tess_model_config *c = &e->model->config;
    return tess_norm_forward(run, &layout->final_norm, layout->layer_norm, c->norm_eps, run->T, c->hidden_size, e->a,
                             e->layers[c->n_layers - 1].h2, e->a, e->b, e->final_stats);
}

/* What the head does with the normed rows: log-probabilities of targets, or the logits of some rows. */
typedef struct head_task {
    float *logprob, *entropy;
    const int32_t *rows;
    int64_t n_rows;
    float *logits;
} head_task;

static tess_status pick_logits(tess_executor *e, tess_run run, const head_task *task)
{
    const tess_linear *head = &e->model->layout.head;
    int64_t C = head->n_in;
    for (int64_t i = 0; i < task->n_rows; i++)
        TESS_TRY(run.kernels->convert(run.stream, tess_at(&run, e->b, task->rows[i] * C), run.dtype,
                                      tess_at(&run, e->a, i * C), run.dtype, C));
    run.T = task->n_rows;
    return tess_linear_forward(&run, head, e->a, task->logits, TESS_F32);
}

static tess_status run_head(tess_executor *e, const tess_batch *batch, const head_task *task)
{
    bool tied = e->model->config.tied;
    int last = e->model->n_units - 1;
    tess_run run = tess_executor_run(e, batch);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, last, &run.w));
    TESS_TRY(tess_executor_final_norm(e, &run));
    if (tied)
        TESS_TRY(e->hooks.pre_forward(e->hooks.self, 0, &run.w));
    if (task->logits != NULL)
        TESS_TRY(pick_logits(e, run, task));
    else
        TESS_TRY(tess_head_forward(&run, &e->model->layout.head, e->b, batch->targets, &e->head, task->logprob,
                                   task->entropy));
    if (tied)
        TESS_TRY(e->hooks.post_forward(e->hooks.self, 0));
    return e->hooks.post_forward(e->hooks.self, last);
}

tess_status tess_executor_logprobs(tess_executor *e, const tess_batch *batch, float *logprob, float *entropy)
{
    TESS_CHECK(batch->targets != NULL, TESS_E_INVALID, "batch: log-probabilities need targets");
    TESS_TRY(tess_executor_check_batch(e, batch));
    TESS_TRY(tess_executor_forward(e, batch));
    head_task task = {.logprob = logprob, .entropy = entropy};
    TESS_TRY_CTX(run_head(e, batch, &task), "head: forward");
    return TESS_OK;
}

tess_status tess_executor_logits(tess_executor *e, const tess_batch *batch, const int32_t *rows, int64_t n_rows,
                                 float *logits)
{
    TESS_TRY(tess_executor_check_batch(e, batch));
    TESS_CHECK(n_rows >= 0 && n_rows <= e->options.max_tokens, TESS_E_INVALID,
               "logits of %lld rows; at most %lld at once", (long long)n_rows, (long long)e->options.max_tokens);
    for (int64_t i = 0; i < n_rows; i++)
        TESS_CHECK(rows[i] >= 0 && rows[i] < batch->n_tokens, TESS_E_INVALID, "logits of row %d; the batch has %lld",
                   rows[i], (long long)batch->n_tokens);
    TESS_TRY(tess_executor_forward(e, batch));
    head_task task = {.rows = rows, .n_rows = n_rows, .logits = logits};
    TESS_TRY_CTX(run_head(e, batch, &task), "head: forward");
    return TESS_OK;
}
