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

/* ---- Calls in parts ---- */
/* A call has the keys from `begin` to `end` of the sequence's first `k_len`, and queries from `query` on. */
static tess_attention_seq part_of(const problem *p, int64_t query, int64_t q_len, int64_t k_len, int64_t begin,
                                  int64_t end)
{
    const tess_attention_seq *s = &p->seqs[0];
    return (tess_attention_seq){.q_begin = s->q_begin + query,
                                .q_len = q_len,
                                .k_len = k_len,
                                .k = (const char *)s->k + (size_t)(begin * p->a.k_stride) * p->size,
                                .v = (const char *)s->v + (size_t)(begin * p->a.v_stride) * p->size,
                                .k_begin = begin,
                                .k_end = end,
                                .k_row = s->q_begin + begin};
}

static void *take_state(int64_t n)
{
    float *state = take((size_t)n * sizeof(*state));
    memset(state, 0xff, (size_t)n * sizeof(*state));
    return state;
}

/* Forward in two calls, of which the first ends with a chunk. */
static void forward_in_parts(tess_stream *s, problem *p)
{
    const int64_t keys = p->seqs[0].k_len, q_len = p->s.q_len[0];
    tess_attention_seq seq;
    tess_attention a = p->a;
    a.seqs = &seq;
    a.state = take_state(p->T * p->s.H * (p->s.D + 2));
    for (int64_t begin = 0; begin < keys; begin += TESS_ATTENTION_CHUNK) {
        const int64_t end = begin + TESS_ATTENTION_CHUNK < keys ? begin + TESS_ATTENTION_CHUNK : keys;
        seq = part_of(p, 0, q_len, keys, begin, end);
        seq.first = begin == 0;
        seq.last = end == keys;
        EXPECT_OK(tess_stream_kernels(s)->attention_forward(s, &a));
    }
    free(a.state);
}

/* Each head of queries has keys of its own, so all are computed in one call. */
static void backward_in_parts(tess_stream *s, problem *p, tess_attention_wanted wanted, float *delta)
{
    const int64_t n = p->s.q_len[0], D = p->s.D, H = p->s.H;
    tess_attention_seq seq;
    tess_attention_grad g = p->g;
    g.wanted = wanted;
    g.delta = delta;
    g.forward = p->a;
    g.forward.seqs = &seq;
    g.forward.state = take_state(n * H * (wanted == TESS_ATTENTION_KEYS ? 2 * D : D));
    if (wanted == TESS_ATTENTION_KEYS)
        g.dq = NULL;
    else
        g.dk = g.dv = NULL;
    for (int64_t begin = 0; begin < n; begin += TESS_ATTENTION_PART) {
        const int64_t end = begin + TESS_ATTENTION_PART < n ? begin + TESS_ATTENTION_PART : n;
        seq =
            wanted == TESS_ATTENTION_KEYS ? part_of(p, begin, end - begin, end, 0, n) : part_of(p, 0, n, n, begin, end);
        seq.first = begin == 0;
        seq.last = end == n;
        EXPECT_OK(tess_stream_kernels(s)->attention_backward(s, &g));
    }
    free(g.forward.state);
}

static char *copy_of(const char *x, int64_t elements, size_t size)
{
    char *copy = take((size_t)elements * size);
    memcpy(copy, x, (size_t)elements * size);
    memset((char *)(uintptr_t)x, 0xff, (size_t)elements * size);
    return copy;
}

/* Rows have padding, which calls leave as it is. */
static void expect_rows(const char *what, const problem *p, const char *got, char *want, int64_t stride)
{
    const size_t width = (size_t)(p->s.H * p->s.D);
    for (int64_t t = 0; t < p->T; t++)
        test_expect_same(__FILE__, __LINE__, what, got + (size_t)(t * stride) * p->size,
                         want + (size_t)(t * stride) * p->size, width, p->size);
    free(want);
}

