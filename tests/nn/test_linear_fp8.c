/* Linear maps that round through fp8: against plain loops in float64 over rounded operands, and what a layer keeps. */
#include <math.h>

#include "base/core/rng.h"
#include "fixture.h"
#include "nn/layers/layers.h"

enum { T = 5, C = 150, F = 200, AHEAD = 3, ROOM = T * (C + 2 * F) + 2 * F * C };

/* A map, its weight and gradient; of two maps with one input. */
typedef struct map {
    tess_linear linear;
    float w[(C + 1) * (F + AHEAD)], dw[(C + 1) * (F + AHEAD)], dy[T * (F + AHEAD)], y[T * (F + AHEAD)];
} map;

typedef struct case_of {
    tess_stream *stream;
    map maps[2];
    float x[T * C], dx[T * C], rounded[ROOM];
    const void *w[2];
    float *dw[2];
    tess_points points;
    tess_layer_call call;
} case_of;

/* Rounded (rows, columns) of a stored matrix. */
static float *from_fp8(const case_of *c, const float *x, int64_t ld, int64_t rows, int64_t columns, tess_fp8 format)
{
    float *y = test_alloc((size_t)(rows * columns) * sizeof(float));
    EXPECT_OK(tess_stream_kernels(c->stream)->round_fp8(
        c->stream, &(tess_round_fp8_args){
                       .x = x, .stride = ld, .y = y, .rows = rows, .C = columns, .format = format, .dtype = TESS_F32}));
    return y;
}

static void fill(float *x, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)tess_rng_normal(7, TESS_RNG_TEST, stream, i);
}

/* in_out: stored as Conv1D, a view of columns, whose outputs are parts of longer rows. */
static void open_case(case_of *c, const char *level, bool in_out)
{
    memset(c, 0, sizeof(*c));
    EXPECT_OK(tess_stream_create(test_mem(), 1, level, &c->stream));
    fill(c->x, T * C, 0);
    for (int i = 0; i < 2; i++) {
        map *m = &c->maps[i];
        m->linear = (tess_linear){.weight = i,
                                  .bias = -1,
                                  .n_in = C,
                                  .n_out = F,
                                  .ld = in_out ? F + AHEAD : C,
                                  .offset = in_out ? AHEAD : 0,
                                  .in_out = in_out,
                                  .out_stride = in_out ? F + AHEAD : 0};
        fill(m->w, sizeof(m->w) / sizeof(float), 10 + (uint64_t)i);
        fill(m->dy, sizeof(m->dy) / sizeof(float), 20 + (uint64_t)i);
        c->w[i] = m->w;
        c->dw[i] = m->dw;
    }
    c->points.degree = 1;
    c->call = (tess_layer_call){.stream = c->stream,
                                .kernels = tess_stream_kernels(c->stream),
                                .dtype = TESS_F32,
                                .T = T,
                                .w = c->w,
                                .dw = c->dw,
                                .points = &c->points,
                                .rounds = true,
                                .rounded = c->rounded};
}

static void expect_sum(const char *what, int64_t i, double got, double want)
{
    if (!(fabs(got - want) <= 1e-4))
        test_fail(__FILE__, __LINE__, "%s[%lld] is %.9g, expected %.9g", what, (long long)i, got, want);
}

static void expect_map(const map *m, const float *x, const float *w, const float *dy)
{
    const bool in_out = m->linear.in_out;
    const int64_t row = tess_linear_row(&m->linear);
    for (int64_t t = 0; t < T; t++)
        for (int64_t f = 0; f < F; f++) {
            double sum = 0;
            for (int64_t k = 0; k < C; k++)
                sum += (double)x[t * C + k] * w[in_out ? k * F + f : f * C + k];
            expect_sum("y", t * F + f, m->y[t * row + f], sum);
        }
    for (int64_t f = 0; f < F; f++)
        for (int64_t k = 0; k < C; k++) {
            double sum = 0;
            for (int64_t t = 0; t < T; t++)
                sum += (double)dy[t * F + f] * x[t * C + k];
            expect_sum("dw", f * C + k, m->dw[in_out ? AHEAD + k * m->linear.ld + f : f * C + k], sum);
        }
}

