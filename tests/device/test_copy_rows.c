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

/* Keys and values go to a cache in this way: more runs of one length than a GPU copies in a launch, and runs of several
 * parts. Values between them stay. */
static void equal_runs_are_copied(void)
{
    enum { MOST = 250 };
    static const tess_dtype dtypes[] = {TESS_U8, TESS_BF16, TESS_F32, TESS_I64};
    static const struct {
        int64_t n_runs, length;
    } shapes[] = {{MOST, 5}, {3, 4099}, {1, 1}, {7, 0}};
    tess_value_run runs[MOST];
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        for (size_t at = 0; at < COUNT(dtypes) * COUNT(shapes); at++) {
            const tess_dtype dtype = dtypes[at / COUNT(shapes)];
            const int64_t n = shapes[at % COUNT(shapes)].n_runs, length = shapes[at % COUNT(shapes)].length;
            const size_t row = (size_t)length * tess_dtype_size(dtype), stride = row + 8, bytes = (size_t)n * stride;
            uint8_t *x = new_array((int64_t)bytes, 1), *y = new_array((int64_t)bytes, 1);
            for (size_t i = 0; i < bytes; i++)
                x[i] = (uint8_t)tess_rng_u64(3, TESS_RNG_TEST, at, i);
            memset(y, 0xee, bytes);
            for (int64_t i = 0; i < n; i++) /* the last run goes first */
                runs[i] = (tess_value_run){x + (size_t)i * stride, y + (size_t)(n - 1 - i) * stride, length};
            EXPECT_OK(tess_stream_kernels(s)->convert_runs(
                s, &(tess_convert_runs_args){.runs = runs, .n_runs = n, .from = dtype, .to = dtype}));
            for (int64_t i = 0; i < n; i++) {
                const uint8_t *got = runs[i].y;
                EXPECT_SAME(got, runs[i].x, row);
                for (size_t k = row; k < stride; k++)
                    EXPECT_INT(got[k], 0xee);
            }
            free(x);
            free(y);
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
    {.name = "equal_runs_are_copied", .run = equal_runs_are_copied},
    {.name = "rows_are_gathered_by_index", .run = rows_are_gathered_by_index},
    {.name = "sums_are_exact_in_any_parts", .run = sums_are_exact_in_any_parts},
    {.name = "sums_say_what_is_not_finite", .run = sums_say_what_is_not_finite},
    {.name = "a_search_finds_the_first_of_two_dtypes", .run = a_search_finds_the_first_of_two_dtypes},
};

TEST_MAIN(cases)
