/* Optimizers against torch and, with 8-bit state, against the same formulas in double. CLI tests compare bits over
 * ranks. */
#include <math.h>
#include <stdlib.h>

#include "optim/adamw_torch.h"
#include "optim/clip.h"
#include "optim/optimizer_references.h"
#include "support/test.h"
#include "tessera/optim.h"

static const double torch_lr = 3e-3, torch_decay = 0.1;

/* ---- Vectors ---- */
static void expect_vector(const tess_optimizer_options *options, const double (*want)[TORCH_ELEMENTS], double within)
{
    float param[TORCH_ELEMENTS], grad[TORCH_ELEMENTS];
    tess_span span = {.name = "w", .n = TORCH_ELEMENTS, .decay = true, .param = param, .grad = grad};
    tess_optimizer *optimizer;
    EXPECT_OK(tess_optimizer_create(test_mem(), &span, 1, options, &optimizer));
    for (int i = 0; i < TORCH_ELEMENTS; i++)
        param[i] = (float)torch_start[i];
    for (int s = 0; s < TORCH_STEPS; s++) {
        for (int i = 0; i < TORCH_ELEMENTS; i++)
            grad[i] = (float)(torch_gradients[s][i] * 8); /* grad_scale undoes it */
        EXPECT_OK(tess_optimizer_step(optimizer, &span, s + 1, (float)torch_lr, 1.0f / 8));
        for (int i = 0; i < TORCH_ELEMENTS; i++)
            if (!(fabs((double)param[i] - want[s][i]) <= within * fabs(want[s][i]) + 1e-6 * torch_lr))
                test_fail(__FILE__, __LINE__, "step %d: weight %d is %.9g, torch has %.9g", s + 1, i, (double)param[i],
                          want[s][i]);
    }
    tess_optimizer_destroy(&optimizer);
}

static tess_optimizer_options options_of(tess_optimizer_kind kind)
{
    return (tess_optimizer_options){
        .kind = kind, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = (float)torch_decay};
}

static void adam_follows_torch(void)
{
    const tess_optimizer_options options = options_of(TESS_ADAM);
    expect_vector(&options, torch_adam, 4e-7);
}

static void sgd_follows_torch(void)
{
    tess_optimizer_options options = options_of(TESS_SGD);
    expect_vector(&options, torch_sgd, 4e-7);
    options.momentum = 0.9f;
    expect_vector(&options, torch_sgd_momentum, 4e-7);
    options.nesterov = true;
    expect_vector(&options, torch_sgd_nesterov, 4e-7);
}

/* ---- Matrices ---- */
static float matrix_value(int64_t i, int64_t seed)
{
    return (float)((double)((i * 2654435761 + seed * 40503) % 65536) / 32768 - 1);
}

static tess_span matrix_span(int64_t rows, int64_t columns, float *param, const float *grad)
{
    tess_span span = {.name = "m",
                      .n = rows * columns,
                      .decay = true,
                      .hidden = true,
                      .shape = {2, {rows, columns}},
                      .param = param,
                      .grad = grad};
    span.box = tess_box_whole(&span.shape);
    return span;
}

/* want (MUON_STEPS, rows * columns). */
static void expect_muon(int64_t rows, int64_t columns, bool nesterov, tess_muon_rate rate, const double *want)
{
    enum { MOST = 36 };
    float param[MOST], grad[MOST];
    int64_t n = rows * columns;
    tess_optimizer_options options = options_of(TESS_MUON);
    tess_span span = matrix_span(rows, columns, param, grad);
    tess_optimizer *optimizer;
    options.momentum = 0.95f;
    options.nesterov = nesterov;
    options.muon_rate = rate;
    EXPECT_OK(tess_optimizer_create(test_mem(), &span, 1, &options, &optimizer));
    for (int64_t i = 0; i < n; i++)
        param[i] = matrix_value(i, 1);
    for (int s = 0; s < MUON_STEPS; s++) {
        for (int64_t i = 0; i < n; i++)
            grad[i] = matrix_value(i, 10 + s) * 4;
        EXPECT_OK(tess_optimizer_step(optimizer, &span, s + 1, 0.02f, 0.25f));
        for (int64_t i = 0; i < n; i++)
            /* A step moves a weight by 0.01 or so. The iteration enlarges what float32 rounds by up to 3.4^5. */
            if (!(fabs((double)param[i] - want[s * n + i]) <= 2e-6))
                test_fail(__FILE__, __LINE__, "%lld x %lld, step %d: weight %lld is %.9g, the formulas give %.9g",
                          (long long)rows, (long long)columns, s + 1, (long long)i, (double)param[i], want[s * n + i]);
    }
    tess_optimizer_destroy(&optimizer);
}