static void calls_in_parts_have_the_bits_of_one(void)
{
    static const shape shapes[][2] = {{{1, 1, 64, 0, 1, {2}, {1030}}, {2, 2, 64, 0, 1, {129}, {0}}},
                                      {{1, 1, 128, 0, 1, {2}, {1030}}, {1, 1, 128, 0, 1, {129}, {0}}}};
    tess_stream *s;
    EXPECT_OK(cuda_shim_stream(test_mem(), true, &s));
    for (size_t i = 0; i < COUNT(shapes); i++) {
        random_state = 1;
        problem *p = problem_create(&shapes[i][0], TESS_BF16);
        EXPECT_OK(tess_stream_kernels(s)->attention_forward(s, &p->a));
        char *out = copy_of(p->out, p->T * p->a.out_stride, p->size);
        forward_in_parts(s, p);
        expect_rows("out", p, p->out, out, p->a.out_stride);
        problem_destroy(p);

        p = compute(s, &shapes[i][1], TESS_BF16);
        float *delta = take_state(p->T * p->s.H);
        char *dq = copy_of(p->dq, p->T * p->g.dq_stride, p->size), *dk = copy_of(p->dk, p->T * p->g.dk_stride, p->size),
             *dv = copy_of(p->dv, p->T * p->g.dv_stride, p->size);
        backward_in_parts(s, p, TESS_ATTENTION_QUERIES, delta);
        backward_in_parts(s, p, TESS_ATTENTION_KEYS, delta);
        expect_rows("dq", p, p->dq, dq, p->g.dq_stride);
        expect_rows("dk", p, p->dk, dk, p->g.dk_stride);
        expect_rows("dv", p, p->dv, dv, p->g.dv_stride);
        free(delta);
        problem_destroy(p);
    }
    tess_stream_destroy(&s);
}

/* ---- Pages ---- */
/* Copies the blocks of keys or values to pages in descending order, with a page of NaN between. */
static char *put_in_pages(const problem *p, const char *x, int64_t stride, int64_t page_stride, int64_t n_pages,
                          int64_t k_len)
{
    char *pages = take((size_t)(2 * n_pages * page_stride) * p->size);
    memset(pages, 0xff, (size_t)(2 * n_pages * page_stride) * p->size);
    for (int64_t key = 0; key < k_len; key++) {
        const int64_t page = 2 * (n_pages - 1 - key / TESS_ATTENTION_BLOCK), row = key % TESS_ATTENTION_BLOCK;
        memcpy(pages + (size_t)(page * page_stride + row * stride) * p->size, x + (size_t)(key * stride) * p->size,
               (size_t)(p->s.G * p->s.D) * p->size);
    }
    return pages;
}

static void keys_in_pages_have_the_bits_of_keys_in_rows(void)
{
    static const shape shapes[] = {{2, 1, 64, 0, 1, {3}, {150}}, {2, 1, 128, 0, 1, {2}, {1030}}};
    tess_stream *s;
    EXPECT_OK(cuda_shim_stream(test_mem(), true, &s));
    for (size_t i = 0; i < COUNT(shapes); i++) {
        random_state = 1;
        problem *p = problem_create(&shapes[i], TESS_BF16);
        EXPECT_OK(tess_stream_kernels(s)->attention_forward(s, &p->a));
        char *out = copy_of(p->out, p->T * p->a.out_stride, p->size);
        const int64_t keys = p->seqs[0].k_len, n = (keys + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK;
        const int64_t page_stride =
            TESS_ATTENTION_BLOCK * (p->a.k_stride > p->a.v_stride ? p->a.k_stride : p->a.v_stride);
        int32_t *places = take((size_t)n * sizeof(*places));
        for (int64_t page = 0; page < n; page++)
            places[page] = (int32_t)(2 * (n - 1 - page));
        char *k = put_in_pages(p, p->seqs[0].k, p->a.k_stride, page_stride, n, keys),
             *v = put_in_pages(p, p->seqs[0].v, p->a.v_stride, page_stride, n, keys);
        tess_attention a = p->a;
        tess_attention_seq seq = p->seqs[0];
        seq.pages = places;
        seq.k = k;
        seq.v = v;
        a.seqs = &seq;
        a.page_stride = page_stride;
        EXPECT_OK(tess_stream_kernels(s)->attention_forward(s, &a));
        expect_rows("out from pages", p, p->out, out, p->a.out_stride);
        free(places);
        free(k);
        free(v);
        problem_destroy(p);
    }
    tess_stream_destroy(&s);
}

static const test_case cases[] = {
    CASE(exact_attention_has_the_bits_of_ref),          CASE(tensor_cores_are_within_5e_3_of_float64),
    CASE(rows_after_many_keys_do_not_depend_on_others), CASE(calls_in_parts_have_the_bits_of_one),
    CASE(keys_in_pages_have_the_bits_of_keys_in_rows),
};

TEST_MAIN(cases)
