/* Products of bfloat16 by cublasLt: which way is taken, that rows do not depend on their number, and that the numbers
 * are right. The first two cases want a GPU as well as the library, or those that play them. */
#include "support/test.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "device/bf16.h"
#include "device/cuda/cuda_products.h"
#include "device/device.h"

typedef struct shape {
    int64_t m, n, k;
    bool trans_a, trans_b, accumulate, bias, c_is_float;
} shape;

typedef struct operands {
    tess_device *d;
    tess_stream *s;
    uint16_t *a, *b, *bias;
    float *begin; /* C */
    tess_gemm g;  /* operands on the device */
} operands;

static int64_t units(int64_t n)
{
    return (n + 7) / 8 * 8;
}

static uint16_t *draw(int64_t count, uint32_t seed)
{
    uint16_t *x = malloc((size_t)count * sizeof(*x));
    EXPECT(x != NULL);
    for (int64_t i = 0; i < count; i++)
        x[i] = tess_float_to_bf16((float)(((uint32_t)i + seed) * 2654435761u >> 8) / 8388608.0f - 1);
    return x;
}

static void *on_device(operands *o, const void *from, size_t bytes)
{
    void *x;
    EXPECT_OK(tess_device_alloc(o->d, TESS_POOL_ACTIVATIONS, bytes, "operand", &x));
    EXPECT_OK(tess_stream_copy(o->s, x, from, bytes));
    return x;
}

static operands create(const shape *p)
{
    operands o;
    EXPECT_OK(tess_device_open(test_mem(), "cuda", 0, &o.d));
    EXPECT_OK(tess_device_stream(o.d, 1, NULL, &o.s));
    o.g = (tess_gemm){.m = p->m, .n = p->n, .k = p->k, .trans_a = p->trans_a, .trans_b = p->trans_b};
    o.g.lda = units(p->trans_a ? p->m : p->k);
    o.g.ldb = units(p->trans_b ? p->k : p->n);
    o.g.ldc = units(p->n) + 8;
    o.g.accumulate = p->accumulate;
    o.g.ab_dtype = TESS_BF16;
    o.g.c_dtype = p->c_is_float ? TESS_F32 : TESS_BF16;
    int64_t a = (p->trans_a ? p->k : p->m) * o.g.lda, b = (p->trans_b ? p->n : p->k) * o.g.ldb, c = p->m * o.g.ldc;
    o.a = draw(a, 1);
    o.b = draw(b, 77777);
    o.bias = draw(p->n, 99);
    o.begin = calloc((size_t)c, sizeof(float));
    EXPECT(o.begin != NULL);
    for (int64_t i = 0; i < c; i++)
        o.begin[i] = (float)(i % 13) / 4;
    o.g.a = on_device(&o, o.a, (size_t)a * 2);
    o.g.b = on_device(&o, o.b, (size_t)b * 2);
    o.g.bias = p->bias ? on_device(&o, o.bias, (size_t)p->n * 2) : NULL;
    o.g.c = on_device(&o, o.begin, (size_t)c * sizeof(float));
    return o;
}

/* If the library computes, each plan must have a member. Otherwise the case would test the plug-in's kernel again. */
static void expect_plans(const operands *o)
{
    fflush(stdout);
    EXPECT_INT(tess_cuda_products_log(o->d, stdout), 0);
}

static void destroy(operands *o)
{
    tess_device_free(o->d, (void *)o->g.a);
    tess_device_free(o->d, (void *)o->g.b);
    tess_device_free(o->d, (void *)o->g.bias);
    tess_device_free(o->d, o->g.c);
    free(o->a);
    free(o->b);
    free(o->bias);
    free(o->begin);
    tess_stream_destroy(&o->s);
    EXPECT_INT(tess_device_close(&o->d), 0);
}

/* Rows first .. first + m of the product, in bytes. */
static char *rows(operands *o, int64_t first, int64_t m)
{
    tess_gemm g = o->g;
    size_t row_bytes = (size_t)g.ldc * tess_dtype_size(g.c_dtype), bytes = (size_t)m * row_bytes;
    char *out = malloc(bytes);
    EXPECT(out != NULL);
    g.m = m;
    g.a = (const uint16_t *)g.a + (g.trans_a ? first : first * g.lda);
    EXPECT_OK(tess_stream_copy(o->s, g.c, o->begin, bytes));
    EXPECT_OK(tess_stream_kernels(o->s)->gemm(o->s, &g));
    EXPECT_OK(tess_fetch(o->s, out, g.c, bytes));
    return out;
}

