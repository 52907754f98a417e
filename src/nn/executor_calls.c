/* The calls of an executor: each checks its arguments, then walks (executor_walk.c). */
#include "nn/executor_impl.h"

/* ---- Ranges on slots ---- */
void *tess_executor_input(const tess_executor *e, int slot, int unit)
{
    tess_executor_page_input(e, slot, unit);
    return tess_executor_memory(e, slot, unit)->parts[0].tensors.in;
}

static tess_status check_places(const tess_executor *e, const tess_range *r)
{
    int n_slots = tess_executor_slots(&e->options), n_units = e->model->n_units;
    TESS_CHECK(r->slot >= 0 && r->slot < n_slots, TESS_E_INVALID, "slot %d; the executor was made for %d", r->slot,
               n_slots);
    TESS_CHECK(0 <= r->begin && r->begin < r->end && r->end <= n_units, TESS_E_INVALID,
               "blocks %d to %d; the model has %d", r->begin, r->end, n_units);
    tess_slot_units units = tess_executor_units_of(e, r->slot);
    TESS_CHECK(units.begin <= r->begin && r->end <= units.end, TESS_E_INVALID,
               "blocks %d to %d on slot %d, which has memory for %d to %d", r->begin, r->end, r->slot, units.begin,
               units.end);
    return TESS_OK;
}

static tess_status take_range(tess_executor *e, const tess_range *r)
{
    TESS_CHECK(e->options.train, TESS_E_INVALID, "executor: made without memory for backward (train is false)");
    TESS_TRY(check_places(e, r));
    TESS_CHECK(r->batch->targets != NULL && r->batch->cache == NULL, TESS_E_INVALID,
               "batch: training needs targets and cannot use a key/value cache");
    return tess_executor_take_batch(e, r->batch);
}

/* These two check that the model's head computes what the call asks for. */
static tess_status check_logits(const tess_executor *e)
{
    int64_t n = e->model->config.n_outputs;
    TESS_CHECK(n == 0, TESS_E_INVALID,
               "head: the model has a score of %lld outputs (num_labels) in place of logits: no token has a "
               "probability",
               (long long)n);
    return TESS_OK;
}

static tess_status check_values(const tess_executor *e)
{
    const tess_model_config *config = &e->model->config;
    TESS_CHECK(config->value_head || config->n_outputs == 1, TESS_E_INVALID,
               "head: values need a score of one output; the model has %lld (num_labels; 0: a language model)",
               (long long)config->n_outputs);
    return TESS_OK;
}

/* An empty micro-batch, which a rank runs so that collectives are complete, needs no loss. */
static tess_status check_loss(const tess_executor *e, const tess_batch *batch, const tess_token_loss *loss)
{
    const bool values = loss != NULL && loss->grade_values != NULL;
    if (batch->n_tokens == 0)
        return TESS_OK;
    if (values)
        TESS_TRY(check_values(e));
    if (!values || loss->grade != NULL)
        TESS_TRY(check_logits(e));
    TESS_CHECK(values == (e->model->config.n_outputs > 0 || e->model->config.value_head), TESS_E_INVALID,
               "head: the model has a value head, and the loss says nothing of values");
    return TESS_OK;
}

static tess_status check_ends(const tess_executor *e, const tess_range *r, const void *in, const void *out)
{
    TESS_CHECK((in == NULL) == !tess_executor_reads(e, r->begin), TESS_E_INVALID,
               "%s: forward needs the stream that it reads, and the embedding reads none",
               tess_executor_title(e, r->begin));
    TESS_CHECK((out == NULL) == !tess_executor_leaves(e, r->end - 1), TESS_E_INVALID,
               "%s: forward needs a place for the stream that it leaves, and the head leaves none",
               tess_executor_title(e, r->end - 1));
    return TESS_OK;
}

tess_status tess_executor_forward(tess_executor *e, const tess_range *r, const void *in, void *out)
{
    TESS_TRY(take_range(e, r));
    TESS_TRY(check_ends(e, r, in, out));
    e->open.is_open &= e->open.slot != r->slot; /* closes a window that a failed backward left open */
    return tess_executor_forward_range(e, r, in, out, TESS_WALK_FOR_BACKWARD);
}

