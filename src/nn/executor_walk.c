/* The walk over the units of a model: the order of hooks, and what is computed between them. A rehearsal is the same
 * walk without a batch; it computes nothing, so its hooks are those of training. */
#include "nn/executor_impl.h"

static tess_layer_call call_of(const tess_executor *e, const tess_batch *batch, int unit)
{
    return (tess_layer_call){
        .stream = e->stream,
        .kernels = e->stream->kernels,
        .dtype = e->options.dtype,
        .T = batch != NULL ? batch->n_tokens : 0,
        .block = &e->model->block,
        .config = &e->model->config,
        .batch = batch,
        .unit = unit,
        .cos_table = e->cos_table,
        .sin_table = e->sin_table,
        .watch = &e->watch,
    };
}

static const char *title_of(const tess_executor *e, int unit)
{
    return unit == 0 ? "embedding" : tess_model_unit_name(e->model, unit);
}

/* ---- Embedding and layers ---- */
static tess_status forward_unit(tess_executor *e, const tess_batch *batch, int unit)
{
    tess_layer_call call = call_of(e, batch, unit);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, unit, &call.w));
    if (batch != NULL && unit == 0)
        TESS_TRY(tess_embedding_forward(&call, e->layers[0].h));
    else if (batch != NULL)
        TESS_TRY(tess_layer_forward(&call, unit > 1 ? &e->layers[unit - 2] : NULL, &e->layers[unit - 1], &e->work));
    return e->hooks.post_forward(e->hooks.self, unit);
}

/* All but the head: the last layer leaves the stream in its h2 and work.branch. */
static tess_status forward_units(tess_executor *e, const tess_batch *batch)
{
    for (int unit = 0; unit < e->model->n_units - 1; unit++)
        TESS_TRY_CTX(forward_unit(e, batch, unit), "%s: forward", title_of(e, unit));
    return TESS_OK;
}

/* The head has opened the window of a tied embedding, and `call` has it. */
static tess_status backward_unit(tess_executor *e, tess_layer_call *call)
{
    int unit = call->unit;
    if (unit > 0 || !call->config->tied)
        TESS_TRY(e->hooks.pre_backward(e->hooks.self, unit, &call->w, &call->dw));
    if (call->batch != NULL && unit == 0)
        TESS_TRY(tess_embedding_backward(call, e->work.dh));
    else if (call->batch != NULL)
        TESS_TRY(tess_layer_backward(call, &e->layers[unit - 1], &e->work, unit > e->options.first_trainable_unit));
    return e->hooks.post_backward(e->hooks.self, unit);
}

/* ---- Head ---- */
/* The stream to work.branch, normed to work.y. */
static tess_status final_norm(tess_executor *e, const tess_layer_call *call)
{
    void *h = e->work.branch;
    return tess_norm_forward(call, &call->block->final_norm, h, e->layers[call->config->n_layers - 1].h2, h, e->work.y,
                             e->final_stats);
}

/* From work.y to the gradient of the stream. `last`: the window of the norm, `head`: that of the head's weight. */
static tess_status compute_head(tess_executor *e, tess_layer_call *last, const tess_layer_call *head,
                                const tess_token_loss *loss, float *logprob)
{
    const tess_norm *norm = &last->block->final_norm;
    tess_layer_work *w = &e->work;
    bool want_dy = e->options.first_trainable_unit < last->unit || tess_norm_trains(last, norm);
    TESS_TRY(tess_head_train(head, loss, &e->head, w->y, want_dy, logprob));
    if (e->watch.see != NULL)
        e->watch.see(e->watch.self, last->unit, "log-probabilities", logprob, TESS_F32, last->T, 1);
    if (!want_dy)
        return TESS_OK;
    TESS_TRY(tess_norm_backward(last, norm, w->branch, e->final_stats, w->y, NULL, w->dh));
    tess_layer_show(last, "input gradient", w->dh, last->config->hidden_size);
    return TESS_OK;
}

/* Forward and backward of the last unit at once. A tied head uses the embedding's weights. If these train, their window
 * opens here, because the head writes their gradient first; `embedding` keeps it open. */
