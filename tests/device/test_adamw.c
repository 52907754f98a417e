/* AdamW of every kernel table: against float64, the same bits on any threads, its copies and its record. */
#include "device/undo.h"
#include "elementwise_test.h"

static const int64_t sizes[] = {0, 1, 15, 16, 17, 31, 33, 100, 50021};

typedef struct state {
    float *p, *m, *v;
    void *copy; /* a copy of p, of copy_dtype */
    tess_dtype copy_dtype;
} state;

static const float lr = 3e-3f, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, decay = 0.1f, grad_scale = 0.37f;

static state make_state(int64_t n, tess_dtype copy_dtype)
{
    return (state){random_array(1, n, 0, 1, TESS_F32), calloc((size_t)n + 1, 4), calloc((size_t)n + 1, 4),
                   blank_array(n, copy_dtype), copy_dtype};
}

static void free_state(state *a)
{
    free(a->p);
    free(a->m);
    free(a->v);
    free(a->copy);
}

static tess_adamw_update update_of(const state *a, const float *g, int64_t begin, int64_t end)
{
    return (tess_adamw_update){.n = end - begin,
                               .p = a->p + begin,
                               .m = a->m + begin,
                               .v = a->v + begin,
                               .g = g + begin,
                               .lr = lr,
                               .beta1 = beta1,
                               .beta2 = beta2,
                               .eps = eps,
                               .weight_decay = decay,
                               .grad_scale = grad_scale,
                               .bias1 = 1 - beta1,
                               .bias2 = 1 - beta2,
                               .copy = (char *)a->copy + (size_t)begin * tess_dtype_size(a->copy_dtype),
                               .copy_dtype = a->copy_dtype};
}

/* Elements [begin, end), as in step 1. */
static void update(tess_stream *s, state *a, const float *g, int64_t begin, int64_t end, tess_undo *undo)
{
    tess_adamw_update u = update_of(a, g, begin, end);
    u.undo = undo;
    EXPECT_OK(tess_stream_kernels(s)->adamw(s, &u));
}

static void steps(tess_stream *s, state *a, int64_t n, int count)
{
    for (int step = 1; step <= count; step++) {
        float *g = random_array((uint64_t)step + 10, n, 0, 0.5, TESS_F32);
        tess_adamw_update u = update_of(a, g, 0, n);
        u.bias1 = (float)(1 - pow(beta1, step)), u.bias2 = (float)(1 - pow(beta2, step));
        if (step == 1)
            u.copy = NULL;
        EXPECT_OK(tess_stream_kernels(s)->adamw(s, &u));
        free(g);
    }
}

/* torch.optim.AdamW's formula in float64. */
static void adamw_agrees_with_float64_over_five_steps(void)
{
    const int64_t n = 211;
    tess_stream *s = open_variant(0);
    state a = make_state(n, TESS_F32), first = make_state(n, TESS_F32);
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

static void expect_same(size_t v, const state *a, const state *want, int64_t n)
{
    expect_bits("p", v, a->p, want->p, n, TESS_F32);
    expect_bits("m", v, a->m, want->m, n, TESS_F32);
    expect_bits("v", v, a->v, want->v, n, TESS_F32);
    expect_bits("copy", v, a->copy, want->copy, n, a->copy_dtype);
}

static void adamw_is_bit_for_bit_the_same_on_any_level_and_threads(void)
{
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        int64_t n = sizes[i / 2];
        state want = make_state(n, both_dtypes[i % 2]);
        tess_stream *s = open_variant(0);
        steps(s, &want, n, 2);
        tess_stream_destroy(&s);
        for (size_t v = 1; v < COUNT(variants); v++) {
            if ((s = open_variant(v)) == NULL)
                continue;
            state a = make_state(n, both_dtypes[i % 2]);
            steps(s, &a, n, 2);
            expect_same(v, &a, &want, n);
            free_state(&a);
            tess_stream_destroy(&s);
        }
        free_state(&want);
    }
}

