/* Walks over the units of a model: calls the hooks in order, and computes between them. */
#include "nn/executor_impl.h"

static tess_layer_call call_of(const tess_executor *e, const tess_batch *batch, int unit)
{
    return (tess_layer_call){
        .stream = e->stream,
        .kernels = tess_stream_kernels(e->stream),
        .dtype = e->options.dtype,
        .T = batch->n_tokens,
        .rows = tess_executor_rows(&e->options, batch->n_tokens),
        .block = &e->model->blocks[unit],
        .config = &e->model->config,
        .batch = batch,
        .seqs = e->seqs,
        .graded = e->graded,
        .inputs = e->inputs,
        .unit = unit,
        .ropes = e->ropes,
        .watch = &e->shown,
        .points = &e->points,
        .expert_points = &e->expert_points,
        .context = &e->options.context,
        .n_leaves = tess_executor_own_leaves(&e->options),
        .states_leaf =
            e->options.context.n_leaves > 1 && !tess_device_get_properties(tess_stream_device(e->stream))->host_memory,
        .context_work = e->context_work,
        .readers = &e->readers,
        .read_rows = e->read_rows,
        .leaf_room = e->leaf_room,
        .leaf_tables = e->leaf_tables,
        .split = e->split,
        .low_rank = e->low_rank,
        .fusing = e->fusing,
        .loads = e->options.loads,
        .logit_bytes = e->options.logit_bytes,
        .rounds = e->options.fp8 && tess_executor_passes(e, unit),
        .decode = e->options.decode,
        .rounded = e->rounded,
    };
}

/* ---- The stream ---- */
static int64_t rows_of(const tess_executor *e, const tess_batch *batch)
{
    return tess_executor_stream_rows(e->model, &e->options, batch->n_tokens);
}

static tess_status copy(const tess_executor *e, void *to, const void *from, int64_t bytes)
{
    return tess_stream_kernels(e->stream)->copy(e->stream, &(tess_copy_args){.to = to, .from = from, .bytes = bytes});
}

static tess_status copy_stream(const tess_executor *e, const tess_batch *batch, int unit, void *to, const void *from)
{
    int64_t row = e->model->blocks[unit].hidden_size * (int64_t)tess_dtype_size(e->options.dtype);
    return copy(e, to, from, rows_of(e, batch) * row);
}

static bool has_same_parts(const tess_executor *e, int unit, int other)
{
    const tess_block *a = &e->model->blocks[unit], *b = &e->model->blocks[other];
    int n = 0;
    while (n < a->n_parts && n < b->n_parts && a->parts[n].part == b->parts[n].part)
        n++;
    return n == a->n_parts && n == b->n_parts;
}

static tess_unit_memory *memory_in(const tess_executor *e, const tess_range *r, int unit, tess_walk_aim aim)
{
    const int last = tess_executor_last(e, r);
    const bool shared = aim == TESS_WALK_FOR_RESULT && tess_executor_passes(e, unit) && last >= r->begin &&
                        tess_executor_passes(e, last) && has_same_parts(e, unit, last);
    return tess_executor_memory(e, r->slot, shared ? last : unit);
}

/* The buffer to which a unit that makes the stream writes it: the input of the next one. */
static void *made_stream(const tess_executor *e, const tess_range *r, int unit, tess_walk_aim aim)
{
    const bool last = unit + 1 == tess_executor_units_of(e, r->slot).end;
    return last ? e->y : memory_in(e, r, unit + 1, aim)->parts[0].tensors.in;
}

/* The stream that `unit` left, which has just run: the result is to be added to `branch`. NULL: the unit has written
 * the whole stream to the input of the next one. */
static const void *left_stream(const tess_executor *e, const tess_range *r, int unit, tess_walk_aim aim)
{
    const tess_block *block = &e->model->blocks[unit];
    return memory_in(e, r, unit, aim)->parts[block->n_parts - 1].tensors.in;
}

