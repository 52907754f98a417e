/* Sums, scales and reductions: one rounding an element, in the order of additions that every table keeps. */
#include "elementwise_test.h"

static const int64_t sizes[] = {0, 1, 15, 16, 17, 31, 33, 100, 40009};

static void add_rounds_once_and_works_in_place(void)
{
    for (size_t i = 0; i < COUNT(sizes) * 4; i++) {
        tess_dtype dtype = both_dtypes[i % 2];
        int64_t n = sizes[i / 4];
        const float factor = i % 4 < 2 ? 0 : 0.22f;
        void *a = random_array(1, n, 0, 1, dtype), *b = random_array(2, n, 0, 1, dtype);
        void *want = new_array(n, tess_dtype_size(dtype));
        for (int64_t k = 0; k < n; k++)
            put_value(want, k,
                      fmaf(factor != 0 ? factor : 1, (float)value_at(a, k, dtype), (float)value_at(b, k, dtype)),
                      dtype);
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            void *y = copy_array(a, n, dtype);
            EXPECT_OK(tess_stream_kernels(s)->add(
                s, &(tess_add_args){.a = y, .b = b, .y = y, .n = n, .factor = factor, .dtype = dtype}));
            expect_bits("a + b over a", v, y, want, n, dtype);
            free(y);
            tess_stream_destroy(&s);
        }
        free(a);
        free(b);
        free(want);
    }
}

static void scale_rounds_once_and_works_in_place(void)
{
    static const float factor = 0.7f;
    for (size_t i = 0; i < COUNT(sizes) * 2; i++) {
        tess_dtype dtype = both_dtypes[i % 2];
        int64_t n = sizes[i / 2];
        void *x = random_array(1, n, 0, 1, dtype), *want = new_array(n, tess_dtype_size(dtype));
        for (int64_t k = 0; k < n; k++)
            put_value(want, k, factor * (float)value_at(x, k, dtype), dtype);
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            void *y = copy_array(x, n, dtype);
            EXPECT_OK(tess_stream_kernels(s)->scale(
                s, &(tess_scale_args){.x = y, .factor = factor, .y = y, .n = n, .dtype = dtype}));
            expect_bits("factor x over x", v, y, want, n, dtype);
            free(y);
            tess_stream_destroy(&s);
        }
        free(x);
        free(want);
    }
}

static void a_soft_cap_agrees_with_float64_and_bit_for_bit_across_levels(void)
{
    static const float caps[] = {0.5f, 30};
    for (size_t i = 0; i < COUNT(sizes) * 4; i++) {
        const float cap = caps[i % 4 / 2];
        tess_dtype dtype = both_dtypes[i % 2];
        int64_t n = sizes[i / 4];
        void *x = random_array(1, n, 0, 40, dtype), *want = NULL;
        for (int64_t k = 0; k < n; k += 13)
            put_value(x, k, k % 2 == 0 ? -INFINITY : 1e30, dtype);
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            void *y = copy_array(x, n, dtype);
            EXPECT_OK(tess_stream_kernels(s)->scale(
                s, &(tess_scale_args){.x = y, .factor = 0.7f, .soft_cap = cap, .y = y, .n = n, .dtype = dtype}));
            for (int64_t k = 0; k < n && v == 0; k++) {
                double given = value_at(x, k, dtype), capped = cap * tanh((double)0.7f * given / cap);
                double rounding = dtype == TESS_F32 ? 5e-7 : 1.0 / 255;
                EXPECT(isfinite(given) || value_at(y, k, dtype) == given); /* a masked value remains masked */
                if (isfinite(given))
                    expect_near("soft cap", k, value_at(y, k, dtype), capped, rounding * fabs(capped));
            }
            want = v == 0 ? copy_array(y, n, dtype) : want;
            expect_bits("soft cap", v, y, want, n, dtype);
            free(y);
            tess_stream_destroy(&s);
        }
        free(x);
        free(want);
    }
}

/* The order that the table states, spelled out once more here: blocks of 32 tokens, ascending. */
static void column_sums_run_in_blocks_of_32_tokens(void)
{
    const int64_t shapes[][2] = {{0, 9}, {1, 1}, {31, 15}, {32, 16}, {33, 17}, {65, 33}, {100, 100}, {67, 2501}};
    for (size_t i = 0; i < COUNT(shapes) * 2; i++) {
        tess_dtype dtype = both_dtypes[i % 2];
        int64_t T = shapes[i / 2][0], C = shapes[i / 2][1], stride = C % 4 == 0 ? C + 8 : C + 6;
        void *dy = random_array(1, T * stride, 0, 1, dtype);
        float *want = new_array(C, 4), *block = new_array(C, 4);
        for (int64_t c = 0; c < C; c++) {
            want[c] = block[c] = 0;
            for (int64_t t = 0; t < T; t++) {
                block[c] += (float)value_at(dy, t * stride + c, dtype);
                if (t % 32 == 31 || t == T - 1) {
                    want[c] += block[c];
                    block[c] = 0;
                }
            }
        }
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            float *db = blank_array(C, TESS_F32);
            EXPECT_OK(tess_stream_kernels(s)->column_sum(
                s, &(tess_column_sum_args){.dy = dy, .stride = stride, .db = db, .T = T, .C = C, .dtype = dtype}));
            expect_bits("column sums", v, db, want, C, TESS_F32);
            free(db);
            tess_stream_destroy(&s);
        }
        free(dy);
        free(want);
        free(block);
    }
}