static void products_are_of_rounded_operands(void)
{
    for (int i = 0; i < 2 * N_LEVELS; i++) {
        if (!have_level(kernel_levels[i / 2]))
            continue;
        case_of *c = test_alloc(sizeof(*c));
        const bool in_out = i % 2 == 1;
        float *w[2], *dy[2];
        open_case(c, kernel_levels[i / 2], in_out);
        for (int k = 0; k < 2; k++) {
            map *m = &c->maps[k];
            EXPECT_OK(tess_linear_forward(&c->call, &m->linear, c->x, m->y));
            EXPECT_OK(tess_linear_backward_params(&c->call, &m->linear, c->x, m->dy));
            w[k] = from_fp8(c, m->w + m->linear.offset, m->linear.ld, in_out ? C : F, in_out ? F : C, TESS_E4M3);
            dy[k] = from_fp8(c, m->dy, tess_linear_row(&m->linear), T, F, TESS_E5M2);
        }
        const tess_linear_grad grads[] = {{&c->maps[0].linear, c->maps[0].dy}, {&c->maps[1].linear, c->maps[1].dy}};
        EXPECT_OK(tess_linear_backward_inputs(&c->call, grads, 2, NULL, c->dx));
        float *x = from_fp8(c, c->x, C, T, C, TESS_E4M3);
        for (int k = 0; k < 2; k++)
            expect_map(&c->maps[k], x, w[k], dy[k]);
        for (int64_t t = 0; t < T; t++)
            for (int64_t k = 0; k < C; k++) {
                double sum = 0;
                for (int64_t f = 0; f < 2 * F; f++)
                    sum += (double)dy[f / F][t * F + f % F] * w[f / F][in_out ? k * F + f % F : f % F * C + k];
                expect_sum("dx", t * C + k, c->dx[t * C + k], sum);
            }
        for (int k = 0; k < 2; k++) {
            test_free(w[k]);
            test_free(dy[k]);
        }
        test_free(x);
        tess_stream_destroy(&c->stream);
        test_free(c);
    }
}

/* One training of a fixture; the gradients stay in the rig. */
static void train(const fixture *f, rig *r, tess_executor_options options, float *logprob)
{
    options.max_tokens = FIXTURE_TOKENS;
    options.max_position = f->max_position;
    options.train = true;
    tess_executor *e = rig_executor(r, options);
    EXPECT_OK(tess_executor_train(e, &f->batch, NULL, logprob));
    tess_executor_destroy(&e);
}

static void layers_run_again_with_the_same_bits(void)
{
    const char *const names[] = {"llama", "qwen3", "gpt2"};
    for (int i = 0; i < 6; i++) {
        fixture f;
        rig plain, again;
        float without[FIXTURE_TOKENS], want[FIXTURE_TOKENS], got[FIXTURE_TOKENS];
        fixture_open(&f, names[i / 2]);
        rig_open(&plain, &f.config, i % 2 == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
        rig_open(&again, &f.config, plain.dtype, NULL, 2);
        train(&f, &plain, (tess_executor_options){0}, without);
        train(&f, &plain, (tess_executor_options){.fp8 = true}, want);
        train(&f, &again, (tess_executor_options){.fp8 = true, .recompute = TESS_RECOMPUTE_FULL}, got);
        EXPECT_SAME(got, want, (size_t)f.batch.n_tokens);
        EXPECT(memcmp(without, want, (size_t)f.batch.n_tokens * sizeof(float)) != 0);
        for (int p = 0; p < plain.n_params; p++) {
            const tess_param *param = tess_model_param(plain.model, p);
            test_expect_same(__FILE__, __LINE__, param->name, again.dw[p], plain.dw[p],
                             (size_t)tess_shape_count(&param->shape), sizeof(float));
        }
        rig_close(&plain);
        rig_close(&again);
        fixture_close(&f);
    }
}

/* A stage that is the head alone. */
static void the_head_does_not_round(void)
{
    fixture f;
    float in[FIXTURE_TOKENS * 64], logprob[2][FIXTURE_TOKENS], din[2][FIXTURE_TOKENS * 64];
    fixture_open(&f, "llama");
    const size_t n = (size_t)(f.batch.n_tokens * f.config.hidden_size);
    EXPECT(f.config.hidden_size <= 64);
    fill(in, n, 0);
    for (int i = 0; i < 2; i++) {
        rig r;
        rig_open_part(&r, &f.config, &(tess_model_part){.first_layer = f.config.n_layers, .head = true}, TESS_F32, NULL,
                      1);
        tess_executor *e = rig_executor(
            &r, (tess_executor_options){
                    .max_tokens = FIXTURE_TOKENS, .max_position = f.max_position, .train = true, .fp8 = i == 1});
        const tess_range range = {0, 0, tess_model_n_units(r.model), &f.batch};
        EXPECT_OK(tess_executor_forward(e, &range, in, NULL));
        EXPECT_OK(tess_executor_backward(e, &range, &(tess_backward){.din = din[i], .logprob = logprob[i]}));
        tess_executor_destroy(&e);
        rig_close(&r);
    }
    EXPECT_SAME(logprob[1], logprob[0], (size_t)f.batch.n_tokens);
    EXPECT_SAME(din[1], din[0], n);
    fixture_close(&f);
}

static void float16_is_refused(void)
{
    fixture f;
    rig r;
    tess_executor *e = NULL;
    fixture_open(&f, "llama");
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    const tess_executor_options options = {
        .dtype = TESS_F16, .max_tokens = 8, .max_position = 8, .train = true, .fp8 = true};
    EXPECT_FAILS(tess_executor_create(r.stream, r.model, &r.hooks, &options, &e), TESS_E_UNSUPPORTED, "fp8");
    rig_close(&r);
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(products_are_of_rounded_operands),
    CASE(layers_run_again_with_the_same_bits),
    CASE(the_head_does_not_round),
    CASE(float16_is_refused),
};

TEST_MAIN(cases)
