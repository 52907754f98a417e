/* Walks over the units of a model: calls the hooks in order, and computes between them. A rehearsal is the same walk
 * without a batch. It computes nothing, so it calls exactly the hooks that training calls. */
#include "nn/executor_impl.h"

static tess_layer_call call_of(const tess_executor *e, const tess_batch *batch, int unit)
{
    return (tess_layer_call){
        .stream = e->stream,
        .kernels = tess_stream_kernels(e->stream),
        .dtype = e->options.dtype,
        .T = batch != NULL ? batch->n_tokens : 0,
        .rows = tess_executor_rows(&e->options, batch != NULL ? batch->n_tokens : 0),
        .block = &e->model->blocks[unit],
        .config = &e->model->config,
        .batch = batch,
        .values = {e->ids, e->pos, e->targets},
        .unit = unit,
        .cos_table = e->cos_table,
        .sin_table = e->sin_table,
        .watch = &e->shown,
        .points = &e->points,
        .split = e->split,
        .low_rank = e->low_rank,
        .reads_codes = e->options.fp8_codes,
        .rounded = e->model->blocks[unit].kind == TESS_BLOCK_LAYER ? e->rounded : NULL,
    };
}

/* ---- The stream ---- */
static int64_t rows_of(const tess_executor *e, const tess_batch *batch)
{
    return tess_executor_stream_rows(e->model, &e->options, batch->n_tokens);
}

static tess_status copy_stream(const tess_executor *e, const tess_batch *batch, void *to, const void *from)
{
    int64_t row = e->model->config.hidden_size * (int64_t)tess_dtype_size(e->options.dtype);
    return tess_stream_kernels(e->stream)->copy(
        e->stream, &(tess_copy_args){.to = to, .from = from, .bytes = rows_of(e, batch) * row});
}

static tess_unit_memory *memory_in(const tess_executor *e, const tess_range *r, int unit, tess_walk_aim aim)
{
    const int last = tess_executor_kind(e, r->end - 1) == TESS_BLOCK_HEAD ? r->end - 2 : r->end - 1;
    const bool shared = aim == TESS_WALK_FOR_RESULT && tess_executor_kind(e, unit) == TESS_BLOCK_LAYER &&
                        last >= r->begin && tess_executor_kind(e, last) == TESS_BLOCK_LAYER;
    return tess_executor_memory(e, r->slot, shared ? last : unit);
}

/* The buffer to which the embedding writes the stream. */
static void *embedded(const tess_executor *e, const tess_range *r, tess_walk_aim aim)
{
    return tess_executor_units_of(e, r->slot).end > 1 ? memory_in(e, r, 1, aim)->saved.h : e->work.y;
}

/* Writes the output of `unit`, which has just run, to `to`. A layer's output is the sum of its h2 and branch. */
static tess_status leave_stream(const tess_executor *e, const tess_range *r, int unit, tess_walk_aim aim, void *to)
{
    if (tess_executor_kind(e, unit) == TESS_BLOCK_EMBEDDING)
        return to != embedded(e, r, aim) ? copy_stream(e, r->batch, to, embedded(e, r, aim)) : TESS_OK;
    return tess_stream_kernels(e->stream)->add(
        e->stream, &(tess_add_args){.a = memory_in(e, r, unit, aim)->saved.h2,
                                    .b = e->work.branch,
                                    .y = to,
                                    .n = rows_of(e, r->batch) * e->model->config.hidden_size,
                                    .dtype = e->options.dtype});
}

/* ---- Layer inputs of which each rank keeps only its own rows ---- */
static tess_layer_call by_rows(tess_layer_call call)
{
    call.rows = (tess_cut){call.T, 1};
    return call;
}

