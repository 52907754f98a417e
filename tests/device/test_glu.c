/* Activations and gated units: against float64, at their limits, and at any place in a vector. */
#include "elementwise_test.h"

static const tess_activation activations[] = {TESS_ACT_SILU, TESS_ACT_GELU_TANH, TESS_ACT_GELU_ERF};

typedef struct shape {
    int64_t T, F, stride;
} shape;

static const shape shapes[] = {{0, 5, 10},  {1, 1, 2},   {3, 15, 30},   {2, 16, 40},    {5, 17, 34},
                               {4, 31, 70}, {3, 33, 66}, {7, 100, 201}, {101, 257, 514}};

static double activate(double x, tess_activation act)
{
    if (act == TESS_ACT_SILU)
        return x / (1 + exp(-x));
    if (act == TESS_ACT_GELU_TANH)
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * erfc(-x / M_SQRT2);
}

/* A central difference in float64: good to about 1e-9. */
static double slope(double x, tess_activation act)
{
    const double step = 1e-5;
    return (activate(x + step, act) - activate(x - step, act)) / (2 * step);
}

static void activations_agree_with_float64_from_minus_20_to_20(void)
{
    static const float worst[] = {-0.01095891f, 0.01095891f,
                                  8.39523411f}; /* the largest errors: normal distribution, tanh */
    const int64_t n_coarse = 40001, n_fine = 2001, n = n_coarse + n_fine + (int64_t)COUNT(worst);
    float *x = new_array(n, sizeof(*x)), *one = new_array(n, sizeof(*one));
    for (int64_t i = 0; i < n; i++) {
        if (i < n_coarse)
            x[i] = (float)(i - n_coarse / 2) * 1e-3f;
        else
            x[i] = i < n_coarse + n_fine ? (float)(i - n_coarse - n_fine / 2) * 2e-5f : worst[i - n_coarse - n_fine];
        one[i] = 1;
    }
    for (size_t a = 0; a < COUNT(activations); a++) {
        float *want_y = NULL, *want_dx = NULL;
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            float *y = blank_array(n, TESS_F32), *dx = blank_array(n, TESS_F32);
            EXPECT_OK(tess_stream_kernels(s)->act_forward(
                s, &(tess_act_args){.x = x, .y = y, .n = n, .act = activations[a], .dtype = TESS_F32}));
            EXPECT_OK(tess_stream_kernels(s)->act_backward(
                s,
                &(tess_act_grad_args){.x = x, .dy = one, .dx = dx, .n = n, .act = activations[a], .dtype = TESS_F32}));
            for (int64_t i = 0; i < n && v == 0; i++) {
                double f = activate(x[i], activations[a]), g = slope(x[i], activations[a]);
                double apart = activations[a] == TESS_ACT_GELU_ERF ? 1e-34 : 6e-8 * fabs(x[i]);
                expect_near("act", i, y[i], f, (activations[a] == TESS_ACT_GELU_ERF ? 5.5e-7 : 4e-7) * fabs(f) + apart);
                expect_near("act'", i, dx[i], g, 1e-6);
            }
            if (v == 0) {
                want_y = y;
                want_dx = dx;
                tess_stream_destroy(&s);
                continue;
            }
            expect_bits("act", v, y, want_y, n, TESS_F32);
            expect_bits("act'", v, dx, want_dx, n, TESS_F32);
            free(y);
            free(dx);
            tess_stream_destroy(&s);
        }
        free(want_y);
        free(want_dx);
    }
    free(x);
    free(one);
}