static float get(const operands *o, const void *c, int64_t i, int64_t j)
{
    return tess_get_float(c, o->g.c_dtype, (size_t)(i * o->g.ldc + j));
}

/* |got - exact| / |exact| over all of C, in double. */
static double distance(const operands *o, const char *c)
{
    double apart = 0, whole = 0;
    const tess_gemm *g = &o->g;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = g->accumulate ? (double)get(o, o->begin, i, j) : 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += (double)tess_bf16_to_float(o->a[g->trans_a ? k * g->lda + i : i * g->lda + k]) *
                       (double)tess_bf16_to_float(o->b[g->trans_b ? j * g->ldb + k : k * g->ldb + j]);
            sum += g->bias != NULL ? (double)tess_bf16_to_float(o->bias[j]) : 0;
            apart += pow((double)get(o, c, i, j) - sum, 2);
            whole += sum * sum;
        }
    return sqrt(apart / whole);
}

static const shape shapes[] = {
    {300, 40, 72, false, true, false, false, false},  {65, 23, 24, false, true, false, false, true},
    {130, 48, 330, false, false, false, true, false}, {64, 56, 99, true, false, false, false, true},
    {72, 16, 33, true, false, true, false, true},     {70, 24, 16, false, false, true, false, true},
    {2050, 264, 8, true, false, true, false, true}, /* tiles of several columns, beyond a group of rows */
};

static void products_are_within_5e_3_of_float64(void)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        operands o = create(&shapes[i]);
        EXPECT(strncmp(tess_stream_kernels(o.s)->name, "cuda-tc ", 8) == 0);
        char *c = rows(&o, 0, o.g.m);
        EXPECT(distance(&o, c) < 5e-3);
        expect_plans(&o);
        free(c);
        destroy(&o);
    }
}

static void rows_do_not_depend_on_their_number(void)
{
    static const int64_t parts[][2] = {{0, 1}, {3, 1}, {0, 7}, {5, 60}, {1, 64}, {0, 65}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (shapes[i].trans_a || shapes[i].accumulate)
            continue;
        operands o = create(&shapes[i]);
        char *all = rows(&o, 0, o.g.m);
        size_t row_bytes = (size_t)o.g.ldc * tess_dtype_size(o.g.c_dtype),
               used = (size_t)o.g.n * tess_dtype_size(o.g.c_dtype);
        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
            int64_t first = parts[k][0], m = parts[k][1];
            if (first + m > o.g.m)
                continue;
            char *some = rows(&o, first, m);
            for (int64_t r = 0; r < m; r++)
                EXPECT_SAME(some + (size_t)r * row_bytes, all + (size_t)(first + r) * row_bytes, used);
            free(some);
        }
        expect_plans(&o);
        free(all);
        destroy(&o);
    }
}

/* ---- A library that plays cuBLASLt ---- */
enum { VARIANT = 1, GREEDY, ASCENDING, DESCENDING, FEW, SPLITS, WAYS = 8 };

static const int *calls_of_fake(void)
{
    void *library = dlopen(getenv("TESSERA_CUBLAS"), RTLD_NOW);
    const int *calls = library != NULL ? dlsym(library, "fake_cublas_calls") : NULL;
    EXPECT(calls != NULL);
    return calls;
}

static void a_way_is_taken_once_it_is_proven(void)
{
    EXPECT_INT(setenv("TESSERA_CUBLAS_TIMING", "off", 1), 0);
    operands o = create(&shapes[0]);
    const int *calls = calls_of_fake();
    free(rows(&o, 0, 300)); /* the proof, and the product */
    EXPECT(calls[VARIANT] > 1 && calls[ASCENDING] > 5 && calls[FEW] > 5);
    EXPECT_INT(calls[DESCENDING], 1); /* the first of its results differs */
    EXPECT_INT(calls[GREEDY], 0);
    int before[WAYS];
    memcpy(before, calls, sizeof(before));
    free(rows(&o, 0, 300));
    free(rows(&o, 0, 65));
    free(rows(&o, 0, 64));
    EXPECT_INT(calls[ASCENDING], before[ASCENDING] + 2);
    EXPECT_INT(calls[FEW], before[FEW] + 1);
    EXPECT_INT(calls[VARIANT], before[VARIANT]);
    destroy(&o);
}