/* Writes the output of `unit`, which has just run, to `to`. */
static tess_status leave_stream(const tess_executor *e, const tess_range *r, int unit, tess_walk_aim aim, void *to)
{
    const void *left = left_stream(e, r, unit, aim), *made = left == NULL ? made_stream(e, r, unit, aim) : NULL;
    if (left == NULL)
        return to != made ? copy_stream(e, r->batch, unit, to, made) : TESS_OK;
    return tess_stream_kernels(e->stream)->add(
        e->stream, &(tess_add_args){.a = left,
                                    .b = e->branch,
                                    .y = to,
                                    .n = rows_of(e, r->batch) * e->model->blocks[unit].hidden_size,
                                    .dtype = e->options.dtype});
}

/* ---- Layer inputs of which each rank keeps only its own rows ---- */
static tess_layer_call by_rows(tess_layer_call call)
{
    call.rows = (tess_cut){call.T, 1};
    return call;
}

static tess_status keep_rows(const tess_executor *e, const tess_layer_call *call, const tess_unit_memory *m)
{
    const tess_layer_call cut = by_rows(*call);
    int64_t begin, n = tess_own_rows(&cut, &begin);
    return m->own_rows == NULL ? TESS_OK
                               : copy(e, m->own_rows, tess_own_part(&cut, m->parts[0].tensors.in),
                                      n * call->block->hidden_size * (int64_t)tess_dtype_size(call->dtype));
}

/* Gathers the whole input of a layer. A collective if ranks keep only their own rows. */
static tess_status bring_rows(const tess_layer_call *call, const tess_unit_memory *m)
{
    const tess_layer_call cut = by_rows(*call);
    const void *whole;
    return m->own_rows != NULL ? tess_stream_gather(&cut, m->own_rows, m->parts[0].tensors.in, &whole) : TESS_OK;
}

/* ---- Units ---- */
static tess_layer_call call_of_part(const tess_layer_call *call, int i)
{
    tess_layer_call part = *call;
    part.own = call->block->parts[i].own;
    return part;
}

/* Runs the parts forward. made: the memory for the stream of a source */
static tess_status forward_parts(const tess_layer_call *call, const tess_unit_memory *m, const void *before, void *made)
{
    for (int i = 0; i < call->block->n_parts; i++) {
        const tess_part *part = call->block->parts[i].part;
        const tess_layer_call own = call_of_part(call, i);
        tess_tensors t = m->parts[i].tensors;
        t.in = part->source ? made : t.in;
        TESS_TRY(part->forward(&own, &t, t.adds ? NULL : before, TESS_GROUP_ALL));
        before = t.in;
    }
    return TESS_OK;
}

/* Computes one unit. Its input is the sum that the previous unit left, or it is already in place (`first`). */
static tess_status compute_forward(tess_executor *e, const tess_range *r, const tess_layer_call *call, bool first,
                                   tess_walk_aim aim)
{
    const tess_unit_memory *m = memory_in(e, r, call->unit, aim);
    void *made = tess_executor_reads(e, call->unit) ? NULL : made_stream(e, r, call->unit, aim);
    TESS_TRY(forward_parts(call, m, first ? NULL : left_stream(e, r, call->unit - 1, aim), made));
    return aim == TESS_WALK_FOR_BACKWARD ? keep_rows(e, call, m) : TESS_OK;
}

static tess_status forward_unit(tess_executor *e, const tess_range *r, int unit, bool first, tess_walk_aim aim)
{
    const bool keeps = aim == TESS_WALK_FOR_BACKWARD;
    tess_layer_call call = call_of(e, r->batch, unit);
    tess_model_name_unit(e->model, unit, e->stream);
    if (keeps)
        TESS_TRY(tess_executor_page_forward(e, r, unit));
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, unit, &call.w));
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
    if (!tess_executor_reads(e, r->begin) || in == m->parts[0].tensors.in)
        return TESS_OK;
    tess_executor_page_input(e, r->slot, (int)(m - tess_executor_memory(e, r->slot, 0)));
    return copy_stream(e, r->batch, r->begin, m->parts[0].tensors.in, in);
}