static void muon_follows_torch(void)
{
    expect_muon(4, 6, true, TESS_MUON_MATCH_RMS, muon_4x6_nesterov[0]);
    expect_muon(4, 6, false, TESS_MUON_ORIGINAL, muon_4x6_plain[0]);
    expect_muon(6, 4, true, TESS_MUON_MATCH_RMS, muon_6x4_nesterov[0]);
    expect_muon(6, 4, false, TESS_MUON_ORIGINAL, muon_6x4_plain[0]);
    expect_muon(5, 5, true, TESS_MUON_MATCH_RMS, muon_5x5_nesterov[0]);
    expect_muon(5, 5, false, TESS_MUON_ORIGINAL, muon_5x5_plain[0]);
}

/* ---- 8 bits ---- */
enum { ROWS = 8, COLUMNS = 600, N = ROWS * COLUMNS, BLOCKS = 3 };

/* The nearest value of the map, and whether another is so nearly as near that float32 may choose it. */
static int nearest(const double *map, double x, bool *close)
{
    int best = 0;
    *close = false;
    for (int c = 1; c < 256; c++)
        best = fabs(map[c] - x) < fabs(map[best] - x) ? c : best;
    for (int c = best - 1; c <= best + 1; c += 2)
        if (c >= 0 && c < 256)
            *close |= fabs(map[c] - x) - fabs(map[best] - x) < 1e-6 * (fabs(x) + 1e-7);
    return best;
}

/* Codes of a block of `n` values against the state that the optimizer has; then the values become those of its state.
 */
static void expect_codes(double *values, int n, const double *map, bool keeps_above_0, const uint8_t *codes, float most)
{
    double largest = 0;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, fabs(values[i]));
    EXPECT(fabs((double)most - largest) <= 1e-6 * largest);
    for (int i = 0; i < n; i++) {
        bool close;
        int want = nearest(map, largest > 0 ? values[i] / largest : 0, &close);
        if (keeps_above_0 && want == 0 && values[i] > 0)
            want = 1;
        int off = codes[i] - want;
        if (off != 0 && !(close && (off == 1 || off == -1)))
            test_fail(__FILE__, __LINE__, "code %d of a block is %d, want %d", i, codes[i], want);
        values[i] = map[codes[i]] * (double)most;
    }
}

static void expect_8bit_step(const tess_optimizer *optimizer, int step, const float *param, const float *grad,
                             double *p, double *m, double *v)
{
    tess_optimizer_state s[TESS_OPTIMIZER_STATES];
    EXPECT_INT(tess_optimizer_states(optimizer, 0, s), 4);
    EXPECT_TEXT(s[0].name, "exp_avg_8bit");
    EXPECT_TEXT(s[3].name, "exp_avg_sq_absmax");
    EXPECT_INT(s[1].block, 256);
    const double b1 = (double)0.9f, b2 = (double)0.999f, lr = (double)1e-2f, decay = (double)(float)torch_decay;
    double bias1 = 1 - pow(b1, step), bias2 = 1 - pow(b2, step);
    for (int i = 0; i < N; i++) {
        double g = (double)grad[i];
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        p[i] = p[i] * (1 - lr * decay) - lr / bias1 * m[i] / (sqrt(v[i] / bias2) + 1e-8);
        if (!(fabs(p[i] - (double)param[i]) <= 2e-6 * fabs(p[i]) + 1e-6 * lr))
            test_fail(__FILE__, __LINE__, "step %d: weight %d is %.9g, want %.9g", step, i, (double)param[i], p[i]);
        p[i] = (double)param[i];
    }
    for (int row = 0; row < ROWS; row++)
        for (int b = 0; b < BLOCKS; b++) {
            int at = row * COLUMNS + b * 256, n = b < BLOCKS - 1 ? 256 : COLUMNS - 256 * (BLOCKS - 1);
            expect_codes(m + at, n, maps_8bit[0], false, (uint8_t *)s[0].data + at,
                         ((float *)s[1].data)[row * BLOCKS + b]);
            expect_codes(v + at, n, maps_8bit[1], true, (uint8_t *)s[2].data + at,
                         ((float *)s[3].data)[row * BLOCKS + b]);
        }
}