/* An overflow inside must not show in the result: 0 and 1 are the limits, and only NaN gives NaN. */
static void huge_and_infinite_inputs_have_the_limits(void)
{
    const float x[] = {1e30f, -1e30f, 3e38f, -3e38f, 200, -200, 1e-30f, 0, NAN, INFINITY, -INFINITY};
    const float slope_want[] = {1, 0, 1, 0, 1, 0, 0.5f, 0.5f, NAN, 1, 0};
    enum { N = sizeof(x) / sizeof(x[0]) };
    float ones[N], y[N], dx[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        for (size_t a = 0; s != NULL && a < COUNT(activations); a++) {
            EXPECT_OK(tess_stream_kernels(s)->act_forward(
                s, &(tess_act_args){.x = x, .y = y, .n = N, .act = activations[a], .dtype = TESS_F32}));
            EXPECT_OK(tess_stream_kernels(s)->act_backward(
                s,
                &(tess_act_grad_args){.x = x, .dy = ones, .dx = dx, .n = N, .act = activations[a], .dtype = TESS_F32}));
            for (int i = 0; i < N; i++) {
                EXPECT(isnan(slope_want[i]) ? isnan(dx[i]) : fabsf(dx[i] - slope_want[i]) < 1e-6f);
                if (isfinite(x[i]))
                    EXPECT(y[i] == (x[i] > 1 ? x[i] : x[i] < -1 ? 0 : x[i] / 2));
            }
            EXPECT(isnan(y[8]) && y[9] == INFINITY);
        }
        tess_stream_destroy(&s);
    }
}

typedef struct answer {
    void *y, *dgate, *dup;
} answer;

static answer solve(tess_stream *s, const shape *p, const void *gate_up, const void *dy, tess_activation act,
                    tess_dtype dtype)
{
    answer a = {blank_array(p->T * p->F, dtype), blank_array(p->T * p->stride, dtype), NULL};
    const void *up = row_at(gate_up, p->stride - p->F, dtype);
    a.dup = (void *)row_at(a.dgate, p->stride - p->F, dtype);
    EXPECT_OK(tess_stream_kernels(s)->glu_forward(s, &(tess_glu_args){.gate = gate_up,
                                                                      .up = up,
                                                                      .stride = p->stride,
                                                                      .y = a.y,
                                                                      .T = p->T,
                                                                      .F = p->F,
                                                                      .act = act,
                                                                      .dtype = dtype}));
    EXPECT_OK(tess_stream_kernels(s)->glu_backward(s, &(tess_glu_grad_args){.gate = gate_up,
                                                                            .up = up,
                                                                            .stride = p->stride,
                                                                            .dy = dy,
                                                                            .dgate = a.dgate,
                                                                            .dup = a.dup,
                                                                            .dstride = p->stride,
                                                                            .T = p->T,
                                                                            .F = p->F,
                                                                            .act = act,
                                                                            .dtype = dtype}));
    return a;
}

static void expect_float64(const shape *p, const void *gate_up, const void *dy, const answer *a, tess_activation act,
                           tess_dtype dtype)
{
    for (int64_t i = 0; i < p->T * p->F; i++) {
        int64_t at = i / p->F * p->stride + i % p->F, up_at = at + p->stride - p->F;
        double g = value_at(gate_up, at, dtype), u = value_at(gate_up, up_at, dtype), d = value_at(dy, i, dtype);
        double y = activate(g, act) * u, dgate = d * u * slope(g, act), dup = d * activate(g, act);
        expect_near("y", i, value_at(a->y, i, dtype), y, allowed(y, dtype));
        expect_near("dgate", i, value_at(a->dgate, at, dtype), dgate, allowed(dgate, dtype) + 1e-6 * fabs(d * u));
        expect_near("dup", i, value_at(a->dgate, up_at, dtype), dup, allowed(dup, dtype));
    }
}

