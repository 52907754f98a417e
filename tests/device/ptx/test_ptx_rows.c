/* Rows on the interpreter of PTX whose kernels no other quick test launches: runs and words of other sizes, sums of
 * integers, and small products whose sum over k is a tree of leaves. */
#include "device/elementwise_test.h"

#include "device/kernels.h"

static tess_stream *open_table(const char *name)
{
    tess_stream *s;
    if (strncmp(name, "cuda", 4) == 0)
        EXPECT_OK(cuda_shim_stream(test_mem(), strcmp(name, "cuda-tc") == 0, &s));
    else
        EXPECT_OK(tess_stream_create(test_mem(), 1, name, &s));
    return s;
}

static void *drawn(uint64_t purpose, int64_t n, size_t size)
{
    unsigned char *x = new_array(n, size);
    for (size_t i = 0; i < (size_t)n * size; i++)
        x[i] = (unsigned char)tess_rng_u64(3, TESS_RNG_TEST, purpose, i);
    return x;
}

/* Three runs, of which one is empty and one ends inside a part. */
static void runs_of_each_size_are_copied(void)
{
    enum { N = 5000, SECOND = 4097 };
    static const tess_dtype dtypes[] = {TESS_U8, TESS_BF16, TESS_I32, TESS_I64};
    tess_stream *s = open_table("cuda");
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        const size_t size = tess_dtype_size(dtypes[i]);
        char *x = drawn(i, N, size), *y = new_array(N, size);
        memset(y, 0xee, N * size);
        const tess_value_run runs[] = {
            {x, y + SECOND * size, N - SECOND}, {x, y, 0}, {x + (N - SECOND) * size, y, SECOND - 1}};
        EXPECT_OK(tess_stream_kernels(s)->convert_runs(
            s, &(tess_convert_runs_args){.runs = runs, .n_runs = COUNT(runs), .from = dtypes[i], .to = dtypes[i]}));
        EXPECT_SAME(y + SECOND * size, x, (N - SECOND) * size);
        EXPECT_SAME(y, x + (N - SECOND) * size, (SECOND - 1) * size);
        EXPECT((unsigned char)y[(SECOND - 1) * size] == 0xee);
        free(x);
        free(y);
    }
    tess_stream_destroy(&s);
}

/* Rows whose places all are multiples of 16 bytes move in words of 16. */
static void aligned_rows_are_copied_and_gathered(void)
{
    enum { N = 19, BYTES = 48, STRIDE = 64 };
    int32_t *index = new_array(N, sizeof(*index));
    char *x = aligned_alloc(16, N * STRIDE), *y = aligned_alloc(16, N * STRIDE);
    tess_stream *s = open_table("cuda");
    EXPECT(x != NULL && y != NULL);
    for (int i = 0; i < N * STRIDE; i++) {
        x[i] = (char)(i * 7);
        y[i] = 1;
    }
    EXPECT_OK(tess_stream_kernels(s)->copy_rows(
        s, &(tess_copy_rows_args){.x = x, .x_stride = STRIDE, .y = y, .y_stride = BYTES, .n = N, .row_bytes = BYTES}));
    for (int i = 0; i < N; i++) {
        EXPECT_SAME(y + (size_t)i * BYTES, x + (size_t)i * STRIDE, BYTES);
        index[i] = i * 5 % N;
    }
    EXPECT_OK(tess_stream_kernels(s)->gather_rows(
        s, &(tess_gather_rows_args){.x = x, .index = index, .y = y, .n = N, .row_bytes = BYTES}));
    for (int i = 0; i < N; i++)
        EXPECT_SAME(y + (size_t)i * BYTES, x + (size_t)index[i] * BYTES, BYTES);
    tess_stream_destroy(&s);
    free(index);
    free(x);
    free(y);
}