static tess_status keep_rows(const tess_layer_call *call, const tess_unit_memory *m)
{
    const tess_layer_call cut = by_rows(*call);
    int64_t begin, n = tess_own_rows(&cut, &begin);
    if (m->own_rows == NULL)
        return TESS_OK;
    return call->kernels->copy(call->stream, &(tess_copy_args){.to = m->own_rows,
                                                               .from = tess_own_part(&cut, m->saved.h),
                                                               .bytes = n * call->config->hidden_size *
                                                                        (int64_t)tess_dtype_size(call->dtype)});
}

/* Gathers the whole input of a layer. A collective if ranks keep only their own rows. */
static tess_status bring_rows(const tess_layer_call *call, const tess_unit_memory *m)
{
    const tess_layer_call cut = by_rows(*call);
    const void *whole;
    return m->own_rows != NULL ? tess_stream_gather(&cut, m->own_rows, m->saved.h, &whole) : TESS_OK;
}

/* ---- Embedding and layers ---- */
/* Computes one unit. A layer's input is the sum that the previous layer left, or it is already in h (`first`). */
static tess_status compute_forward(tess_executor *e, const tess_range *r, tess_layer_call *call, bool first,
                                   tess_walk_aim aim)
{
    tess_unit_memory *m = memory_in(e, r, call->unit, aim);
    if (call->block->kind == TESS_BLOCK_EMBEDDING)
        return tess_embedding_forward(call, embedded(e, r, aim));
    const bool ready = first || tess_executor_kind(e, call->unit - 1) == TESS_BLOCK_EMBEDDING;
    const tess_layer_saved *before = ready ? NULL : &memory_in(e, r, call->unit - 1, aim)->saved;
    TESS_TRY(tess_layer_forward(call, before, &m->saved, &m->work));
    return aim == TESS_WALK_FOR_BACKWARD ? keep_rows(call, m) : TESS_OK;
}

static tess_status forward_unit(tess_executor *e, const tess_range *r, int unit, bool first, tess_walk_aim aim)
{
    const bool keeps = r->batch != NULL && aim == TESS_WALK_FOR_BACKWARD;
    tess_layer_call call = call_of(e, r->batch, unit);
    if (r->batch != NULL)
        tess_model_name_unit(e->model, unit, e->stream);
    if (keeps)
        TESS_TRY(tess_executor_page_forward(e, r, unit));
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, unit, &call.w));
    if (r->batch != NULL)
        TESS_TRY(compute_forward(e, r, &call, first, aim));
    if (keeps)
        tess_executor_memory(e, r->slot, unit)->state = TESS_UNIT_FORWARD;
    if (keeps && unit > r->begin)
        tess_executor_page_done(e, r, unit - 1);
    return e->hooks.post_forward(e->hooks.self, unit);
}

/* Copies the range's input to the buffer from which its first unit reads. */
static tess_status take_stream(const tess_executor *e, const tess_range *r, const void *in, tess_walk_aim aim)
{
    const tess_unit_memory *m = memory_in(e, r, r->begin, aim);
    if (tess_executor_kind(e, r->begin) == TESS_BLOCK_EMBEDDING || in == m->saved.h)
        return TESS_OK;
    tess_executor_page_input(e, r->slot, (int)(m - tess_executor_memory(e, r->slot, 0)));
    return copy_stream(e, r->batch, m->saved.h, in);
}

tess_status tess_executor_forward_range(tess_executor *e, const tess_range *r, const void *in, void *out,
                                        tess_walk_aim aim)
{
    bool head = tess_executor_kind(e, r->end - 1) == TESS_BLOCK_HEAD;
    int last = head ? r->end - 2 : r->end - 1; /* less than r->begin: the range is only the head */
    if (r->batch != NULL && aim == TESS_WALK_FOR_RESULT && last >= r->begin)
        tess_executor_page_input(e, r->slot, last);
    if (r->batch != NULL)
        TESS_TRY(take_stream(e, r, in, aim));
    for (int unit = r->begin; unit <= last; unit++)
        TESS_TRY_CTX(forward_unit(e, r, unit, unit == r->begin, aim), "%s: forward", tess_executor_title(e, unit));
    if (r->batch == NULL)
        return TESS_OK;
    if (head) {
        tess_unit_memory *m = tess_executor_memory(e, r->slot, r->end - 1);
        m->state = TESS_UNIT_FORWARD;
        out = m->saved.h;
    }
    if (last < r->begin)
        return TESS_OK;
    TESS_TRY(leave_stream(e, r, last, aim, out));
    if (aim == TESS_WALK_FOR_RESULT) /* the page that holds the range's input */
        tess_executor_page_done(e, r, r->begin);
    tess_executor_page_done(e, r, last);
    return TESS_OK;
}