static void gated_units_agree_with_float64_and_bit_for_bit_across_levels(void)
{
    for (size_t i = 0; i < COUNT(shapes) * 6; i++) {
        const shape *p = &shapes[i / 6];
        tess_dtype dtype = both_dtypes[i % 2];
        tess_activation act = activations[i % 6 / 2];
        int64_t n = p->T * p->stride;
        void *gate_up = random_array(1, n, 0, 1.5, dtype), *dy = random_array(2, p->T * p->F, 0, 1, dtype);
        tess_stream *s = open_variant(0);
        answer want = solve(s, p, gate_up, dy, act, dtype);
        tess_stream_destroy(&s);
        expect_float64(p, gate_up, dy, &want, act, dtype);
        for (size_t v = 1; v < COUNT(variants); v++) {
            if ((s = open_variant(v)) == NULL)
                continue;
            answer a = solve(s, p, gate_up, dy, act, dtype);
            expect_bits("y", v, a.y, want.y, p->T * p->F, dtype);
            expect_bits("dgate, dup and what lies between", v, a.dgate, want.dgate, n, dtype);
            /* Over the inputs. */
            void *over = copy_array(gate_up, n, dtype), *up = (void *)row_at(over, p->stride - p->F, dtype);
            EXPECT_OK(tess_stream_kernels(s)->glu_backward(s, &(tess_glu_grad_args){.gate = over,
                                                                                    .up = up,
                                                                                    .stride = p->stride,
                                                                                    .dy = dy,
                                                                                    .dgate = over,
                                                                                    .dup = up,
                                                                                    .dstride = p->stride,
                                                                                    .T = p->T,
                                                                                    .F = p->F,
                                                                                    .act = act,
                                                                                    .dtype = dtype}));
            for (int64_t t = 0; t < p->T; t++) {
                expect_bits("dgate in place", v, row_at(over, t * p->stride, dtype),
                            row_at(want.dgate, t * p->stride, dtype), p->F, dtype);
                expect_bits("dup in place", v, row_at(up, t * p->stride, dtype), row_at(want.dup, t * p->stride, dtype),
                            p->F, dtype);
            }
            free(over);
            free(a.y);
            free(a.dgate);
            tess_stream_destroy(&s);
        }
        free(want.y);
        free(want.dgate);
        free(gate_up);
        free(dy);
    }
}

/* The place of an element in its vector does not matter: the plain activation of any tail, in place. */
/* g sigmoid(alpha g) (u + 1) of clamped numbers, and its derivatives by central differences. */
static double clamped(double gate, double up, double alpha, double limit)
{
    const double g = fmin(gate, limit), u = fmax(-limit, fmin(up, limit));
    return g / (1 + exp(-alpha * g)) * (u + 1);
}

static void clamped_units_agree_with_float64_and_bit_for_bit_across_levels(void)
{
    enum { T = 5, F = 37, N = T * F };
    const float alpha = 1.702f, limit = 1.51f; /* no number of bf16 */
    const double step = 1e-5;
    for (int half = 0; half < 2; half++) {
        const tess_dtype dtype = half ? TESS_BF16 : TESS_F32;
        void *x = random_array(3, 2 * (int64_t)N, 0, 2, dtype), *dy = random_array(4, N, 0, 1, dtype);
        void *first = NULL, *first_dx = NULL;
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            void *y = blank_array(N, dtype), *again = blank_array(N, dtype), *dx = blank_array(2 * (int64_t)N, dtype);
            memcpy(dx, x, 2 * N * tess_dtype_size(dtype));
            EXPECT_OK(tess_stream_kernels(s)->clamped_glu_forward(
                s, &(tess_clamped_glu_args){
                       .x = x, .y = y, .T = T, .C = 2 * (int64_t)F, .alpha = alpha, .limit = limit, .dtype = dtype}));
            EXPECT_OK(tess_stream_kernels(s)->clamped_glu_backward(s, &(tess_clamped_glu_grad_args){.x = dx,
                                                                                                    .dy = dy,
                                                                                                    .dx = dx,
                                                                                                    .y = again,
                                                                                                    .T = T,
                                                                                                    .C = 2 * (int64_t)F,
                                                                                                    .alpha = alpha,
                                                                                                    .limit = limit,
                                                                                                    .dtype = dtype}));
            for (int i = 0; i < N && v == 0; i++) {
                const double gate = (double)tess_get_float(x, dtype, 2 * (size_t)i),
                             up = (double)tess_get_float(x, dtype, 2 * (size_t)i + 1),
                             d = (double)tess_get_float(dy, dtype, (size_t)i), error = half ? 0.01 : 2e-6,
                             f = clamped(gate, up, alpha, limit);
                const double by_gate = (clamped(gate + step, up, alpha, limit) - f) / step,
                             by_up = (clamped(gate, up + step, alpha, limit) - f) / step;
                expect_near("y", i, (double)tess_get_float(y, dtype, (size_t)i), f, error * (1 + fabs(f)));
                expect_near("y again", i, (double)tess_get_float(again, dtype, (size_t)i), f, error * (1 + fabs(f)));
                expect_near("dgate", i, (double)tess_get_float(dx, dtype, 2 * (size_t)i), d * by_gate,
                            error * (1 + fabs(d * by_gate)) + 1e-4);
                expect_near("dup", i, (double)tess_get_float(dx, dtype, 2 * (size_t)i + 1), d * by_up,
                            error * (1 + fabs(d * by_up)) + 1e-4);
            }
            if (first != NULL) {
                expect_bits("y", v, y, first, N, dtype);
                expect_bits("dx", v, dx, first_dx, 2 * (int64_t)N, dtype);
                free(y);
                free(dx);
            } else {
                first = y;
                first_dx = dx;
            }
            free(again);
            tess_stream_destroy(&s);
        }
        free(first);
        free(first_dx);
        free(x);
        free(dy);
    }
}