static void integers_are_reduced_as_by_ref(void)
{
    enum { N = 333, INPUTS = 5, OUTPUTS = 2 };
    static const struct {
        tess_dtype from, to;
        tess_op op;
        int divisor;
    } rows[] = {{TESS_I32, TESS_I32, TESS_SUM, 1}, {TESS_I64, TESS_I32, TESS_SUM, 7}, {TESS_U8, TESS_I64, TESS_SUM, 3},
                {TESS_I64, TESS_I64, TESS_MAX, 1}, {TESS_I32, TESS_U8, TESS_MIN, 1},  {TESS_U8, TESS_U8, TESS_MAX, 1}};
    tess_stream *tables[] = {open_table("ref"), open_table("cuda")};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const void *x[INPUTS];
        const size_t size = tess_dtype_size(rows[i].to);
        void *y[COUNT(tables)][OUTPUTS];
        for (int k = 0; k < INPUTS; k++)
            x[k] = drawn(10 * i + (uint64_t)k, N, tess_dtype_size(rows[i].from));
        for (size_t t = 0; t < COUNT(tables); t++) {
            for (int k = 0; k < OUTPUTS; k++)
                y[t][k] = new_array(N, size);
            EXPECT_OK(tess_stream_kernels(tables[t])->reduce(tables[t], &(tess_reduction){.x = x,
                                                                                          .n_inputs = INPUTS,
                                                                                          .dtype = rows[i].from,
                                                                                          .op = rows[i].op,
                                                                                          .divisor = rows[i].divisor,
                                                                                          .y = y[t],
                                                                                          .n_outputs = OUTPUTS,
                                                                                          .y_dtype = rows[i].to,
                                                                                          .n = N}));
        }
        for (int k = 0; k < OUTPUTS; k++) {
            test_expect_same(__FILE__, __LINE__, "integers", y[1][k], y[0][k], N, size);
            free(y[0][k]);
            free(y[1][k]);
        }
        for (int k = 0; k < INPUTS; k++)
            free((void *)(uintptr_t)x[k]);
    }
    tess_stream_destroy(&tables[0]);
    tess_stream_destroy(&tables[1]);
}

/* ---- Products with leaves ---- */
enum { M = 5, COLUMNS = 11, K = 2 * TESS_LEAF_UNIT + 6, LEAVES = 3 };

/* Multiplies with leaves, or one leaf alone. */
static void *multiply(tess_stream *s, tess_dtype ab, tess_dtype c_dtype, const void *a, const void *b, int one)
{
    const size_t size = tess_dtype_size(ab);
    void *c = new_array(M * COLUMNS, tess_dtype_size(c_dtype));
    tess_gemm g = {.m = M, .n = COLUMNS, .k = K, .a = a, .lda = K, .b = b, .ldb = COLUMNS, .c = c, .ldc = COLUMNS};
    g.ab_dtype = ab;
    g.c_dtype = c_dtype;
    if (one < 0) {
        g.leaf = TESS_LEAF_UNIT;
    } else {
        const int64_t begin = (int64_t)one * TESS_LEAF_UNIT;
        g.a = (const char *)a + (size_t)begin * size;
        g.b = (const char *)b + (size_t)(begin * COLUMNS) * size;
        g.k = K - begin < TESS_LEAF_UNIT ? K - begin : TESS_LEAF_UNIT;
    }
    EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
    return c;
}

/* The sum of three leaves is a tree of which the last one is carried up. A leaf has the same bits alone. */
static void leaves_are_added_as_a_tree(void)
{
    static const char *const tables[] = {"ref", "cuda", "cuda-tc"};
    static const tess_dtype dtypes[][2] = {{TESS_F32, TESS_F32}, {TESS_BF16, TESS_F32}, {TESS_BF16, TESS_BF16}};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        const tess_dtype ab = dtypes[d][0], c = dtypes[d][1];
        const size_t size = tess_dtype_size(c);
        void *a = random_array(1, M * K, 0, 1, ab), *b = random_array(2, K * COLUMNS, 0, 1, ab), *ref = NULL;
        for (size_t t = 0; t < COUNT(tables); t++) {
            tess_stream *s = open_table(tables[t]);
            float *leaf[LEAVES];
            void *want = new_array(M * COLUMNS, size), *got = multiply(s, ab, c, a, b, -1);
            for (int l = 0; l < LEAVES; l++)
                leaf[l] = multiply(s, ab, TESS_F32, a, b, l);
            for (int i = 0; i < M * COLUMNS; i++)
                put_value(want, i, (leaf[0][i] + leaf[1][i]) + leaf[2][i], c);
            test_expect_same(__FILE__, __LINE__, tables[t], got, want, M * COLUMNS, size);
            if (t == 1)
                test_expect_same(__FILE__, __LINE__, "ref's leaves", got, ref, M * COLUMNS, size);
            for (int l = 0; l < LEAVES; l++)
                free(leaf[l]);
            free(want);
            if (t == 0)
                ref = got;
            else
                free(got);
            tess_stream_destroy(&s);
        }
        free(ref);
        free(a);
        free(b);
    }
}

static const test_case cases[] = {
    CASE(runs_of_each_size_are_copied),
    CASE(aligned_rows_are_copied_and_gathered),
    CASE(integers_are_reduced_as_by_ref),
    CASE(leaves_are_added_as_a_tree),
};
TEST_MAIN(cases)