/* Parts of k have work space of the stream. The sum has the bits of the two halves, each in ascending order. */
static void the_gradient_of_a_weight_may_split_k(void)
{
    operands o = create(&shapes[3]);
    const tess_gemm *g = &o.g;
    const int *calls = calls_of_fake();
    const int before = calls[SPLITS];
    char *c = rows(&o, 0, g->m);
    EXPECT_INT(calls[SPLITS], before + 1);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float sum[2] = {0, 0};
            for (int64_t k = 0; k < g->k; k++) {
                float *part = &sum[k < g->k / 2 ? 0 : 1];
                *part = fmaf(tess_bf16_to_float(o.b[k * g->ldb + j]), tess_bf16_to_float(o.a[k * g->lda + i]), *part);
            }
            EXPECT(get(&o, c, i, j) == sum[0] + sum[1]);
        }
    free(c);
    destroy(&o);
}

/* Whether products of many rows and of few are computed by the other way than the slow one, once it was measured. The
 * product has the same bits as while that was done. */
static bool takes_the_fast(int slow)
{
    int before[WAYS], fast = ASCENDING + FEW - slow;
    const int *calls = calls_of_fake();
    operands o = create(&shapes[1]);
    char *first = rows(&o, 0, 65), *again;
    free(rows(&o, 0, 20));
    memcpy(before, calls, sizeof(before));
    again = rows(&o, 0, 65);
    free(rows(&o, 0, 20));
    EXPECT_INT(calls[fast] + calls[slow], before[fast] + before[slow] + 2);
    EXPECT_SAME(again, first, (size_t)65 * (size_t)o.g.ldc * sizeof(float));
    bool takes = calls[slow] == before[slow];
    free(again);
    free(first);
    destroy(&o);
    return takes;
}

/* The fastest of the ways that are proven to have the same bits computes, whichever is proposed first. A machine that
 * stands still while the fast one is measured is asked again. */
static void the_fastest_proven_way_computes(void)
{
    enum { MOST_TRIES = 20 };
    for (int slow = ASCENDING; slow <= FEW; slow += FEW - ASCENDING) {
        char text[8];
        int n = 0;
        snprintf(text, sizeof(text), "%d", slow);
        EXPECT_INT(setenv("CUBLAS_FAKE_SLOW", text, 1), 0);
        while (!takes_the_fast(slow))
            EXPECT(++n < MOST_TRIES);
    }
}

/* A product is computed more than once to be measured, so none that adds to what is there is. */
static void a_product_that_adds_is_computed_once(void)
{
    shape p = shapes[1];
    p.accumulate = true;
    operands o = create(&p);
    for (int i = 0; i < 2; i++) {
        char *c = rows(&o, 0, 65);
        EXPECT(distance(&o, c) < 5e-3);
        free(c);
    }
    destroy(&o);
}

/* Its name says so, and its bits are the library's: here those of float32 chains, which the plug-in's kernel has, too.
 */
static void what_is_not_proven_is_the_plug_ins(const char *wish)
{
    EXPECT_INT(wish != NULL ? setenv("CUBLAS_FAKE", wish, 1) : unsetenv("CUBLAS_FAKE"), 0);
    operands o = create(&shapes[0]);
    const int *calls = calls_of_fake();
    char *c = rows(&o, 0, 300);
    EXPECT(distance(&o, c) < 5e-3);
    EXPECT_INT(calls[ASCENDING] + calls[FEW], 0);
    EXPECT(calls[VARIANT] <= 8);
    free(c);
    destroy(&o);
}

static void without_a_proven_way_the_plug_in_computes(void)
{
    what_is_not_proven_is_the_plug_ins("variant");
}

static void without_a_proposal_the_plug_in_computes(void)
{
    what_is_not_proven_is_the_plug_ins("none");
}