/* The work space of a unit. The units at the ends of a range use the caller's tensors. */
static tess_layer_work work_of(const tess_executor *e, const tess_range *r, int unit, void *din)
{
    const tess_unit_memory *m = tess_executor_memory(e, r->slot, unit);
    tess_layer_work work = m->work;
    if (unit == r->begin && din != NULL)
        work.dh = din;
    if (unit == r->end - 1)
        work.dh3 = (void *)(uintptr_t)m->dout; /* the layer only reads it */
    return work;
}

/* If `room` is not NULL, copies a tensor (T, F) to it and makes *tensor point to the copy. */
static tess_status copy_tensor(const tess_layer_call *call, void **tensor, void *room)
{
    const void *from = *tensor;
    if (room == NULL)
        return TESS_OK;
    *tensor = room;
    return call->kernels->copy(call->stream, &(tess_copy_args){.to = room,
                                                               .from = from,
                                                               .bytes = call->T * call->block->intermediate_size *
                                                                        (int64_t)tess_dtype_size(call->dtype)});
}

static tess_status backward_layer(const tess_layer_call *call, const tess_unit_memory *m, const tess_layer_work *work,
                                  bool want_dh)
{
    tess_layer_saved saved = m->saved;
    TESS_TRY(bring_rows(call, m));
    TESS_TRY(copy_tensor(call, &saved.gate, m->gate));
    TESS_TRY(copy_tensor(call, &saved.up, m->up));
    return tess_layer_backward(call, &saved, work, want_dh);
}

/* Runs the input part of a unit's backward. It computes no parameter gradients, so forward hooks, which give the
 * weights, are enough. */
static tess_status backward_input(tess_executor *e, tess_layer_call *call, const tess_unit_memory *m,
                                  const tess_layer_work *work)
{
    if (call->block->kind == TESS_BLOCK_EMBEDDING)
        return TESS_OK;
    call->dw = e->none;
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, call->unit, &call->w));
    if (call->batch != NULL)
        TESS_TRY(backward_layer(call, m, work, true));
    return e->hooks.post_forward(e->hooks.self, call->unit);
}

/* ---- A tied table ---- */
static const char no_head[] = "the head's backward on slot %d has not run, and it writes a tied table's gradient first";

static float *waiting_table(const tess_executor *e, int place)
{
    const tess_waiting_tables *t = &e->tables;
    return t->room + (t->first + place) % e->options.n_tables * t->count;
}

/* Finds the table's gradient to which the head has written its part: in the open window, or in the ring of waiting
 * ones. */
static tess_status reopen_table(tess_executor *e, int slot, tess_layer_call *call)
{
    tess_waiting_tables *t = &e->tables;
    if (e->options.n_tables == 0) {
        TESS_CHECK(e->open.is_open && e->open.slot == slot, TESS_E_INVALID, no_head, slot);
        call->w = e->open.w;
        call->dw = e->open.dw;
        e->open.is_open = false;
        return TESS_OK;
    }
    TESS_CHECK(t->n > 0, TESS_E_INVALID, no_head, slot);
    TESS_TRY(e->hooks.pre_backward(e->hooks.self, 0, &call->w, &call->dw));
    if (call->batch != NULL)
        TESS_TRY(call->kernels->copy(call->stream, &(tess_copy_args){.to = call->dw[call->block->table],
                                                                     .from = waiting_table(e, 0),
                                                                     .bytes = t->count * (int64_t)sizeof(float)}));
    t->first = (t->first + 1) % e->options.n_tables;
    t->n--;
    return TESS_OK;
}

