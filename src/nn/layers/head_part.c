/* The head as a part: the final norm, then the map to logits, a value head, or both. The norm runs first, in a window
 * of the head's own parameters; a tied head then needs the window of the unit that owns the table. */
#include "device/device.h"
#include "nn/layers/model_ends.h"
#include "nn/layers/layers.h"

/* y (T, C) = norm(h) */
static tess_status forward(const tess_layer_call *c, const tess_tensors *t, const void *before,
                           TESS_UNUSED unsigned groups)
{
    const tess_head_params *p = c->own;
    const tess_head_tensors *work = t->own;
    const void *y;
    TESS_TRY(tess_norm_input(c, &p->norm, t, before, work->stats, &y));
    tess_layer_show(c, "final norm", tess_own_part(c, y), c->block->hidden_size);
    return TESS_OK;
}

/* Reads y, and writes the gradient of the stream. A value head adds its part of dy to that of the logits. */
static tess_status train(const tess_layer_call *c, const tess_layer_call *lent, const tess_tensors *t,
                         const tess_backward *b, bool want_din)
{
    const tess_head_params *p = c->own;
    const tess_head_tensors *work = t->own;
    const bool want_dy = want_din || tess_norm_trains(c, &p->norm);
    const bool logits = c->config->n_outputs == 0, values = p->value.weight >= 0;
    float *value = logits ? work->value : b->logprob;
    if (values) {
        TESS_TRY(tess_value_train(c, b->loss, work, t->y, value));
        tess_layer_show_floats(c, "values", value, c->T, 1);
    }
    if (logits) {
        TESS_TRY(tess_head_train(lent, b->loss, work, t->y, want_dy, b->logprob));
        tess_layer_show_floats(c, "log-probabilities", b->logprob, c->T, 1);
    }
    if (values && want_dy)
        TESS_TRY(tess_value_backward(c, work, t->y, logits ? t->branch : NULL));
    if (!want_dy)
        return TESS_OK;
    TESS_TRY(tess_norm_backward(c, &p->norm, t->in, work->stats, tess_own_part(c, t->y), NULL, t->din));
    tess_layer_show(c, "input gradient", t->din, c->block->hidden_size);
    return TESS_OK;
}

/* The ids' memory holds the rows' numbers: nothing reads ids after the embedding. */
static tess_status pick_logits(tess_layer_call c, const tess_tensors *t, const tess_head_task *task)
{
    void *picked = c.split.stream != NULL ? c.split.stream : t->branch;
    TESS_TRY(tess_upload(c.stream, c.inputs[TESS_INPUT_IDS], task->rows, (size_t)task->n_rows * sizeof(int32_t)));
    TESS_TRY(c.kernels->gather_rows(
        c.stream, &(tess_gather_rows_args){.x = t->y,
                                           .index = c.inputs[TESS_INPUT_IDS],
                                           .y = picked,
                                           .n = task->n_rows,
                                           .row_bytes = c.block->hidden_size * (int64_t)tess_dtype_size(c.dtype)}));
    c.T = task->n_rows;
    return tess_head_logits(&c, t->own, picked, task->logits);
}

static tess_status evaluate(const tess_layer_call *c, const tess_layer_call *lent, const tess_tensors *t,
                            const tess_head_task *task)
{
    if (task->values != NULL)
        TESS_TRY(tess_value_forward(c, t->y, task->values));
    if (task->logits != NULL)
        TESS_TRY(pick_logits(*lent, t, task));
    if (task->logprob != NULL)
        TESS_TRY(tess_head_forward(lent, t->own, t->y, task->inv_temperature, task->logprob, task->entropy));
    return TESS_OK;
}

/* 6 operations for each weight of the map to logits, which is no matrix of a layer. */
static double flops(const void *own, TESS_UNUSED int64_t seq_len)
{
    const tess_head_params *p = own;
    return 6.0 * (double)p->head.n_out * (double)p->head.n_in;
}

/* ROW: elements of a row of logits; OWN: this rank's rows of the matrix, if ranks share it */
enum { ROW = TESS_OWN_DIMS, OWN, VALUE, BESIDE };

static void find_sizes(const tess_model *model, const void *own, int64_t sizes[TESS_N_DIMS])
{
    const tess_head_params *p = own;
    const int64_t V = p->head.n_out;
    int64_t begin, rows;
    tess_shard_rows(V, model->part.tp_degree, model->part.tp_rank, &begin, &rows);
    sizes[ROW] = tess_head_row(V);
    sizes[OWN] = model->part.tp_degree > 1 ? rows : -1;
    sizes[VALUE] = p->value.weight >= 0 ? 1 : -1;
    sizes[BESIDE] = model->config.n_outputs == 0 ? sizes[VALUE] : -1;
}

/* clang-format off */
#define AT(member) offsetof(tess_head_tensors, member)
enum {
    SAVED = TESS_TENSOR_SAVED, WORK = TESS_TENSOR_FORWARD | TESS_TENSOR_BACKWARD, BACKWARD = TESS_TENSOR_BACKWARD
};
static const tess_tensor_row tensors[] = {
    {AT(stats.rstd),TESS_DIM_R,      TESS_DIM_ONE,  true,  SAVED,    0},
    {AT(stats.mean),TESS_DIM_R,      TESS_DIM_MEAN, true,  SAVED,    0},
    {AT(logits),    TESS_DIM_LOGITS, ROW,           true,  WORK,     0},
    {AT(own_weight),OWN,             TESS_DIM_C,    false, WORK,     0},
    {AT(own_logits),TESS_DIM_LOGITS, OWN,           true,  WORK,     0},
    {AT(entropy),   TESS_DIM_T,      TESS_DIM_ONE,  true,  BACKWARD, 0},
    {AT(dlogprob),  TESS_DIM_T,      TESS_DIM_ONE,  true,  BACKWARD, 0},
    {AT(dentropy),  TESS_DIM_T,      TESS_DIM_ONE,  true,  BACKWARD, 0},
    {AT(dvalue),    TESS_DIM_T,      VALUE,         false, BACKWARD, 0},
    {AT(value),     TESS_DIM_T,      BESIDE,        true,  BACKWARD, 0},
};
#undef AT
/* clang-format on */

const tess_part tess_head_part = {
    .name = "head",
    .sink = true,
    .own_bytes = sizeof(tess_head_params),
    .work_bytes = sizeof(tess_head_tensors),
    .tensors = tensors,
    .n_tensors = sizeof(tensors) / sizeof(tensors[0]),
    .sizes = find_sizes,
    .forward = forward,
    .train = train,
    .evaluate = evaluate,
    .flops = flops,
};