static void set_refusal(int way, int rows, int error)
{
    char text[32];
    snprintf(text, sizeof(text), "%d:%d:%d", way, rows, error);
    EXPECT_INT(setenv("CUBLAS_FAKE_REFUSE", text, 1), 0);
}

/* Every error that says "not this way", in a proof: the run goes on. */
static void a_way_that_is_refused_in_its_proof_is_not_taken(void)
{
    static const int errors[] = {7, 8, 15}, all_rows = 2048;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        set_refusal(ASCENDING, all_rows, errors[i]);
        operands o = create(&shapes[0]);
        const int *calls = calls_of_fake();
        char *c = rows(&o, 0, 300);
        EXPECT(distance(&o, c) < 5e-3);
        EXPECT_INT(calls[ASCENDING], 0);
        EXPECT_INT(tess_cuda_products_log(o.d, stdout), 1);
        free(c);
        destroy(&o);
    }
}

/* A product that one member refuses is computed by another, with the same bits. */
static void a_member_that_is_refused_is_replaced(void)
{
    EXPECT_INT(setenv("TESSERA_CUBLAS_TIMING", "off", 1), 0);
    set_refusal(ASCENDING, 300, 7);
    operands o = create(&shapes[0]);
    const int *calls = calls_of_fake();
    char *some = rows(&o, 0, 65);
    int before = calls[FEW];
    char *all = rows(&o, 0, 300);
    EXPECT_INT(calls[FEW], before + 1);
    EXPECT_SAME(all, some, 65 * (size_t)o.g.ldc * 2);
    free(all);
    free(some);
    destroy(&o);
}

/* The gradient of a weight has the next proposal, or the plug-in's kernel. */
static void a_gradient_that_is_refused_is_computed_otherwise(void)
{
    set_refusal(SPLITS, 64, 7);
    operands o = create(&shapes[3]);
    const int *calls = calls_of_fake();
    char *c = rows(&o, 0, 64);
    EXPECT(distance(&o, c) < 5e-3);
    EXPECT_INT(calls[DESCENDING], 1);
    free(c);
    destroy(&o);
}

/* An error of the GPU may come on one rank alone, and no other bits may follow from it. */
static void an_error_of_the_gpu_is_no_refusal(void)
{
    set_refusal(ASCENDING, 300, 13);
    EXPECT_INT(setenv("TESSERA_CUBLAS_TIMING", "off", 1), 0);
    operands o = create(&shapes[0]);
    EXPECT_FAILS(tess_stream_kernels(o.s)->gemm(o.s, &o.g), TESS_E_INTERNAL, "gives error 13 for a product of m 300");
    destroy(&o);
}

static void no_other_bits_follow_what_the_library_has_computed(void)
{
    EXPECT_INT(setenv("CUBLAS_FAKE", "many", 1), 0);
    EXPECT_INT(setenv("TESSERA_CUBLAS_TIMING", "off", 1), 0);
    set_refusal(ASCENDING, 300, 7);
    operands o = create(&shapes[0]);
    free(rows(&o, 0, 65));
    EXPECT_FAILS(tess_stream_kernels(o.s)->gemm(o.s, &o.g), TESS_E_UNSUPPORTED, "refuses one of m 300");
    destroy(&o);
}

/* Strides of 7 elements, leaves and float32 are not the library's. */
static void other_products_are_the_plug_ins(void)
{
    operands o = create(&shapes[0]);
    const int *calls = calls_of_fake();
    int64_t ldc = o.g.ldc;
    o.g.ldc = 41;
    free(rows(&o, 0, 10));
    o.g.ldc = ldc;
    o.g.leaf = 32;
    free(rows(&o, 0, 10));
    for (int i = 0; i < WAYS; i++)
        EXPECT_INT(calls[i], 0);
    destroy(&o);
}