static void an_element_has_the_same_bits_at_any_place_in_a_vector(void)
{
    for (int64_t n = 0; n <= 35; n++) {
        for (size_t d = 0; d < COUNT(both_dtypes); d++) {
            tess_dtype dtype = both_dtypes[d];
            void *x = random_array(1, 35, 0, 2, dtype), *want = copy_array(x, 35, dtype);
            tess_stream *s = open_variant(0);
            EXPECT_OK(tess_stream_kernels(s)->act_forward(
                s, &(tess_act_args){.x = want, .y = want, .n = 35, .act = TESS_ACT_GELU_TANH, .dtype = dtype}));
            tess_stream_destroy(&s);
            for (size_t v = 0; v < COUNT(variants); v++) {
                if ((s = open_variant(v)) == NULL)
                    continue;
                void *y = copy_array(row_at(x, 35 - n, dtype), n, dtype);
                EXPECT_OK(tess_stream_kernels(s)->act_forward(
                    s, &(tess_act_args){.x = y, .y = y, .n = n, .act = TESS_ACT_GELU_TANH, .dtype = dtype}));
                expect_bits("tail", v, y, row_at(want, 35 - n, dtype), n, dtype);
                free(y);
                tess_stream_destroy(&s);
            }
            free(x);
            free(want);
        }
    }
}

static void a_bound_keeps_numbers_and_stops_gradients_beyond_it(void)
{
    enum { N = 8 };
    static const float x[N] = {-2, -0.5f, -0.25f, 0, 0.5f, 0.75f, 3, NAN},
                       y[N] = {-0.5f, -0.5f, -0.25f, 0, 0.5f, 0.5f, 0.5f, NAN}, dx[N] = {0, 2, 3, 4, 5, 0, 0, 0};
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        for (size_t d = 0; d < COUNT(both_dtypes) && s != NULL; d++) {
            float bounded[N], gradient[N];
            tess_clip_args args = {
                .x = bounded, .dy = gradient, .y = gradient, .n = N, .limit = 0.5f, .dtype = both_dtypes[d]};
            for (size_t i = 0; i < N; i++) {
                tess_put_float(bounded, args.dtype, i, x[i]);
                tess_put_float(gradient, args.dtype, i, (float)i + 1);
            }
            EXPECT_OK(tess_stream_kernels(s)->clip(s, &args));
            args.dy = NULL;
            args.y = bounded;
            EXPECT_OK(tess_stream_kernels(s)->clip(s, &args));
            for (size_t i = 0; i < N; i++) {
                const float value = tess_get_float(bounded, args.dtype, i);
                EXPECT(value == y[i] || (isnan(value) && isnan(y[i])));
                EXPECT(tess_get_float(gradient, args.dtype, i) == dx[i]);
            }
        }
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    CASE(activations_agree_with_float64_from_minus_20_to_20),
    CASE(huge_and_infinite_inputs_have_the_limits),
    CASE(gated_units_agree_with_float64_and_bit_for_bit_across_levels),
    CASE(clamped_units_agree_with_float64_and_bit_for_bit_across_levels),
    CASE(an_element_has_the_same_bits_at_any_place_in_a_vector),
    CASE(a_bound_keeps_numbers_and_stops_gradients_beyond_it),
};

TEST_MAIN(cases)