static void moments_of_8_bits_follow_their_formulas(void)
{
    static float param[N], grad[N];
    static double p[N], m[N], v[N];
    tess_optimizer_options options = options_of(TESS_ADAMW_8BIT);
    tess_span span = matrix_span(ROWS, COLUMNS, param, grad);
    tess_optimizer *optimizer;
    for (int i = 0; i < N; i++)
        p[i] = (double)(param[i] = matrix_value(i, 3));
    EXPECT_OK(tess_optimizer_create(test_mem(), &span, 1, &options, &optimizer));
    for (int step = 1; step <= 4; step++) {
        for (int i = 0; i < N; i++) /* over six decades, and some blocks of zeros */
            grad[i] = i / COLUMNS == 5 && step < 3 ? 0 : matrix_value(i, step) * powf(10, (float)(i % 7) - 5);
        EXPECT_OK(tess_optimizer_step(optimizer, &span, step, 1e-2f, 1));
        expect_8bit_step(optimizer, step, param, grad, p, m, v);
    }
    tess_optimizer_destroy(&optimizer);
}

/* ---- bfloat16 ---- */
enum { ELEMENTS = 30000 };

/* Half of a unit in the last place is added in each of many steps: rounding to nearest would never move the moment. */
static void rounding_is_right_on_average_and_differs_by_step(void)
{
    static float param[ELEMENTS], grad[ELEMENTS];
    static uint16_t first[ELEMENTS];
    tess_optimizer_options options = options_of(TESS_SGD);
    tess_span span = {.name = "w", .n = ELEMENTS, .param = param, .grad = grad};
    tess_optimizer_state state[TESS_OPTIMIZER_STATES];
    tess_optimizer *optimizer;
    options.momentum = 0.5f;
    options.state_dtype = TESS_BF16;
    EXPECT_OK(tess_optimizer_create(test_mem(), &span, 1, &options, &optimizer));
    EXPECT_INT(tess_optimizer_states(optimizer, 0, state), 1);
    EXPECT_INT(state[0].dtype, TESS_BF16);
    int moved = 0, same = 0;
    for (int step = 1; step <= 2; step++) {
        const uint16_t *bits = state[0].data;
        memset(state[0].data, 0, ELEMENTS * sizeof(uint16_t));
        for (int i = 0; i < ELEMENTS; i++)
            grad[i] = 1.0f + 0x1p-7f / 4; /* a quarter of the way from 1 to the next */
        EXPECT_OK(tess_optimizer_step(optimizer, &span, step, 0, 1));
        for (int i = 0; i < ELEMENTS; i++) {
            EXPECT(bits[i] == 0x3f80 || bits[i] == 0x3f81);
            moved += bits[i] == 0x3f81;
            same += step == 2 && bits[i] == first[i];
            first[i] = bits[i];
        }
    }
    /* 15,000 +- 106 of 60,000 draws move; two steps agree in 1/16 + 9/16 of 30,000 +- 84: within six deviations. */
    EXPECT(moved > 15000 - 636 && moved < 15000 + 636);
    EXPECT(same > 18750 - 504 && same < 18750 + 504);
    tess_optimizer_destroy(&optimizer);
}

/* A rank's rows, or columns, get the bits that the whole tensor gets. */
static void expect_part(tess_box box, const tess_optimizer_options *options, const uint16_t *whole)
{
    float param[N], grad[N];
    tess_span span = matrix_span(ROWS, COLUMNS, param, grad);
    tess_optimizer_state state[TESS_OPTIMIZER_STATES];
    tess_optimizer *optimizer;
    span.box = box;
    span.n = tess_box_count(2, &box);
    const tess_box all = tess_box_whole(&span.shape);
    for (int64_t i = 0; i < span.n; i++) {
        int64_t at = (box.begin[0] + i / box.size[1]) * COLUMNS + box.begin[1] + i % box.size[1];
        param[i] = matrix_value(at, 1);
        grad[i] = matrix_value(at, 2);
    }
    EXPECT_OK(tess_optimizer_create(test_mem(), &span, 1, options, &optimizer));
    EXPECT_OK(tess_optimizer_step(optimizer, &span, 1, 0.01f, 1));
    tess_optimizer_states(optimizer, 0, state);
    static uint16_t want[N];
    tess_box_copy(2, sizeof(uint16_t), &box, &all, whole, &box, want);
    EXPECT_SAME((const uint16_t *)state[1].data, want, (size_t)span.n);
    tess_optimizer_destroy(&optimizer);
}