tess_status tess_executor_backward(tess_executor *e, const tess_range *r, const tess_backward *b)
{
    TESS_TRY(take_range(e, r));
    bool head = !tess_executor_leaves(e, r->end - 1), weights = b->part == TESS_BACKWARD_WEIGHTS;
    TESS_CHECK(b->part == TESS_BACKWARD_WHOLE || e->options.split_backward, TESS_E_INVALID,
               "executor: made without memory for a backward in two parts (split_backward is false)");
    TESS_CHECK(
        (b->dout != NULL) == (!head && !weights), TESS_E_INVALID,
        "%s: backward needs the gradient of the stream that it left; the head has none, and a weight part has it",
        tess_executor_title(e, r->end - 1));
    TESS_CHECK(!head || weights || b->logprob != NULL, TESS_E_INVALID,
               "head: backward needs a place for the log-probabilities");
    TESS_CHECK(b->din == NULL ||
                   (!weights && tess_executor_reads(e, r->begin) && r->begin >= e->options.first_trainable_unit),
               TESS_E_INVALID, "%s: no gradient of its input comes from the embedding, frozen units, or a weight part",
               tess_executor_title(e, r->begin));
    if (head && !weights)
        TESS_TRY(check_loss(e, r->batch, b->loss));
    return tess_executor_backward_range(e, r, b);
}

tess_status tess_executor_backward_table(tess_executor *e, const tess_batch *batch, const void *dstream)
{
    TESS_CHECK(tess_executor_trains_table(e) && (e->options.n_tables > 0 || !e->model->part.embedding), TESS_E_INVALID,
               "executor: its model has no tied table that trains, or its backward runs the embedding's part");
    TESS_TRY(tess_executor_take_batch(e, batch));
    TESS_TRY_CTX(tess_executor_table_backward(e, batch, dstream), "embedding: backward");
    return e->seen;
}

/* ---- Whole walks ---- */
static tess_range whole(const tess_executor *e, const tess_batch *batch)
{
    return (tess_range){.begin = 0, .end = e->model->n_units, .batch = batch};
}

static tess_status check_whole(const tess_executor *e)
{
    TESS_CHECK(e->model->part.embedding && e->model->part.head, TESS_E_INVALID,
               "executor: its model is a part; tess_executor_forward and tess_executor_backward run that");
    return TESS_OK;
}

tess_status tess_executor_train(tess_executor *e, const tess_batch *batch, const tess_token_loss *loss, float *logprob)
{
    tess_range all = whole(e, batch);
    TESS_TRY(check_whole(e));
    TESS_TRY(take_range(e, &all));
    TESS_TRY(check_loss(e, batch, loss));
    e->open.is_open = false;
    TESS_TRY(tess_executor_forward_range(e, &all, NULL, NULL, TESS_WALK_FOR_BACKWARD));
    return tess_executor_backward_range(e, &all, &(tess_backward){.loss = loss, .logprob = logprob});
}

/* ---- Forward only ---- */
static tess_status check_task(const tess_executor *e, const tess_batch *batch, const tess_head_task *task)
{
    TESS_CHECK(task->logprob == NULL || batch->targets != NULL, TESS_E_INVALID,
               "batch: log-probabilities need targets");
    TESS_CHECK(task->n_rows >= 0 && task->n_rows <= e->options.max_tokens, TESS_E_INVALID,
               "logits of %lld rows; at most %lld at once", (long long)task->n_rows, (long long)e->options.max_tokens);
    for (int64_t i = 0; i < task->n_rows; i++)
        TESS_CHECK(task->rows[i] >= 0 && task->rows[i] < batch->n_tokens, TESS_E_INVALID,
                   "logits of row %d; the batch has %lld", task->rows[i], (long long)batch->n_tokens);
    return TESS_OK;
}

tess_status tess_executor_score(tess_executor *e, const tess_range *r, const void *in, void *out,
                                const tess_head_task *task)
{
    TESS_TRY(check_places(e, r));
    TESS_TRY(check_task(e, r->batch, task));
    TESS_TRY(tess_executor_take_batch(e, r->batch));
    TESS_TRY(check_ends(e, r, in, out));
    const bool head = !tess_executor_leaves(e, r->end - 1);
    if (head)
        TESS_TRY(task->values != NULL ? check_values(e) : check_logits(e));
    TESS_TRY(tess_executor_forward_range(e, r, in, out, TESS_WALK_FOR_RESULT));
    if (head)
        TESS_TRY_CTX(tess_executor_evaluate_head(e, r, task), "head: forward");
    return TESS_OK;
}

static tess_status evaluate(tess_executor *e, const tess_batch *batch, const tess_head_task *task)
{
    const tess_range all = whole(e, batch);
    TESS_TRY(check_whole(e));
    return tess_executor_score(e, &all, NULL, NULL, task);
}

tess_status tess_executor_logprobs(tess_executor *e, const tess_batch *batch, float inv_temperature, float *logprob,
                                   float *entropy)
{
    return evaluate(e, batch,
                    &(tess_head_task){.inv_temperature = inv_temperature, .logprob = logprob, .entropy = entropy});
}

tess_status tess_executor_logits(tess_executor *e, const tess_batch *batch, const int32_t *rows, int64_t n_rows,
                                 float *logits)
{
    return evaluate(e, batch, &(tess_head_task){.rows = rows, .n_rows = n_rows, .logits = logits});
}