/* The copy is what a conversion of the new weights gives; without one, nothing is written. */
static void adamw_copies_the_new_weights_as_a_conversion_would(void)
{
    const int64_t n = 1037;
    for (size_t v = 0; v < 2 * COUNT(variants); v++) {
        tess_stream *s = open_variant(v / 2);
        if (s == NULL)
            continue;
        state a = make_state(n, both_dtypes[v % 2]);
        void *converted = blank_array(n, a.copy_dtype);
        steps(s, &a, n, 1);
        expect_bits("no copy", v / 2, a.copy, converted, n, a.copy_dtype);
        steps(s, &a, n, 3);
        EXPECT_OK(tess_stream_kernels(s)->convert(
            s, &(tess_convert_args){.x = a.p, .from = TESS_F32, .y = converted, .to = a.copy_dtype, .n = n}));
        expect_bits("copy", v / 2, a.copy, converted, n, a.copy_dtype);
        free(converted);
        free_state(&a);
        tess_stream_destroy(&s);
    }
}

/* A record gives the same bits, in one call or cut anywhere, and holds the values of the last block. */
static void a_gpu_refuses_a_record(void)
{
    tess_stream *s;
    tess_undo undo;
    float x[4] = {0};
    tess_adamw_update u = {.n = 1, .p = x, .m = x + 1, .v = x + 2, .g = x + 3, .undo = &undo};
    EXPECT_OK(cuda_shim_stream(test_mem(), false, &s));
    EXPECT_FAILS(tess_stream_kernels(s)->adamw(s, &u), TESS_E_UNSUPPORTED, "update on the host");
    tess_stream_destroy(&s);
}

static void adamw_with_a_record_gives_the_same_bits_and_leaves_what_the_last_block_held(void)
{
    for (size_t i = 0; i < COUNT(variants) * COUNT(sizes); i++) {
        const int64_t n = sizes[i / COUNT(variants)], cut = n / 3, base = 1000;
        size_t v = i % COUNT(variants);
        tess_stream *s = strcmp(variants[v].level, "cuda") != 0 ? open_variant(v) : NULL;
        if (s == NULL)
            continue;
        state want = make_state(n, TESS_BF16), a = make_state(n, TESS_BF16), old = make_state(n, TESS_BF16);
        float *g = random_array(5, n, 0, 0.5, TESS_F32);
        tess_undo undo;
        tess_undo_clear(&undo);
        EXPECT_INT(tess_undo_read(&undo).first, -1);
        update(s, &want, g, 0, n, NULL);
        undo.first = base;
        update(s, &a, g, 0, cut, &undo);
        undo.first = base + cut;
        update(s, &a, g, cut, n, &undo);
        expect_same(v, &a, &want, n);
        tess_undo_block block = tess_undo_read(&undo);
        if (n > 0) {
            int64_t first = block.first - base;
            EXPECT_INT(first, n - 1 - (n - cut - 1) % TESS_UNDO_BLOCK);
            EXPECT_INT(block.n, n - first);
            expect_bits("old p", v, block.old[0], old.p + first, block.n, TESS_F32);
            expect_bits("old m", v, block.old[1], old.m + first, block.n, TESS_F32);
            expect_bits("old v", v, block.old[2], old.v + first, block.n, TESS_F32);
        }
        tess_undo_finish(&undo);
        EXPECT(tess_undo_read(&undo).first > INT64_C(1) << 57);
        free(g);
        free_state(&want);
        free_state(&a);
        free_state(&old);
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    CASE(adamw_agrees_with_float64_over_five_steps),
    CASE(adamw_is_bit_for_bit_the_same_on_any_level_and_threads),
    CASE(adamw_copies_the_new_weights_as_a_conversion_would),
    CASE(adamw_with_a_record_gives_the_same_bits_and_leaves_what_the_last_block_held),
    CASE(a_gpu_refuses_a_record),
};

TEST_MAIN(cases)