/* Computes the whole backward of a unit, or its weight part. */
static tess_status backward_unit(tess_executor *e, const tess_range *r, int unit, const tess_backward *b)
{
    const tess_unit_memory *m = tess_executor_memory(e, r->slot, unit);
    const tess_layer_work work = work_of(e, r, unit, b->din);
    tess_layer_call call = call_of(e, r->batch, unit);
    bool embeds = call.block->kind == TESS_BLOCK_EMBEDDING;
    bool want_dh = unit > e->options.first_trainable_unit || b->din != NULL;
    if (r->batch != NULL) {
        tess_model_name_unit(e->model, unit, e->stream);
        TESS_TRY(tess_executor_page_backward(e, r, unit, b->part));
    }
    if (b->part == TESS_BACKWARD_INPUT) {
        TESS_TRY(backward_input(e, &call, m, &work));
        if (r->batch != NULL)
            tess_executor_page_done(e, r, unit);
        return TESS_OK;
    }
    if (embeds && tess_executor_trains_table(e))
        TESS_TRY(reopen_table(e, r->slot, &call));
    else
        TESS_TRY(e->hooks.pre_backward(e->hooks.self, unit, &call.w, &call.dw));
    if (r->batch != NULL && embeds)
        TESS_TRY(tess_embedding_backward(&call, work.dh3));
    else if (r->batch != NULL && b->part == TESS_BACKWARD_WEIGHTS && work.deferred)
        TESS_TRY(tess_layer_backward_weights(&call, &m->saved, &work));
    else if (r->batch != NULL)
        TESS_TRY(backward_layer(&call, m, &work, want_dh));
    if (r->batch != NULL)
        tess_executor_page_done(e, r, unit);
    return e->hooks.post_backward(e->hooks.self, unit);
}

/* ---- Head ---- */
/* Writes the final norm of the stream to work.y (T, C). */
static tess_status final_norm(tess_executor *e, const tess_layer_call *call, const tess_layer_saved *s)
{
    return tess_norm_forward(call, &call->block->final_norm, s->h, NULL, NULL, e->work.y, s->input_stats);
}

/* Shows the watch a column: one number for each row of the batch. */
static void show_column(const tess_layer_call *call, const char *what, float *column)
{
    if (call->watch->see != NULL)
        call->watch->see(call->watch->self, call->unit, what, column, TESS_F32, 0, call->T, 1);
}

/* Computes the head: reads work.y, writes the gradient of the stream. `last` has the parameters of the norm's unit,
 * `head` those of the head's weight. */
static tess_status compute_head(tess_executor *e, tess_layer_call *last, const tess_layer_call *head,
                                const tess_layer_saved *s, const tess_layer_work *w, const tess_backward *b)
{
    const tess_norm *norm = &last->block->final_norm;
    bool want_dy = e->options.first_trainable_unit < last->unit || b->din != NULL || tess_norm_trains(last, norm);
    bool logits = e->model->config.n_outputs == 0, values = last->block->value.weight >= 0;
    float *value = logits ? e->head.value : b->logprob;
    if (values) {
        TESS_TRY(tess_value_train(last, b->loss, &e->head, w->y, value));
        show_column(last, "values", value);
    }
    if (logits) {
        TESS_TRY(tess_head_train(head, b->loss, &e->head, w->y, want_dy, b->logprob));
        show_column(last, "log-probabilities", b->logprob);
    }
    if (values && want_dy)
        TESS_TRY(tess_value_backward(last, &e->head, w->y, logits ? w->branch : NULL));
    if (!want_dy)
        return TESS_OK;
    TESS_TRY(tess_norm_backward(last, norm, s->h, s->input_stats, tess_own_part(last, w->y), NULL, w->dh));
    tess_layer_show(last, "input gradient", w->dh, last->config->hidden_size);
    return TESS_OK;
}