/* A group of products whose weights are few goes to the plug-in. Each of other groups is a call of the library. */
static void groups_of_small_weights_are_the_plug_ins(void)
{
    const shape large = {5, 524296, 8, false, true, false, false, false}, *const of[] = {&shapes[0], &large};
    EXPECT_INT(setenv("TESSERA_CUBLAS_TIMING", "off", 1), 0);
    for (int i = 0; i < 2; i++) {
        operands o = create(of[i]);
        tess_gemm_fused products[3] = {{.g = o.g}, {.g = o.g}, {.g = o.g}};
        for (int j = 0; j < 3; j++) {
            products[j].g.m = 1 + j / 2;
            products[j].g.a = (const uint16_t *)o.g.a + j * o.g.lda;
            products[j].g.c = (char *)o.g.c + (size_t)(j * o.g.ldc) * tess_dtype_size(o.g.c_dtype);
        }
        const size_t bytes = 4 * (size_t)o.g.ldc * 2;
        char *want = rows(&o, 0, 4), *got = malloc(bytes);
        EXPECT(got != NULL);
        const int *calls = calls_of_fake(), before = calls[ASCENDING] + calls[FEW];
        EXPECT_OK(tess_stream_copy(o.s, o.g.c, o.begin, bytes));
        EXPECT_OK(tess_stream_kernels(o.s)->gemm_grouped(
            o.s, &(tess_gemm_grouped){.products = products, .n_products = 3, .ab_dtype = TESS_BF16}));
        EXPECT_OK(tess_fetch(o.s, got, o.g.c, bytes));
        EXPECT_INT(calls[ASCENDING] + calls[FEW] - before, i == 0 ? 0 : 3);
        o.g.m = 4;
        EXPECT(distance(&o, got) < 5e-3);
        if (i > 0) /* the library's bits, which the plug-in's need not be */
            EXPECT_SAME(got, want, bytes);
        free(got);
        free(want);
        destroy(&o);
    }
}

static void a_library_that_is_none_is_refused(void)
{
    tess_device *d;
    EXPECT_INT(setenv("TESSERA_CUBLAS", "mine", 1), 0);
    EXPECT_FAILS(tess_device_open(test_mem(), "cuda", 0, &d), TESS_E_INVALID,
                 "TESSERA_CUBLAS is 'mine', expected off, own");
    EXPECT_INT(setenv("TESSERA_CUBLAS", "/nowhere/x.so", 1), 0);
    EXPECT_FAILS(tess_device_open(test_mem(), "cuda", 0, &d), TESS_E_UNSUPPORTED, "cannot load cuBLAS");
    EXPECT_INT(setenv("TESSERA_CUBLAS", getenv("TESSERA_CUDA"), 1), 0);
    EXPECT_FAILS(tess_device_open(test_mem(), "cuda", 0, &d), TESS_E_UNSUPPORTED, "it has no cublasLtGetVersion");
    EXPECT_INT(setenv("TESSERA_CUBLAS", "off", 1), 0);
    EXPECT_OK(tess_device_open(test_mem(), "cuda", 0, &d));
    EXPECT_INT(tess_device_close(&d), 0);
}

static void a_library_that_does_not_start_is_refused(void)
{
    tess_device *d;
    EXPECT_INT(setenv("CUBLAS_FAKE_BROKEN", "1", 1), 0);
    EXPECT_FAILS(tess_device_open(test_mem(), "cuda", 0, &d), TESS_E_UNSUPPORTED, "TESSERA_CUBLAS=own");
}

static const test_case cases[] = {
    CASE(products_are_within_5e_3_of_float64),
    CASE(rows_do_not_depend_on_their_number),
    CASE(a_way_is_taken_once_it_is_proven),
    CASE(the_fastest_proven_way_computes),
    CASE(the_gradient_of_a_weight_may_split_k),
    CASE(a_product_that_adds_is_computed_once),
    CASE(without_a_proven_way_the_plug_in_computes),
    CASE(without_a_proposal_the_plug_in_computes),
    CASE(a_way_that_is_refused_in_its_proof_is_not_taken),
    CASE(a_member_that_is_refused_is_replaced),
    CASE(a_gradient_that_is_refused_is_computed_otherwise),
    CASE(an_error_of_the_gpu_is_no_refusal),
    CASE(no_other_bits_follow_what_the_library_has_computed),
    CASE(other_products_are_the_plug_ins),
    CASE(groups_of_small_weights_are_the_plug_ins),
    CASE(a_library_that_is_none_is_refused),
    CASE(a_library_that_does_not_start_is_refused),
};

TEST_MAIN(cases)