tess_status tess_executor_forward_range(tess_executor *e, const tess_range *r, const void *in, void *out,
                                        tess_walk_aim aim)
{
    const int last = tess_executor_last(e, r);
    if (aim == TESS_WALK_FOR_RESULT && last >= r->begin)
        tess_executor_page_input(e, r->slot, last);
    TESS_TRY(take_stream(e, r, in, aim));
    for (int unit = r->begin; unit <= last; unit++)
        TESS_TRY_CTX(forward_unit(e, r, unit, unit == r->begin, aim), "%s: forward", tess_executor_title(e, unit));
    if (last < r->end - 1) {
        tess_unit_memory *m = tess_executor_memory(e, r->slot, r->end - 1);
        m->state = TESS_UNIT_FORWARD;
        out = m->parts[0].tensors.in;
    }
    if (last < r->begin)
        return TESS_OK;
    TESS_TRY(leave_stream(e, r, last, aim, out));
    if (aim == TESS_WALK_FOR_RESULT) /* the page that holds the range's input */
        tess_executor_page_done(e, r, r->begin);
    tess_executor_page_done(e, r, last);
    return TESS_OK;
}

/* The tensors of part i of a unit for backward. The units at the ends of a range use the caller's gradients. */
static tess_tensors tensors_of(const tess_executor *e, const tess_range *r, int unit, int i, void *din)
{
    const tess_unit_memory *m = tess_executor_memory(e, r->slot, unit);
    const tess_block *block = &e->model->blocks[unit];
    const bool beside = i + 1 < block->n_parts && block->parts[i + 1].parallel;
    const int after = i + 1 + beside; /* the part that reads what this one leaves */
    tess_tensors t = m->parts[i].tensors;
    t.own = m->parts[i].own_again;
    if (unit == r->begin && i == 0 && din != NULL)
        t.din = din;
    /* the parts only read it */
    t.dout = after < block->n_parts ? m->parts[after].tensors.din
             : unit == r->end - 1   ? (void *)(uintptr_t)m->given
                                    : m->dout;
    t.dsum = beside ? m->parts[i + 1].tensors.din : t.dout;
    return t;
}

/* Copies the tensors of a part that are on disk and that backward overwrites. */
static tess_status copy_overwritten(const tess_executor *e, const tess_layer_call *call, int i,
                                    const tess_part_memory *m)
{
    const tess_part *part = call->block->parts[i].part;
    int64_t sizes[TESS_N_DIMS];
    tess_executor_sizes(e, call->unit, i, call->T, sizes);
    for (int j = 0; j < part->n_tensors; j++) {
        const tess_tensor_row *row = &part->tensors[j];
        void *kept = tess_tensor_get(m->tensors.own, row->at), *room = tess_tensor_get(m->own_again, row->at);
        if (room != kept)
            TESS_TRY(copy(e, room, kept,
                          sizes[row->rows] * sizes[row->columns] *
                              (int64_t)(row->is_float ? sizeof(float) : tess_dtype_size(call->dtype))));
    }
    return TESS_OK;
}

static tess_status backward_parts(const tess_executor *e, const tess_range *r, const tess_layer_call *call, bool inputs,
                                  bool want_din, void *din)
{
    const tess_unit_memory *m = tess_executor_memory(e, r->slot, call->unit);
    const int n = call->block->n_parts;
    TESS_TRY(bring_rows(call, m));
    for (int step = 0; step < 2 * n; step++) { /* forward of what is dropped, then backward */
        const int i = step < n ? step : 2 * n - 1 - step;
        const tess_part *part = call->block->parts[i].part;
        const tess_layer_call own = call_of_part(call, i);
        const tess_tensors t = tensors_of(e, r, call->unit, i, din);
        if (step < n && inputs)
            TESS_TRY(copy_overwritten(e, call, i, &m->parts[i]));
        if (step >= n)
            TESS_TRY(part->backward(&own, &t, inputs, want_din || (inputs && i > 0)));
        else if (!part->source)
            TESS_TRY(part->forward(&own, &t, i > 0 && !t.adds ? m->parts[i - 1].tensors.in : NULL, t.dropped));
    }
    return TESS_OK;
}

/* ---- A tied table ---- */
static const char no_head[] = "the head's backward on slot %d has not run, and it writes a tied table's gradient first";

