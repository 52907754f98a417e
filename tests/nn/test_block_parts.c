/* A new part of a block is a table and two functions: the executor plans its tensors and calls it in order. The part of
 * this test adds nothing to the stream, so no bit changes. */
#include "fixture.h"
#include "nn/layers/layers.h"

enum { MAX_T = FIXTURE_TOKENS, UNIT = 1 };

typedef struct idle_tensors {
    float *seen; /* (T) */
} idle_tensors;

/* x (R, C) = before + branch;  branch = 0. */
static tess_status idle_forward(const tess_layer_call *c, const tess_tensors *t, const void *before, unsigned groups)
{
    const int64_t n = c->T * c->block->hidden_size;
    const idle_tensors *w = t->own;
    (void)groups;
    if (c->dw != NULL)
        return TESS_OK;
    TESS_TRY(c->kernels->add(c->stream,
                             &(tess_add_args){.a = before, .b = t->branch, .y = t->in, .n = n, .dtype = c->dtype}));
    w->seen[c->T - 1] = *(const float *)c->own;
    return c->kernels->scale(
        c->stream, &(tess_scale_args){.x = t->branch, .factor = 0, .y = t->branch, .n = n, .dtype = c->dtype});
}

/* The stream's gradient passes unchanged. */
static tess_status idle_backward(const tess_layer_call *c, const tess_tensors *t, bool inputs, bool want_din)
{
    const idle_tensors *w = t->own;
    (void)inputs, (void)want_din;
    return c->unit == UNIT && w->seen[c->T - 1] == 7 ? TESS_OK
                                                     : TESS_FAIL(TESS_E_INVALID, "unit %d has no such part", c->unit);
}

static const tess_tensor_row idle_rows[] = {
    {offsetof(idle_tensors, seen), TESS_DIM_T, TESS_DIM_ONE, true, TESS_TENSOR_SAVED, 0},
};

static const tess_part idle = {.name = "idle",
                               .own_bytes = sizeof(float),
                               .work_bytes = sizeof(idle_tensors),
                               .tensors = idle_rows,
                               .n_tensors = 1,
                               .forward = idle_forward,
                               .backward = idle_backward};

static void train_once(const fixture *f, rig *r, tess_executor_options options, float *logprob)
{
    tess_executor *executor = rig_executor(r, options);
    EXPECT_OK(tess_executor_train(executor, &f->batch, NULL, logprob));
    tess_executor_destroy(&executor);
}

static void a_part_is_a_table_and_two_functions(void)
{
    fixture f;
    fixture_open(&f, "llama");
    for (int way = 0; way < 3; way++) {
        const tess_executor_options options = {.max_tokens = MAX_T,
                                               .max_position = f.max_position,
                                               .train = true,
                                               .recompute = way == 1 ? TESS_RECOMPUTE_FULL : TESS_RECOMPUTE_NONE,
                                               .first_trainable_unit = way == 2 ? UNIT : 0};
        const int64_t C = f.config.hidden_size;
        float expected[MAX_T], got[MAX_T];
        rig plain, more;
        rig_open(&plain, &f.config, TESS_F32, NULL, 1);
        rig_open(&more, &f.config, TESS_F32, NULL, 1);
        *(float *)tess_model_add_part(more.model, UNIT, &idle) = 7;
        EXPECT_INT(tess_executor_bytes(more.model, &options),
                   tess_executor_bytes(plain.model, &options) + (size_t)(MAX_T * C + MAX_T) * sizeof(float));
        train_once(&f, &plain, options, expected);
        train_once(&f, &more, options, got);
        EXPECT_SAME(got, expected, (size_t)f.batch.n_tokens);
        for (int i = 0; i < plain.n_params; i++)
            test_expect_same(__FILE__, __LINE__, tess_model_param(plain.model, i)->name, more.dw[i], plain.dw[i],
                             (size_t)tess_shape_count(&tess_model_param(plain.model, i)->shape), sizeof(float));
        rig_close(&more);
        rig_close(&plain);
    }
    fixture_close(&f);
}

static const test_case cases[] = {CASE(a_part_is_a_table_and_two_functions)};
TEST_MAIN(cases)