/* Opens the window of unit 0, so that the head can write the table's gradient. The embedding's backward closes it. */
static tess_status open_window(tess_executor *e, int slot, tess_layer_call *head)
{
    TESS_CHECK(!e->open.is_open || e->open.slot == slot, TESS_E_INVALID,
               "slot %d: slot %d has the tied embedding's gradient open; run its backward down to the embedding first",
               slot, e->open.slot);
    TESS_TRY(e->hooks.pre_backward(e->hooks.self, 0, &head->w, &head->dw));
    e->open = (tess_open_table){true, slot, head->w, head->dw};
    return TESS_OK;
}

/* Reserves a place for the head's gradient until the embedding's part is added. */
static tess_status open_room(tess_executor *e, tess_layer_call *head)
{
    tess_waiting_tables *t = &e->tables;
    TESS_CHECK(t->n < e->options.n_tables, TESS_E_INVALID,
               "%d gradients of the tied table wait for the embedding's part, and there is room for no more", t->n);
    t->dw[e->model->blocks[0].table] = waiting_table(e, t->n++);
    head->dw = t->dw;
    return e->hooks.pre_forward(e->hooks.self, 0, &head->w);
}

/* Gives a tied head the table's weights, and the buffer for the table's gradient. */
static tess_status open_table(tess_executor *e, int slot, tess_layer_call *head)
{
    static float *const frozen[2] = {NULL, NULL};
    if (tess_executor_trains_table(e))
        return e->options.n_tables > 0 ? open_room(e, head) : open_window(e, slot, head);
    head->dw = frozen;
    return e->hooks.pre_forward(e->hooks.self, 0, &head->w);
}

/* Runs forward and backward of the last unit. A tied head uses the embedding's weights, and writes their gradient
 * first. */
static tess_status train_head(tess_executor *e, const tess_range *r, const tess_backward *b)
{
    bool tied = e->model->blocks[0].tied;
    tess_layer_call last = call_of(e, r->batch, e->model->n_units - 1);
    const tess_layer_saved *saved = &tess_executor_memory(e, r->slot, last.unit)->saved;
    const tess_layer_work work = work_of(e, r, last.unit, b->din);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, last.unit, &last.w));
    if (r->batch != NULL) {
        tess_model_name_unit(e->model, last.unit, e->stream);
        TESS_TRY(final_norm(e, &last, saved));
        tess_layer_show(&last, "final norm", tess_own_part(&last, e->work.y), last.config->hidden_size);
    }
    TESS_TRY(e->hooks.post_forward(e->hooks.self, last.unit));

    TESS_TRY(e->hooks.pre_backward(e->hooks.self, last.unit, &last.w, &last.dw));
    tess_layer_call head = last;
    if (tied)
        TESS_TRY(open_table(e, r->slot, &head));
    if (r->batch != NULL)
        TESS_TRY(compute_head(e, &last, &head, saved, &work, b));
    if (tied && !(tess_executor_trains_table(e) && e->options.n_tables == 0))
        TESS_TRY(e->hooks.post_forward(e->hooks.self, 0));
    return e->hooks.post_backward(e->hooks.self, last.unit);
}

/* Checks that all units of the range are in the state that this part of backward needs, and sets their next state. */
static tess_status advance_states(tess_executor *e, const tess_range *r, tess_backward_part part)
{
    static const char *const missing[] = {"its forward", "its forward", "the input part of its backward"};
    tess_unit_state needed = part == TESS_BACKWARD_WEIGHTS ? TESS_UNIT_OWES_WEIGHTS : TESS_UNIT_FORWARD;
    for (int unit = r->begin; unit < r->end; unit++)
        TESS_CHECK(tess_executor_memory(e, r->slot, unit)->state == needed, TESS_E_INVALID,
                   "%s: backward on slot %d, but %s has not run there", tess_executor_title(e, unit), r->slot,
                   missing[part]);
    for (int unit = r->begin; unit < r->end; unit++)
        tess_executor_memory(e, r->slot, unit)->state =
            part == TESS_BACKWARD_INPUT ? TESS_UNIT_OWES_WEIGHTS : TESS_UNIT_EMPTY;
    return TESS_OK;
}