static float *waiting_table(const tess_executor *e, int place)
{
    const tess_waiting_tables *t = &e->tables;
    return t->room + (t->first + place) % e->options.n_tables * t->count * tess_executor_own_leaves(&e->options);
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
    TESS_TRY(e->hooks.pre_backward(e->hooks.self, call->unit, &call->w, &call->dw));
    float *const first = waiting_table(e, 0); /* the next head that writes there runs after this backward */
    TESS_TRY(copy(e, call->dw[call->block->table], first, t->count * (int64_t)sizeof(float)));
    call->leaf_tables = call->n_leaves > 1 ? first + t->count : NULL;
    t->first = (t->first + 1) % e->options.n_tables;
    t->n--;
    return TESS_OK;
}

/* Opens the windows that a part of backward needs. The input part computes no parameter gradients, so forward hooks,
 * which give the weights, are enough. */
static tess_status open_unit(tess_executor *e, int slot, tess_backward_part part, tess_layer_call *call)
{
    if (part == TESS_BACKWARD_INPUT) {
        call->dw = e->none;
        return e->hooks.pre_forward(e->hooks.self, call->unit, &call->w);
    }
    if (call->unit == e->model->table_unit && tess_executor_trains_table(e))
        return reopen_table(e, slot, call);
    return e->hooks.pre_backward(e->hooks.self, call->unit, &call->w, &call->dw);
}

/* Computes the backward of a unit, or a part of it. */
static tess_status backward_unit(tess_executor *e, const tess_range *r, int unit, const tess_backward *b)
{
    const bool input_part = b->part == TESS_BACKWARD_INPUT;
    tess_layer_call call = call_of(e, r->batch, unit);
    const bool inputs =
        b->part != TESS_BACKWARD_WEIGHTS || !tess_executor_memory(e, r->slot, unit)->parts[0].tensors.deferred;
    const bool want_din = input_part || unit > e->options.first_trainable_unit || b->din != NULL;
    if (input_part && !tess_executor_reads(e, unit))
        return TESS_OK;
    call.routers = b->loss != NULL ? b->loss->routers : 1;
    tess_model_name_unit(e->model, unit, e->stream);
    TESS_TRY(tess_executor_page_backward(e, r, unit, b->part));
    TESS_TRY(open_unit(e, r->slot, b->part, &call));
    TESS_TRY(backward_parts(e, r, &call, inputs, inputs && want_din, b->din));
    tess_executor_page_done(e, r, unit);
    return input_part ? e->hooks.post_forward(e->hooks.self, unit) : e->hooks.post_backward(e->hooks.self, unit);
}

/* ---- A unit that ends the stream ---- */
/* Opens the window of the table's unit, so that the head can write the table's gradient. The embedding's backward
 * closes it. */
static tess_status open_window(tess_executor *e, int slot, tess_layer_call *head)
{
    TESS_CHECK(!e->open.is_open || e->open.slot == slot, TESS_E_INVALID,
               "slot %d: slot %d has the tied embedding's gradient open; run its backward down to the embedding first",
               slot, e->open.slot);
    TESS_TRY(e->hooks.pre_backward(e->hooks.self, e->model->table_unit, &head->w, &head->dw));
    e->open = (tess_open_table){true, slot, head->w, head->dw};
    return TESS_OK;
}

/* Reserves a place for the head's gradient until the embedding's part is added. */
static tess_status open_room(tess_executor *e, tess_layer_call *head)
{
    tess_waiting_tables *t = &e->tables;
    TESS_CHECK(t->n < e->options.n_tables, TESS_E_INVALID,
               "%d gradients of the tied table wait for the embedding's part, and there is room for no more", t->n);
    float *const room = waiting_table(e, t->n++);
    t->dw[e->model->blocks[e->model->table_unit].table] = room;
    head->dw = t->dw;
    head->leaf_tables = head->n_leaves > 1 ? room + t->count : NULL;
    return e->hooks.pre_forward(e->hooks.self, e->model->table_unit, &head->w);
}

/* Gives a tied head the table's weights, and the buffer for the table's gradient. */
static tess_status open_table(tess_executor *e, int slot, tess_layer_call *head)
{
    static float *const frozen[2] = {NULL, NULL};
    if (tess_executor_trains_table(e))
        return e->options.n_tables > 0 ? open_room(e, head) : open_window(e, slot, head);
    head->dw = frozen;
    return e->hooks.pre_forward(e->hooks.self, e->model->table_unit, &head->w);
}