static tess_status train_head(tess_executor *e, const tess_batch *batch, const tess_token_loss *loss,
                              tess_layer_call *embedding, float *logprob)
{
    static float *const frozen[2] = {NULL, NULL};
    bool tied = e->model->config.tied, embedding_trains = e->options.first_trainable_unit == 0;
    tess_layer_call last = call_of(e, batch, e->model->n_units - 1);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, last.unit, &last.w));
    if (batch != NULL) {
        TESS_TRY(final_norm(e, &last));
        tess_layer_show(&last, "final norm", e->work.y, last.config->hidden_size);
    }
    TESS_TRY(e->hooks.post_forward(e->hooks.self, last.unit));

    TESS_TRY(e->hooks.pre_backward(e->hooks.self, last.unit, &last.w, &last.dw));
    tess_layer_call head = last;
    if (tied && embedding_trains) {
        TESS_TRY(e->hooks.pre_backward(e->hooks.self, 0, &embedding->w, &embedding->dw));
        head.w = embedding->w;
        head.dw = embedding->dw;
    } else if (tied) {
        TESS_TRY(e->hooks.pre_forward(e->hooks.self, 0, &head.w));
        head.dw = frozen;
    }
    if (batch != NULL)
        TESS_TRY(compute_head(e, &last, &head, loss, logprob));
    if (tied && !embedding_trains)
        TESS_TRY(e->hooks.post_forward(e->hooks.self, 0));
    return e->hooks.post_backward(e->hooks.self, last.unit);
}

/* The task of the head in evaluation: log-probabilities of targets, or the logits of some rows. */
typedef struct head_task {
    float inv_temperature;
    float *logprob, *entropy;
    const int32_t *rows;
    int64_t n_rows;
    float *logits;
} head_task;

static tess_status pick_logits(tess_executor *e, tess_layer_call call, const head_task *task)
{
    int64_t C = call.config->hidden_size;
    for (int64_t i = 0; i < task->n_rows; i++)
        TESS_TRY(call.kernels->convert(call.stream, tess_at(&call, e->work.y, task->rows[i] * C), call.dtype,
                                       tess_at(&call, e->work.branch, i * C), call.dtype, C));
    call.T = task->n_rows;
    return tess_linear_forward_f32(&call, &call.block->head, e->work.branch, task->logits);
}

static tess_status evaluate_head(tess_executor *e, const tess_batch *batch, const head_task *task)
{
    tess_layer_call call = call_of(e, batch, e->model->n_units - 1);
    bool tied = call.config->tied;
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, call.unit, &call.w));
    TESS_TRY(final_norm(e, &call));
    if (tied)
        TESS_TRY(e->hooks.pre_forward(e->hooks.self, 0, &call.w));
    if (task->logits != NULL)
        TESS_TRY(pick_logits(e, call, task));
    else
        TESS_TRY(
            tess_head_forward(&call, e->work.y, e->head.logits, task->inv_temperature, task->logprob, task->entropy));
    if (tied)
        TESS_TRY(e->hooks.post_forward(e->hooks.self, 0));
    return e->hooks.post_forward(e->hooks.self, call.unit);
}

/* ---- Whole walks ---- */
/* batch NULL: hooks alone. */
static tess_status train(tess_executor *e, const tess_batch *batch, const tess_token_loss *loss, float *logprob)
{
    tess_layer_call embedding = call_of(e, batch, 0);
    TESS_TRY(forward_units(e, batch));
    TESS_TRY_CTX(train_head(e, batch, loss, &embedding, logprob), "head");
    for (int unit = e->model->n_units - 2; unit >= e->options.first_trainable_unit; unit--) {
        tess_layer_call call = unit == 0 ? embedding : call_of(e, batch, unit);
        TESS_TRY_CTX(backward_unit(e, &call), "%s: backward", title_of(e, unit));
    }
    return TESS_OK;
}

tess_status tess_executor_train(tess_executor *e, const tess_batch *batch, const tess_token_loss *loss, float *logprob)
{
    TESS_CHECK(e->options.train, TESS_E_INVALID, "executor: made without memory for backward (train is false)");
    TESS_CHECK(batch->targets != NULL && batch->cache == NULL, TESS_E_INVALID,
               "batch: training needs targets and cannot use a key/value cache");
    TESS_TRY(tess_executor_check_batch(e, batch));
    return train(e, batch, loss, logprob);
}

tess_status tess_executor_rehearse(const tess_executor *e, const tess_hooks *hooks)
{
    tess_executor dry = *e;
    dry.hooks = *hooks;
    return train(&dry, NULL, NULL, NULL);
}

static tess_status evaluate(tess_executor *e, const tess_batch *batch, const head_task *task)
{
    TESS_TRY(forward_units(e, batch));
    TESS_TRY_CTX(evaluate_head(e, batch, task), "head: forward");
    return TESS_OK;
}

tess_status tess_executor_logprobs(tess_executor *e, const tess_batch *batch, float inv_temperature, float *logprob,
                                   float *entropy)
{
    TESS_CHECK(batch->targets != NULL, TESS_E_INVALID, "batch: log-probabilities need targets");
    TESS_TRY(tess_executor_check_batch(e, batch));
    return evaluate(e, batch, &(head_task){.inv_temperature = inv_temperature, .logprob = logprob, .entropy = entropy});
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
    return evaluate(e, batch, &(head_task){.rows = rows, .n_rows = n_rows, .logits = logits});
}