tess_status tess_executor_backward_range(tess_executor *e, const tess_range *r, const tess_backward *b)
{
    bool head = tess_executor_kind(e, r->end - 1) == TESS_BLOCK_HEAD;
    int first = e->options.first_trainable_unit > r->begin ? e->options.first_trainable_unit : r->begin;
    int last = head ? r->end - 2 : r->end - 1;
    if (r->batch != NULL)
        TESS_TRY(advance_states(e, r, b->part));
    if (r->batch != NULL)
        tess_executor_page_ahead(e, r, last, b->part);
    if (head && b->part != TESS_BACKWARD_WEIGHTS)
        TESS_TRY_CTX(train_head(e, r, b), "head");
    else if (b->dout != NULL)
        tess_executor_memory(e, r->slot, r->end - 1)->dout = b->dout;
    for (int unit = last; unit >= first; unit--)
        TESS_TRY_CTX(backward_unit(e, r, unit, b), "%s: backward", tess_executor_title(e, unit));
    return e->seen;
}

tess_status tess_executor_table_backward(tess_executor *e, const tess_batch *batch, const void *dstream)
{
    tess_layer_call call = call_of(e, batch, 0);
    TESS_TRY(reopen_table(e, 0, &call));
    if (batch != NULL) {
        tess_model_name_unit(e->model, 0, e->stream);
        TESS_TRY(tess_embedding_backward(&call, dstream));
    }
    return e->hooks.post_backward(e->hooks.self, 0);
}

/* ---- The head in evaluation ---- */
static tess_status pick_logits(tess_executor *e, tess_layer_call call, const tess_head_task *task)
{
    int64_t C = call.config->hidden_size;
    void *picked = e->split.stream != NULL ? e->split.stream : e->work.branch;
    int32_t *index = e->ids; /* reuses the ids' buffer: nothing reads ids after the embedding */
    TESS_TRY(tess_upload(e->stream, index, task->rows, (size_t)task->n_rows * sizeof(int32_t)));
    TESS_TRY(call.kernels->gather_rows(
        call.stream, &(tess_gather_rows_args){.x = e->work.y,
                                              .index = index,
                                              .y = picked,
                                              .n = task->n_rows,
                                              .row_bytes = C * (int64_t)tess_dtype_size(call.dtype)}));
    call.T = task->n_rows;
    return tess_head_logits(&call, &e->head, picked, task->logits);
}

tess_status tess_executor_evaluate_head(tess_executor *e, const tess_range *r, const tess_head_task *task)
{
    tess_layer_call call = call_of(e, r->batch, e->model->n_units - 1);
    bool tied = e->model->blocks[0].tied;
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, call.unit, &call.w));
    tess_model_name_unit(e->model, call.unit, e->stream);
    TESS_TRY(final_norm(e, &call, &tess_executor_memory(e, r->slot, call.unit)->saved));
    tess_layer_show(&call, "final norm", tess_own_part(&call, e->work.y), call.config->hidden_size);
    if (task->values != NULL)
        TESS_TRY(tess_value_forward(&call, e->work.y, task->values));
    if (tied)
        TESS_TRY(e->hooks.pre_forward(e->hooks.self, 0, &call.w));
    if (task->logits != NULL)
        TESS_TRY(pick_logits(e, call, task));
    if (task->logprob != NULL)
        TESS_TRY(tess_head_forward(&call, &e->head, e->work.y, task->inv_temperature, task->logprob, task->entropy));
    if (tied)
        TESS_TRY(e->hooks.post_forward(e->hooks.self, 0));
    return e->hooks.post_forward(e->hooks.self, call.unit);
}