/* The call of the part that ends a range's stream. */
static tess_layer_call call_of_sink(const tess_executor *e, const tess_range *r)
{
    const tess_layer_call call = call_of(e, r->batch, r->end - 1);
    return call_of_part(&call, call.block->n_parts - 1);
}

static const tess_part *sink_of(const tess_layer_call *call)
{
    return call->block->parts[call->block->n_parts - 1].part;
}

/* Runs forward of a unit that ends the stream, up to the results that only backward or an evaluation computes. */
static tess_status prepare_sink(tess_executor *e, const tess_range *r, const tess_layer_call *call)
{
    tess_model_name_unit(e->model, call->unit, e->stream);
    return forward_parts(call, tess_executor_memory(e, r->slot, call->unit), NULL, NULL);
}

/* Runs forward and backward of the unit that ends the stream. A tied head uses the embedding's weights, and writes
 * their gradient first. */
static tess_status train_sink(tess_executor *e, const tess_range *r, const tess_backward *b)
{
    const int table = e->model->table_unit;
    tess_layer_call call = call_of_sink(e, r);
    const tess_tensors t = tensors_of(e, r, call.unit, call.block->n_parts - 1, b->din);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, call.unit, &call.w));
    TESS_TRY(prepare_sink(e, r, &call));
    TESS_TRY(e->hooks.post_forward(e->hooks.self, call.unit));

    TESS_TRY(e->hooks.pre_backward(e->hooks.self, call.unit, &call.w, &call.dw));
    tess_layer_call lent = call;
    if (table >= 0)
        TESS_TRY(open_table(e, r->slot, &lent));
    const bool want_din = e->options.first_trainable_unit < call.unit || b->din != NULL;
    TESS_TRY(sink_of(&call)->train(&call, &lent, &t, b, want_din));
    if (table >= 0 && !(tess_executor_trains_table(e) && e->options.n_tables == 0))
        TESS_TRY(e->hooks.post_forward(e->hooks.self, table));
    return e->hooks.post_backward(e->hooks.self, call.unit);
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
    const int first = e->options.first_trainable_unit > r->begin ? e->options.first_trainable_unit : r->begin;
    const int last = tess_executor_last(e, r);
    TESS_TRY(advance_states(e, r, b->part));
    tess_executor_page_ahead(e, r, last, b->part);
    if (last < r->end - 1 && b->part != TESS_BACKWARD_WEIGHTS)
        TESS_TRY_CTX(train_sink(e, r, b), "%s", tess_executor_title(e, r->end - 1));
    else if (b->dout != NULL)
        tess_executor_memory(e, r->slot, r->end - 1)->given = b->dout;
    for (int unit = last; unit >= first; unit--)
        TESS_TRY_CTX(backward_unit(e, r, unit, b), "%s: backward", tess_executor_title(e, unit));
    return e->seen;
}

tess_status tess_executor_table_backward(tess_executor *e, const tess_batch *batch, const void *dstream)
{
    const tess_layer_call unit = call_of(e, batch, e->model->table_unit);
    tess_layer_call call = call_of_part(&unit, 0);
    const tess_tensors t = {.dout = (void *)(uintptr_t)dstream};
    TESS_TRY(reopen_table(e, 0, &call));
    tess_model_name_unit(e->model, call.unit, e->stream);
    TESS_TRY(call.block->parts[0].part->backward(&call, &t, true, false));
    return e->hooks.post_backward(e->hooks.self, call.unit);
}

tess_status tess_executor_evaluate_head(tess_executor *e, const tess_range *r, const tess_head_task *task)
{
    const int table = e->model->table_unit;
    tess_layer_call call = call_of_sink(e, r);
    const tess_tensors t = tensors_of(e, r, call.unit, call.block->n_parts - 1, NULL);
    TESS_TRY(e->hooks.pre_forward(e->hooks.self, call.unit, &call.w));
    TESS_TRY(prepare_sink(e, r, &call));
    tess_layer_call lent = call;
    if (table >= 0)
        TESS_TRY(e->hooks.pre_forward(e->hooks.self, table, &lent.w));
    TESS_TRY(sink_of(&call)->evaluate(&call, &lent, &t, task));
    if (table >= 0)
        TESS_TRY(e->hooks.post_forward(e->hooks.self, table));
    return e->hooks.post_forward(e->hooks.self, call.unit);
}