static void rounding_does_not_depend_on_who_holds_what(void)
{
    static float param[N], grad[N];
    static uint16_t whole[N];
    tess_optimizer_options options = options_of(TESS_ADAMW);
    tess_span span = matrix_span(ROWS, COLUMNS, param, grad);
    tess_optimizer_state state[TESS_OPTIMIZER_STATES];
    tess_optimizer *optimizer;
    options.state_dtype = TESS_BF16;
    options.seed = 7;
    for (int i = 0; i < N; i++) {
        param[i] = matrix_value(i, 1);
        grad[i] = matrix_value(i, 2);
    }
    EXPECT_OK(tess_optimizer_create(test_mem(), &span, 1, &options, &optimizer));
    EXPECT_OK(tess_optimizer_step(optimizer, &span, 1, 0.01f, 1));
    tess_optimizer_states(optimizer, 0, state);
    memcpy(whole, state[1].data, sizeof(whole));
    tess_optimizer_destroy(&optimizer);
    expect_part((tess_box){{0, 0}, {3, COLUMNS}}, &options, whole);
    expect_part((tess_box){{3, 0}, {5, COLUMNS}}, &options, whole);
    expect_part((tess_box){{0, 101}, {ROWS, 77}}, &options, whole);
}

/* ---- Refusals ---- */
static void bad_options_and_cut_blocks_are_named(void)
{
    float param[N];
    tess_span span = matrix_span(ROWS, COLUMNS, param, NULL);
    tess_optimizer *optimizer;
    tess_optimizer_options options = options_of(TESS_MUON);
    options.momentum = 1;
    EXPECT_FAILS(tess_optimizer_create(test_mem(), &span, 1, &options, &optimizer), TESS_E_INVALID, "momentum is 1");
    options = options_of(TESS_ADAM);
    options.state_dtype = TESS_F16;
    EXPECT_FAILS(tess_optimizer_create(test_mem(), &span, 1, &options, &optimizer), TESS_E_INVALID,
                 "state_dtype float16");
    options = options_of(TESS_ADAMW_8BIT);
    span.box.size[1] = 300;
    span.n = ROWS * 300;
    EXPECT_FAILS(tess_optimizer_create(test_mem(), &span, 1, &options, &optimizer), TESS_E_INVALID,
                 "'m' has columns [0, 300)");
}

/* ---- Clipping ---- */
static void gradients_are_clipped_by_their_elements(void)
{
    tess_threads *threads;
    enum { MANY = 40001 };
    float *g = malloc(MANY * sizeof(*g));
    EXPECT_OK(tess_threads_create(test_mem(), 3, &threads));
    for (int i = 0; i < MANY; i++)
        g[i] = (float)(i - MANY / 2) / 1000;
    g[7] = NAN;
    g[8] = INFINITY;
    for (int again = 0; again < 2; again++) {
        tess_clip_values(threads, g, MANY, 2.5f);
        EXPECT(isnan(g[7]));
        EXPECT(g[8] == 2.5f);
        for (int i = 9; i < MANY; i++) {
            float was = (float)(i - MANY / 2) / 1000;
            EXPECT(g[i] == fminf(fmaxf(was, -2.5f), 2.5f));
        }
    }
    tess_threads_destroy(&threads);
    free(g);
}

static const test_case cases[] = {
    CASE(adam_follows_torch),
    CASE(sgd_follows_torch),
    CASE(gradients_are_clipped_by_their_elements),
    CASE(muon_follows_torch),
    CASE(moments_of_8_bits_follow_their_formulas),
    CASE(rounding_is_right_on_average_and_differs_by_step),
    CASE(rounding_does_not_depend_on_who_holds_what),
    CASE(bad_options_and_cut_blocks_are_named),
};

TEST_MAIN(cases)
