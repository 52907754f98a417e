/* Attention on the interpreter of PTX, at small shapes that reach every instance of its kernels: heads of up to 64, 128
 * and 256 channels, sinks, windows, soft caps, and chunks that are merged. test_attention.c has many more on the host.
 */
#include "device/attention_naive.h"
#include "device/cuda_shim/cuda_shim_stream.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static problem *compute(tess_stream *s, const shape *shape, tess_dtype dtype)
{
    random_state = 1; /* the same operands for each table */
    problem *p = problem_create(shape, dtype);
    EXPECT_OK(tess_stream_kernels(s)->attention_forward(s, &p->a));
    p->g.forward = p->a;
    EXPECT_OK(tess_stream_kernels(s)->attention_backward(s, &p->g));
    return p;
}

static void expect_same(const char *what, const problem *p, const char *got, const char *want, int64_t rows,
                        int64_t stride)
{
    char text[128];
    snprintf(text, sizeof(text), "%s, heads of %lld, %s", what, (long long)p->s.D, tess_dtype_name(p->dtype));
    test_expect_same(__FILE__, __LINE__, text, got, want, (size_t)(rows * stride), p->size);
}

static const shape exact_shapes[] = {{2, 1, 33, 0, 2, {9, 66}, {0}, .soft_cap = 5, .sinks = true},
                                     {2, 2, 100, 7, 1, {67}, {0}, .sinks = true},
                                     {2, 1, 200, 0, 1, {65}, {0}, .soft_cap = 20}};

static void exact_attention_has_the_bits_of_ref(void)
{
    tess_stream *ref, *cuda;
    EXPECT_OK(tess_stream_create(test_mem(), 1, "ref", &ref));
    EXPECT_OK(cuda_shim_stream(test_mem(), false, &cuda));
    for (size_t i = 0; i < COUNT(exact_shapes) * 2; i++) {
        const shape *s = &exact_shapes[i / 2];
        const tess_dtype dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
        problem *want = compute(ref, s, dtype), *got = compute(cuda, s, dtype);
        expect_same("out", got, got->out, want->out, got->T, got->a.out_stride);
        expect_same("dq", got, got->dq, want->dq, got->T, got->g.dq_stride);
        expect_same("dk", got, got->dk, want->dk, got->T, got->g.dk_stride);
        expect_same("dv", got, got->dv, want->dv, got->T, got->g.dv_stride);
        EXPECT_SAME(got->lse, want->lse, (size_t)(got->T * s->H));
        EXPECT_SAME(got->dsinks, want->dsinks, (size_t)s->H);
        problem_destroy(want);
        problem_destroy(got);
    }
    tess_stream_destroy(&ref);
    tess_stream_destroy(&cuda);
}

/* The relative distance in the 2-norm. */
static double distance(const problem *p, const char *x, int64_t stride, int64_t width, estimate want)
{
    double apart = 0, whole = 0;
    for (int64_t i = 0; i < p->T * width; i++) {
        apart += pow(get(p, x, i / width * stride + i % width) - want.value[i], 2);
        whole += want.value[i] * want.value[i];
    }
    return sqrt(apart / whole);
}

static const shape tensor_shapes[] = {{2, 1, 64, 0, 2, {17, 3}, {0}, .soft_cap = 5},
                                      {2, 1, 128, 0, 2, {65, 1}, {0}, .soft_cap = 5, .sinks = true},
                                      {2, 2, 80, 20, 1, {33}, {0}, .sinks = true},
                                      {4, 1, 128, 0, 1, {3}, {0}}};

static void tensor_cores_are_within_5e_3_of_float64(void)
{
    tess_stream *s;
    EXPECT_OK(cuda_shim_stream(test_mem(), true, &s));
    for (size_t i = 0; i < COUNT(tensor_shapes); i++) {
        problem *p = compute(s, &tensor_shapes[i], TESS_BF16);
        const int64_t wide = p->s.H * p->s.D, narrow = p->s.G * p->s.D;
        naive n = naive_run(p);
        EXPECT(distance(p, p->out, p->a.out_stride, wide, n.out) < 5e-3);
        EXPECT(distance(p, p->dq, p->g.dq_stride, wide, n.dq) < 5e-3);
        EXPECT(distance(p, p->dk, p->g.dk_stride, narrow, n.dk) < 5e-3);
        EXPECT(distance(p, p->dv, p->g.dv_stride, narrow, n.dv) < 5e-3);
        naive_free(&n);
        problem_destroy(p);
    }
    tess_stream_destroy(&s);
}

/* A row after more keys than a chunk has the bits that it has among other rows. */
static void rows_after_many_keys_do_not_depend_on_others(void)
{
    static const shape many = {4, 1, 128, 0, 1, {3}, {1100}};
    tess_stream *s;
    EXPECT_OK(cuda_shim_stream(test_mem(), true, &s));
    random_state = 1;
    problem *p = problem_create(&many, TESS_BF16);
    EXPECT_OK(tess_stream_kernels(s)->attention_forward(s, &p->a));
    char *whole = take((size_t)(p->T * p->a.out_stride) * p->size);
    memcpy(whole, p->out, (size_t)(p->T * p->a.out_stride) * p->size);
    const size_t last = (size_t)(2 * p->a.out_stride) * p->size, bytes = (size_t)(many.H * many.D) * p->size;
    memset(p->out, 0, last + bytes);
    p->seqs[0].q_begin = 2;
    p->seqs[0].q_len = 1;
    EXPECT_OK(tess_stream_kernels(s)->attention_forward(s, &p->a));
    EXPECT_SAME(p->out + last, whole + last, bytes);
    free(whole);
    problem_destroy(p);
    tess_stream_destroy(&s);
}

static const test_case cases[] = {
    CASE(exact_attention_has_the_bits_of_ref),
    CASE(tensor_cores_are_within_5e_3_of_float64),
    CASE(rows_after_many_keys_do_not_depend_on_others),
};

TEST_MAIN(cases)
