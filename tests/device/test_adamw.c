#include "elementwise_test.h"

static const int64_t sizes[] = {0, 1, 15, 16, 17, 31, 33, 100, 50021};

typedef struct state {
    float *p, *m, *v, *g;
} state;

static const float lr = 3e-3f, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, decay = 0.1f, grad_scale = 0.37f;

static state make_state(int64_t n)
{
    return (state){random_array(1, n, 0, 1, TESS_F32), calloc((size_t)n + 1, 4), calloc((size_t)n + 1, 4), NULL};
}

static void free_state(state *a)
{
    free(a->p);
    free(a->m);
    free(a->v);
}

static void steps(tess_stream *s, state *a, int64_t n, int count)
{
    for (int step = 1; step <= count; step++) {
        float *g = random_array((uint64_t)step + 10, n, 0, 0.5, TESS_F32);
        float bias1 = (float)(1 - pow(beta1, step)), bias2 = (float)(1 - pow(beta2, step));
        EXPECT_OK(s->kernels->adamw(s, a->p, a->m, a->v, g, n, lr, beta1, beta2, eps, decay, bias1, bias2, grad_scale));
        free(g);
    }
}

/* torch.optim.AdamW's formula in float64. */
static void agrees(void)
{
    const int64_t n = 211;
    tess_stream *s = open_variant(0);
    state a = make_state(n), first = make_state(n);
    steps(s, &a, n, 5);
    for (int64_t i = 0; i < n; i++) {
        double p = first.p[i], m = 0, v = 0;
        for (int step = 1; step <= 5; step++) {
            double g = (float)(0.5 * tess_rng_normal(7, TESS_RNG_TEST, (uint64_t)step + 10, (uint64_t)i)) * grad_scale;
            p -= lr * decay * p;
            m += (1 - beta1) * (g - m);
            v = beta2 * v + (1 - beta2) * g * g;
            p -= lr / (1 - pow(beta1, step)) * m / (sqrt(v) / sqrt(1 - pow(beta2, step)) + eps);
        }
        expect_near("m", i, a.m[i], m, 1e-6 * fabs(m) + 1e-7);
        expect_near("v", i, a.v[i], v, 2e-6 * v);
        expect_near("p", i, a.p[i], p, 1e-6 * fabs(p) + 1e-6 * lr + 3e-7);
    }
    free_state(&a);
    free_state(&first);
    tess_stream_destroy(&s);
}

static void same_bits(void)
{
    for (size_t i = 0; i < COUNT(sizes); i++) {
        state want = make_state(sizes[i]);
        tess_stream *s = open_variant(0);
        steps(s, &want, sizes[i], 2);
        tess_stream_destroy(&s);
        for (size_t v = 1; v < COUNT(variants); v++) {
            if ((s = open_variant(v)) == NULL)
                continue;
            state a = make_state(sizes[i]);
            steps(s, &a, sizes[i], 2);
            expect_bits("p", v, a.p, want.p, sizes[i], TESS_F32);
            expect_bits("m", v, a.m, want.m, sizes[i], TESS_F32);
            expect_bits("v", v, a.v, want.v, sizes[i], TESS_F32);
            free_state(&a);
            tess_stream_destroy(&s);
        }
        free_state(&want);
    }
}

static const test_case cases[] = {
    {"adamw_agrees_with_float64_over_five_steps", agrees, 0, 0},
    {"adamw_is_bit_for_bit_the_same_on_any_level_and_threads", same_bits, 0, 0},
};

TEST_MAIN(cases)
