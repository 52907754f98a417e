/* Rows that move bytes, and the exact sum, on several threads. */
#include "elementwise_test.h"

#include "base/core/exact_sum.h"

/* Rows of 1 to 70 bytes from one stride to another; what lies between the rows of y stays. */
static void rows_are_copied_between_strides(void)
{
    enum { N = 37, STRIDE = 80 };
    static const size_t sizes[] = {0, 1, 7, 64, 70};
    static uint8_t x[N * STRIDE], y[N * STRIDE];
    for (size_t i = 0; i < sizeof(x); i++)
        x[i] = (uint8_t)(i * 7);
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        for (size_t z = 0; z < COUNT(sizes); z++) {
            size_t x_stride = sizes[z] + 3, y_stride = sizes[z] + 10;
            memset(y, 0xee, sizeof(y));
            EXPECT_OK(tess_stream_kernels(s)->copy_rows(
                s, &(tess_copy_rows_args){
                       .x = x, .x_stride = x_stride, .y = y, .y_stride = y_stride, .n = N, .row_bytes = sizes[z]}));
            for (size_t i = 0; i < N * y_stride; i++) {
                size_t row = i / y_stride, at = i % y_stride;
                EXPECT_INT(y[i], at < sizes[z] ? x[row * x_stride + at] : 0xee);
            }
        }
        tess_stream_destroy(&s);
    }
}

static void rows_are_gathered_by_index(void)
{
    enum { ROWS = 11, N = 3000, C = 33 };
    static float x[ROWS * C], y[N * C];
    static int32_t index[N];
    for (int i = 0; i < ROWS * C; i++)
        x[i] = (float)i;
    for (int i = 0; i < N; i++)
        index[i] = i * 5 % ROWS;
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        memset(y, 0, sizeof(y));
        EXPECT_OK(tess_stream_kernels(s)->gather_rows(
            s, &(tess_gather_rows_args){.x = x, .index = index, .y = y, .n = N, .row_bytes = C * sizeof(float)}));
        for (int i = 0; i < N * C; i++)
            EXPECT(y[i] == x[index[i / C] * C + i % C]);
        EXPECT_OK(tess_stream_kernels(s)->gather_rows(
            s, &(tess_gather_rows_args){.x = x, .index = index, .y = y, .n = 0, .row_bytes = C * sizeof(float)}));
        tess_stream_destroy(&s);
    }
}

/* Huge values that cancel leave the small ones; parts in any order have the limbs of the whole, on any table. */
static void sums_are_exact_in_any_parts(void)
{
    enum { N = 1001 };
    float x[N];
    double small = 0;
    tess_exact_sum first;
    for (int i = 0; i < N; i++) {
        x[i] = i % 2 == 1 ? (i % 4 == 1 ? 1e38f : -1e38f) : i % 8 == 6 ? (float)i * 1e-44f : (float)i * 0.25f;
        small += i % 2 == 1 ? 0 : (double)x[i];
    }
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        const tess_kernels *k = tess_stream_kernels(s);
        tess_exact_sum whole = {0}, parts = {0}, negated = {0};
        EXPECT_OK(k->exact_sum(s, &(tess_exact_sum_args){.x = x, .n = N, .sum = &whole}));
        EXPECT_OK(k->exact_sum(s, &(tess_exact_sum_args){.x = x + 400, .n = N - 400, .sum = &parts}));
        EXPECT_OK(k->exact_sum(s, &(tess_exact_sum_args){.x = x, .n = 0, .sum = &parts}));
        EXPECT_OK(k->exact_sum(s, &(tess_exact_sum_args){.x = x, .n = 400, .sum = &parts}));
        EXPECT_OK(k->exact_sum(s, &(tess_exact_sum_args){.x = x, .n = N, .negate = true, .sum = &negated}));
        EXPECT(tess_exact_value(&whole) == small);
        EXPECT(tess_exact_value(&negated) == -small);
        if (v == 0)
            first = whole;
        test_expect_same(__FILE__, __LINE__, "limbs", parts.limb, whole.limb, TESS_EXACT_LIMBS, sizeof(int64_t));
        test_expect_same(__FILE__, __LINE__, variants[v].level, whole.limb, first.limb, TESS_EXACT_LIMBS,
                         sizeof(int64_t));
        tess_stream_destroy(&s);
    }
}

static void sums_say_what_is_not_finite(void)
{
    const float x[] = {1, INFINITY, 2, NAN, -INFINITY};
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        for (int begin = 0; begin < 5; begin++) {
            tess_exact_sum sum = {0}, negated = {0};
            bool has_nan = begin <= 3, both = begin <= 1;
            EXPECT_OK(tess_stream_kernels(s)->exact_sum(
                s, &(tess_exact_sum_args){.x = x + begin, .n = 5 - begin, .sum = &sum}));
            EXPECT_OK(tess_stream_kernels(s)->exact_sum(
                s, &(tess_exact_sum_args){.x = x + begin, .n = 5 - begin, .negate = true, .sum = &negated}));
            EXPECT(has_nan || both ? isnan(tess_exact_value(&sum)) : tess_exact_value(&sum) == -INFINITY);
            EXPECT(has_nan || both ? isnan(tess_exact_value(&negated)) : tess_exact_value(&negated) == INFINITY);
        }
        tess_stream_destroy(&s);
    }
}

static void a_search_finds_the_first_of_two_dtypes(void)
{
    enum { N = 5000 };
    static const int64_t bad[][2] = {{0, 4999}, {257, 300}, {4999, 4999}};
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        const tess_kernels *k = tess_stream_kernels(s);
        for (size_t i = 0; i < 2 * COUNT(bad); i++) {
            tess_dtype dtype = both_dtypes[i % 2];
            void *x = random_array(1, N, 0, 1, dtype);
            int64_t first = -2;
            EXPECT_OK(
                k->find_not_finite(s, &(tess_find_not_finite_args){.x = x, .dtype = dtype, .n = N, .first = &first}));
            EXPECT_INT(first, -1);
            put_value(x, bad[i / 2][0], INFINITY, dtype);
            put_value(x, bad[i / 2][1], NAN, dtype);
            EXPECT_OK(
                k->find_not_finite(s, &(tess_find_not_finite_args){.x = x, .dtype = dtype, .n = N, .first = &first}));
            EXPECT_INT(first, bad[i / 2][0]);
            EXPECT_OK(
                k->find_not_finite(s, &(tess_find_not_finite_args){.x = x, .dtype = dtype, .n = 0, .first = &first}));
            EXPECT_INT(first, -1);
            free(x);
        }
        int64_t first;
        EXPECT_FAILS(
            k->find_not_finite(s, &(tess_find_not_finite_args){.x = &first, .dtype = TESS_U8, .n = 2, .first = &first}),
            TESS_E_UNSUPPORTED, "uint8");
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    {.name = "rows_are_copied_between_strides", .run = rows_are_copied_between_strides},
    {.name = "rows_are_gathered_by_index", .run = rows_are_gathered_by_index},
    {.name = "sums_are_exact_in_any_parts", .run = sums_are_exact_in_any_parts},
    {.name = "sums_say_what_is_not_finite", .run = sums_say_what_is_not_finite},
    {.name = "a_search_finds_the_first_of_two_dtypes", .run = a_search_finds_the_first_of_two_dtypes},
};

TEST_MAIN(cases)