/* Level by level: neighbours are added, an odd one out is carried up. */
static float tree_by_levels(const void *const *x, int n, int64_t i, tess_dtype dtype)
{
    float value[16];
    for (int r = 0; r < n; r++)
        value[r] = (float)value_at(x[r], i, dtype);
    for (; n > 1; n = (n + 1) / 2)
        for (int r = 0; r < (n + 1) / 2; r++)
            value[r] = 2 * r + 1 < n ? value[2 * r] + value[2 * r + 1] : value[2 * r];
    return n == 1 ? value[0] : 0;
}

static void reduce_adds_neighbours_first_for_any_number_of_inputs(void)
{
    for (int n_inputs = 0; n_inputs <= 16; n_inputs++) {
        for (size_t i = 0; i < COUNT(sizes) * 4; i++) {
            tess_dtype dtype = both_dtypes[i % 2];
            bool accumulate = i % 4 >= 2;
            int64_t n = sizes[i / 4] < 1000 || n_inputs == 8 ? sizes[i / 4] : 1000;
            const void *x[16];
            for (int r = 0; r < n_inputs; r++)
                x[r] = random_array((uint64_t)r, n, 0, 1, dtype);
            float *start = random_array(99, n, 0, 1, TESS_F32), *want = new_array(n, 4);
            for (int64_t k = 0; k < n; k++) {
                float sum = tree_by_levels(x, n_inputs, k, dtype);
                want[k] = accumulate ? sum + start[k] : sum;
            }
            for (size_t v = 0; v < COUNT(variants); v++) {
                tess_stream *s = open_variant(v);
                if (s == NULL)
                    continue;
                float *y = copy_array(start, n, TESS_F32);
                void *to = y;
                const tess_reduction r = {.x = x,
                                          .n_inputs = n_inputs,
                                          .dtype = dtype,
                                          .divisor = 1,
                                          .y = &to,
                                          .n_outputs = 1,
                                          .y_dtype = TESS_F32,
                                          .n = n,
                                          .accumulate = accumulate};
                EXPECT_OK(tess_stream_kernels(s)->reduce(s, &r));
                expect_bits("tree", v, y, want, n, TESS_F32);
                free(y);
                tess_stream_destroy(&s);
            }
            for (int r = 0; r < n_inputs; r++)
                free((void *)x[r]);
            free(start);
            free(want);
        }
    }
}

static void row_sums_of_squares_have_16_partial_sums(void)
{
    const int64_t shapes[][2] = {{0, 5}, {3, 0}, {1, 1}, {2, 15}, {3, 16}, {4, 17}, {2, 33}, {5, 100}, {90, 1009}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        int64_t rows = shapes[i][0], C = shapes[i][1];
        float *x = random_array(1, rows * C, 0, 3, TESS_F32);
        double *want = new_array(rows, 8), *got = new_array(rows, 8);
        for (int64_t r = 0; r < rows; r++) {
            double lane[16] = {0};
            long double exact = 0;
            for (int64_t k = 0; k < C; k++) {
                double square = (double)x[r * C + k] * (double)x[r * C + k];
                lane[k % 16] += square;
                exact += square;
            }
            for (int width = 8; width > 0; width /= 2)
                for (int k = 0; k < width; k++)
                    lane[k] += lane[k + width];
            want[r] = lane[0];
            expect_near("sum of squares", r, want[r], (double)exact, 1e-14 * (double)exact);
        }
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            EXPECT_OK(
                tess_stream_kernels(s)->row_sumsq(s, &(tess_row_sumsq_args){.x = x, .out = got, .rows = rows, .C = C}));
            EXPECT_SAME(got, want, (size_t)rows);
            tess_stream_destroy(&s);
        }
        free(x);
        free(want);
        free(got);
    }
}

static const test_case cases[] = {
    CASE(add_rounds_once_and_works_in_place),
    CASE(scale_rounds_once_and_works_in_place),
    CASE(a_soft_cap_agrees_with_float64_and_bit_for_bit_across_levels),
    CASE(column_sums_run_in_blocks_of_32_tokens),
    CASE(reduce_adds_neighbours_first_for_any_number_of_inputs),
    CASE(row_sums_of_squares_have_16_partial_sums),
};

TEST_MAIN(cases)
