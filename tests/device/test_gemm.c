/* Matrix multiplication of every table that this CPU has: accuracy against float64, bits against the definition, and
 * the law that an output depends on its own row and column alone. Operands end where a page ends that must not be
 * touched. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "device/bf16.h"
#include "device/cuda_shim/cuda_shim_stream.h"
#include "device/stream.h"

static const char *const table_names[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx", "cuda"};
/* The last has ref's bits wherever it is compared with it, and its threads take turns on the host: what else holds of
 * ref's rows is seen on the tables of the CPU. */
enum { N_TABLES = 6, N_CPU_TABLES = 5, PAGE = 4096 };

static uint32_t seed = 1;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * n) >> 32);
}

static float draw_float(void)
{
    return ((float)draw(1 << 20) - (1 << 19)) / (1 << 18);
}

/* A stream with the named table; NULL when the CPU lacks it. "cuda": the rows for GPUs, run on the host. */
static tess_stream *open_stream(int table, int n_threads)
{
    const tess_kernels *kernels;
    tess_stream *s;
    if (strcmp(table_names[table], "cuda") == 0) {
        if (cuda_shim_is_slow())
            return NULL;
        EXPECT_OK(cuda_shim_stream(test_mem(), false, &s));
        return s;
    }
    if (tess_kernels_select(table_names[table], &kernels) != TESS_OK) {
        EXPECT_CONTAINS(tess_error_message(), "lacks");
        return NULL;
    }
    EXPECT_OK(tess_stream_create(test_mem(), n_threads, table_names[table], &s));
    EXPECT_TEXT(tess_stream_kernels(s)->name, table_names[table]);
    return s;
}

typedef struct matrix {
    void *map;
    size_t map_bytes;
    void *data;
    int64_t count; /* elements from data to the page that must not be touched */
    tess_dtype dtype;
} matrix;

static float get(const void *data, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F32 ? ((const float *)data)[i] : tess_bf16_to_float(((const uint16_t *)data)[i]);
}

static void put(void *data, int64_t i, tess_dtype dtype, float value)
{
    if (dtype == TESS_F32)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = tess_float_to_bf16(value);
}

static matrix matrix_make(int64_t rows, int64_t columns, int64_t ld, tess_dtype dtype)
{
    matrix x = {.dtype = dtype, .count = rows > 0 && columns > 0 ? (rows - 1) * ld + columns : 0};
    size_t bytes = (size_t)x.count * tess_dtype_size(dtype), pages = (bytes + PAGE - 1) / PAGE + 1;
    x.map_bytes = pages * PAGE;
    x.map = mmap(NULL, x.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(x.map != MAP_FAILED);
    EXPECT(mprotect((char *)x.map + x.map_bytes - PAGE, PAGE, PROT_NONE) == 0);
    x.data = (char *)x.map + x.map_bytes - PAGE - bytes;
    for (int64_t i = 0; i < x.count; i++)
        put(x.data, i, dtype, draw_float());
    return x;
}

static void matrix_free(matrix *x)
{
    munmap(x->map, x->map_bytes);
}

typedef struct problem {
    tess_gemm g;
    matrix a, b, c, bias;
} problem;

static problem problem_make(int64_t m, int64_t n, int64_t k, tess_dtype ab, tess_dtype c, bool trans_a, bool trans_b,
                            bool bias, bool accumulate, int64_t gap)
{
    problem p = {.g = {.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulate}};
    tess_gemm *g = &p.g;
    g->ab_dtype = ab;
    g->c_dtype = c;
    g->lda = (trans_a ? m : k) + gap;
    g->ldb = (trans_b ? k : n) + 2 * gap;
    g->ldc = n + 3 * gap;
    p.a = trans_a ? matrix_make(k, m, g->lda, ab) : matrix_make(m, k, g->lda, ab);
    p.b = trans_b ? matrix_make(n, k, g->ldb, ab) : matrix_make(k, n, g->ldb, ab);
    p.c = matrix_make(m, n, g->ldc, c);
    p.bias = matrix_make(1, n, n, ab);
    g->a = p.a.data;
    g->b = p.b.data;
    g->c = p.c.data;
    g->bias = bias ? p.bias.data : NULL;
    return p;
}

static void problem_free(problem *p)
{
    matrix_free(&p->a);
    matrix_free(&p->b);
    matrix_free(&p->c);
    matrix_free(&p->bias);
}

/* C as some stream computes it; the caller frees it. C of the problem stays as it was. */
static void *compute(tess_stream *s, const problem *p)
{
    size_t bytes = (size_t)p->c.count * tess_dtype_size(p->c.dtype);
    void *before = malloc(bytes + 1), *after = malloc(bytes + 1);
    EXPECT(before != NULL && after != NULL);
    memcpy(before, p->c.data, bytes);
    EXPECT_OK(tess_stream_kernels(s)->gemm(s, &p->g));
    memcpy(after, p->c.data, bytes);
    memcpy(p->c.data, before, bytes);
    free(before);
    return after;
}

static void expect_same_bits(const problem *p, const void *got, const void *want, const char *table)
{
    const tess_gemm *g = &p->g;
    size_t size = tess_dtype_size(p->c.dtype);
    for (int64_t i = 0; i < p->c.count; i++)
        if (memcmp((const char *)got + (size_t)i * size, (const char *)want + (size_t)i * size, size) != 0)
            test_fail(__FILE__, __LINE__,
                      "%s: m %d n %d k %d trans %d%d bias %d accumulate %d %s -> %s: C[%d,%d] is %.9g, expected %.9g",
                      table, (int)g->m, (int)g->n, (int)g->k, g->trans_a, g->trans_b, g->bias != NULL, g->accumulate,
                      tess_dtype_name(g->ab_dtype), tess_dtype_name(g->c_dtype), (int)(i / g->ldc), (int)(i % g->ldc),
                      get(got, i, p->c.dtype), get(want, i, p->c.dtype));
}

/* The value of C[i], and how far a kernel may be from it: the bound of a float32 sum of k products in any order (k
 * roundings of at most the sum of absolute products), and that of the last rounding; between rows C is untouched. */
typedef struct expected {
    double value, bound;
} expected;

static expected expected_at(const problem *p, int64_t i)
{
    const tess_gemm *g = &p->g;
    int64_t row = i / g->ldc, column = i % g->ldc;
    float before = get(p->c.data, i, g->c_dtype);
    if (column >= g->n)
        return (expected){before, 0};
    double sum = g->accumulate ? before : 0, size = fabs(sum);
    for (int64_t q = 0; q < g->k; q++) {
        double product = (double)get(g->a, g->trans_a ? q * g->lda + row : row * g->lda + q, g->ab_dtype) *
                         get(g->b, g->trans_b ? column * g->ldb + q : q * g->ldb + column, g->ab_dtype);
        sum += product;
        size += fabs(product);
    }
    if (g->bias != NULL)
        sum += get(g->bias, column, g->ab_dtype);
    size += fabs(sum);
    return (expected){sum, (double)(g->k + 2) * 0x1p-24 * size + (g->c_dtype == TESS_BF16 ? fabs(sum) * 0x1p-8 : 0)};
}

static void expect_accurate_at(const problem *p, const void *got, int64_t i, expected want, const char *table)
{
    const tess_gemm *g = &p->g;
    float value = get(got, i, g->c_dtype);
    if (!(fabs(value - want.value) <= want.bound))
        test_fail(__FILE__, __LINE__,
                  "%s: m %d n %d k %d trans %d%d bias %d accumulate %d %s -> %s: C[%d,%d] is %.9g, expected %.9g",
                  table, (int)g->m, (int)g->n, (int)g->k, g->trans_a, g->trans_b, g->bias != NULL, g->accumulate,
                  tess_dtype_name(g->ab_dtype), tess_dtype_name(g->c_dtype), (int)(i / g->ldc), (int)(i % g->ldc),
                  value, want.value);
}

/* Tables with an instruction for sums of bf16 products have an order of their own for them. */
static bool sums_bf16_in_pairs(int table)
{
    return strcmp(table_names[table], "avx512_bf16") == 0 || strcmp(table_names[table], "amx") == 0;
}

/* Accuracy, and the bits of ref wherever the definition fixes them. */
static void check_problem(tess_stream *streams[N_TABLES], const problem *p)
{
    void *got[N_TABLES] = {NULL};
    for (int t = 0; t < N_TABLES; t++) {
        got[t] = streams[t] != NULL ? compute(streams[t], p) : NULL;
        if (got[t] != NULL && (p->g.ab_dtype == TESS_F32 || !sums_bf16_in_pairs(t)))
            expect_same_bits(p, got[t], got[0], table_names[t]);
    }
    for (int64_t i = 0; i < p->c.count; i++) {
        expected want = expected_at(p, i);
        for (int t = 0; t < N_TABLES; t++)
            if (got[t] != NULL)
                expect_accurate_at(p, got[t], i, want, table_names[t]);
    }
    for (int t = 0; t < N_TABLES; t++)
        free(got[t]);
}

static void open_all(tess_stream *streams[N_TABLES], int n_threads)
{
    for (int t = 0; t < N_TABLES; t++)
        streams[t] = open_stream(t, n_threads);
}

static void close_all(tess_stream *streams[N_TABLES])
{
    for (int t = 0; t < N_TABLES; t++)
        tess_stream_destroy(&streams[t]);
}

static void check_with_every_option(tess_stream *streams[N_TABLES], int64_t m, int64_t n, int64_t k,
                                    uint32_t keep_one_of)
{
    for (int bits = 0; bits < 32; bits++) {
        for (int types = 0; types < 3; types++) {
            bool accumulate = bits & 8;
            if ((accumulate && types == 1) || draw(keep_one_of) != 0 || !test_takes())
                continue;
            problem p = problem_make(m, n, k, types == 0 ? TESS_F32 : TESS_BF16, types == 1 ? TESS_BF16 : TESS_F32,
                                     bits & 1, bits & 2, bits & 4, accumulate, bits & 16 ? 1 + draw(9) : 0);
            check_problem(streams, &p);
            problem_free(&p);
        }
    }
}

static void awkward_sizes_are_right(void)
{
    static const int sizes[] = {0, 1, 2, 3, 5, 14, 15, 16, 17, 29, 31, 32, 33, 63, 64, 65, 97, 100};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    tess_stream *streams[N_TABLES];
    open_all(streams, 2);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int l = 0; l < N; l++)
                check_with_every_option(streams, sizes[i], sizes[j], sizes[l], 64);
    close_all(streams);
}

/* Below and above what tiles of few rows, their columns and their stretches of k hold. */
static void few_rows_are_right(void)
{
    static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 17, 33, 64, 65},
                     sizes[][2] = {{1, 1}, {129, 33}, {40, 300}, {67, 519}, {1300, 8}};
    tess_stream *streams[N_TABLES];
    open_all(streams, 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++)
            for (int types = 0; types < 3; types++) {
                for (int turn = 0; turn < 2 && test_takes(); turn++) {
                    problem p = problem_make(rows[i], sizes[j][0], sizes[j][1], types == 0 ? TESS_F32 : TESS_BF16,
                                             types == 1 ? TESS_BF16 : TESS_F32, false, turn, draw(2) != 0, false,
                                             draw(2) != 0 ? 3 : 0);
                    check_problem(streams, &p);
                    problem_free(&p);
                }
            }
    close_all(streams);
}

static void blocks_of_k_rows_and_columns_join(void)
{
    /* Above and below every blocking factor: 384, 512 and 1024 of k, 48, 112, 512 and 1024 rows, 256 and 512 columns.
     */
    static const int sizes[][3] = {{5, 40, 255},    {33, 7, 257},   {65, 33, 511},  {34, 50, 513}, {17, 31, 1100},
                                   {193, 3, 3},     {257, 5, 33},   {337, 33, 300}, {700, 18, 40}, {3, 1031, 67},
                                   {113, 33, 1030}, {16, 530, 600}, {1031, 5, 1100}};
    tess_stream *streams[N_TABLES];
    open_all(streams, 3);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check_with_every_option(streams, sizes[i][0], sizes[i][1], sizes[i][2], 8);
    close_all(streams);
}

/* Layers of GPT-2 124M, Llama 1B and 8B with few tokens: forward, gradient of the input, gradient of the weights. */
static void training_shapes_are_right_on_every_fast_table(void)
{
    enum { TOKENS = 35, WAYS = 3, SAMPLES = 64 };
    static const int layers[][2] = {{2304, 768}, {768, 768}, {768, 3072}, {2048, 2048}, {512, 8192}, {14336, 128}};
    tess_stream *streams[N_TABLES];
    open_all(streams, 2);
    for (size_t l = 0; l < sizeof(layers) / sizeof(layers[0]); l++)
        for (int types = 0; types < 3; types++)
            for (int way = 0; way < WAYS; way++) {
                int out = layers[l][0], in = layers[l][1];
                bool weights = way == 2;
                int64_t m = weights ? out : TOKENS, n = way == 0 ? out : in, k = way == 0 ? in : weights ? TOKENS : out;
                problem p = problem_make(m, n, k, types == 0 ? TESS_F32 : TESS_BF16, types == 1 ? TESS_BF16 : TESS_F32,
                                         weights, way == 0, way == 0, weights && types != 1, 0);
                for (int t = 1; t < N_CPU_TABLES; t++) { /* the definition is slow */
                    void *got = streams[t] != NULL ? compute(streams[t], &p) : NULL;
                    for (int i = 0; got != NULL && i < SAMPLES; i++) {
                        int64_t at = draw((uint32_t)p.c.count);
                        expect_accurate_at(&p, got, at, expected_at(&p, at), table_names[t]);
                    }
                    free(got);
                }
                problem_free(&p);
            }
    close_all(streams);
}

/* Each pair of k: the odd product, then the even one, each fused; what is beyond k counts as zero. */
static void avx512_bf16_sums_pairs_of_products(void)
{
    static const int sizes[][3] = {{1, 1, 1}, {15, 33, 2}, {14, 32, 63}, {29, 17, 1027}};
    int table = 0;
    while (strcmp(table_names[table], "avx512_bf16") != 0)
        table++;
    tess_stream *s = open_stream(table, 2);
    for (int l = 0; s != NULL && l < 16; l++) {
        const int *size = sizes[l / 4];
        problem p = problem_make(size[0], size[1], size[2], TESS_BF16, TESS_F32, l & 1, l & 2, true, true, 1);
        const tess_gemm *g = &p.g;
        float *got = compute(s, &p), *want = compute(s, &p);
        for (int64_t c = 0; c < g->m * g->n; c++) {
            int64_t i = c / g->n, j = c % g->n;
            float sum = get(g->c, i * g->ldc + j, TESS_F32);
            for (int64_t q = 0; q < g->k + g->k % 2; q++) {
                int64_t k = q ^ 1;
                float a = k < g->k ? get(g->a, g->trans_a ? k * g->lda + i : i * g->lda + k, TESS_BF16) : 0;
                float b = k < g->k ? get(g->b, g->trans_b ? j * g->ldb + k : k * g->ldb + j, TESS_BF16) : 0;
                sum = fmaf(a, b, sum);
            }
            want[i * g->ldc + j] = sum + get(g->bias, j, TESS_BF16);
        }
        expect_same_bits(&p, got, want, "avx512_bf16");
        free(got);
        free(want);
        problem_free(&p);
    }
    tess_stream_destroy(&s);
}

/* [row, row + rows) x [column, column + columns) of the problem alone must have the bits it has in the whole. */
static void check_part(tess_stream *s, const problem *p, const void *whole, int64_t row, int64_t rows, int64_t column,
                       int64_t columns, const char *table)
{
    size_t ab_size = tess_dtype_size(p->g.ab_dtype), c_size = tess_dtype_size(p->g.c_dtype);
    problem part = {.g = p->g};
    tess_gemm *g = &part.g;
    g->m = rows;
    g->n = columns;
    g->a = (const char *)p->g.a + (size_t)(p->g.trans_a ? row : row * p->g.lda) * ab_size;
    g->b = (const char *)p->g.b + (size_t)(p->g.trans_b ? column * p->g.ldb : column) * ab_size;
    if (g->bias != NULL)
        g->bias = (const char *)p->g.bias + (size_t)column * ab_size;
    g->ldc = columns + 1;
    part.c = matrix_make(rows, columns, g->ldc, g->c_dtype);
    g->c = part.c.data;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            put(g->c, i * g->ldc + j, g->c_dtype, get(p->c.data, (row + i) * p->g.ldc + column + j, g->c_dtype));
    EXPECT_OK(tess_stream_kernels(s)->gemm(s, g));
    for (int64_t i = 0; i < rows; i++) {
        const char *got = (const char *)g->c + (size_t)(i * g->ldc) * c_size;
        const char *want = (const char *)whole + (size_t)((row + i) * p->g.ldc + column) * c_size;
        if (memcmp(got, want, (size_t)columns * c_size) != 0)
            test_fail(__FILE__, __LINE__,
                      "%s: rows %d+%d, columns %d+%d of %d x %d x %d (trans %d%d) alone differ in row %d", table,
                      (int)row, (int)rows, (int)column, (int)columns, (int)p->g.m, (int)p->g.n, (int)p->g.k,
                      p->g.trans_a, p->g.trans_b, (int)i);
    }
    matrix_free(&part.c);
}

static void check_parts(int64_t m, int64_t n, int64_t k, int n_parts)
{
    for (int t = 0; t < N_CPU_TABLES; t++) {
        tess_stream *s = open_stream(t, 2);
        for (int bits = 0; s != NULL && bits < 12; bits++) {
            int types = bits / 4;
            problem p = problem_make(m, n, k, types == 0 ? TESS_F32 : TESS_BF16, types == 1 ? TESS_BF16 : TESS_F32,
                                     bits & 1, bits & 2, true, types != 1, 3);
            void *whole = compute(s, &p);
            for (int64_t row = 0; row < m && n_parts > 8; row++)
                check_part(s, &p, whole, row, 1, 0, n, table_names[t]);
            for (int i = 0; i < n_parts; i++) {
                int64_t row = draw((uint32_t)m), column = draw((uint32_t)n);
                check_part(s, &p, whole, row, 1 + draw((uint32_t)(m - row)), column, 1 + draw((uint32_t)(n - column)),
                           table_names[t]);
            }
            free(whole);
            problem_free(&p);
        }
        tess_stream_destroy(&s);
    }
}

static void a_row_has_the_same_bits_alone_and_among_others(void)
{
    check_parts(70, 65, 100, 20);
    check_parts(40, 37, 1100, 20);
    check_parts(600, 70, 75, 4);
    check_parts(2, 513, 96, 12);
}

static void threads_do_not_change_bits(void)
{
    static const int sizes[][3] = {{1, 900, 600}, {40, 300, 600}, {600, 90, 600}, {1000, 20, 64}, {300, 310, 520}};
    for (int t = 0; t < N_CPU_TABLES; t++) {
        for (size_t i = 0; i < (t == 0 ? 1 : sizeof(sizes) / sizeof(sizes[0])); i++) {
            for (int bits = 0; bits < 8; bits++) {
                tess_stream *one = open_stream(t, 1);
                if (one == NULL)
                    break;
                tess_dtype dtype = bits & 1 ? TESS_F32 : TESS_BF16;
                problem p = problem_make(sizes[i][0], sizes[i][1], sizes[i][2], dtype, dtype, bits & 2, bits & 4, true,
                                         false, 0);
                void *want = compute(one, &p);
                for (int n_threads = 2; n_threads <= 5; n_threads += n_threads) {
                    tess_stream *many = open_stream(t, n_threads);
                    void *got = compute(many, &p);
                    expect_same_bits(&p, got, want, table_names[t]);
                    free(got);
                    tess_stream_destroy(&many);
                }
                free(want);
                problem_free(&p);
                tess_stream_destroy(&one);
            }
        }
    }
}

/* Packed B takes several slabs: rows of the product are those of the rows alone. */
static void large_products_are_made_of_the_same_rows(void)
{
    enum { M = 400, N = 2300, K = 2100, SAMPLES = 6 };
    for (int t = 1; t < N_CPU_TABLES; t++) {
        tess_stream *s = open_stream(t, 2);
        for (int types = 0; s != NULL && types < 2; types++) {
            tess_dtype dtype = types == 0 ? TESS_F32 : TESS_BF16;
            problem p = problem_make(M, N, K, dtype, dtype, false, types == 0, false, false, 0);
            void *whole = compute(s, &p);
            for (int i = 0; i < SAMPLES; i++)
                check_part(s, &p, whole, draw(M - 2), 1 + draw(2), draw(N - 70), 70, table_names[t]);
            free(whole);
            problem_free(&p);
        }
        tess_stream_destroy(&s);
    }
}

static void nothing_to_sum_leaves_bias_and_c(void)
{
    for (int t = 0; t < N_TABLES; t++) {
        tess_stream *s = open_stream(t, 2);
        if (s == NULL)
            continue;
        float c[6] = {1, 2, 3, 4, 5, 6}, bias[3] = {0.5f, -1, 8};
        tess_gemm g = {.m = 2, .n = 3, .k = 0, .c = c, .ldc = 3, .lda = 0, .ldb = 3, .bias = bias, .accumulate = true};
        EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
        EXPECT_SAME(c, ((float[]){1.5f, 1, 11, 4.5f, 4, 14}), 6);
        g.accumulate = false;
        EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
        EXPECT_SAME(c, ((float[]){0.5f, -1, 8, 0.5f, -1, 8}), 6);
        g.bias = NULL;
        g.ab_dtype = TESS_BF16;
        g.trans_b = true;
        EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
        EXPECT_SAME(c, ((float[]){0, 0, 0, 0, 0, 0}), 6);
        tess_stream_destroy(&s);
    }
}

/* 0x1.01p0 and 0x1.03p0 are halfway between bf16 neighbours. */
static void bf16_results_round_to_even_and_keep_nan(void)
{
    for (int t = 0; t < N_TABLES; t++) {
        tess_stream *s = open_stream(t, 1);
        if (s == NULL)
            continue;
        enum { M = 5, K = 2 };
        static const float rows[M][K] = {{1, 0x1p-8f}, {1, 0x1.8p-7f}, {1, -0x1p-9f}, {NAN, 1}, {INFINITY, 1}};
        uint16_t a[M * K], b[K] = {tess_float_to_bf16(1), tess_float_to_bf16(1)}, c[M];
        for (int i = 0; i < M * K; i++)
            a[i] = tess_float_to_bf16(rows[i / K][i % K]);
        for (int trans_b = 0; trans_b < 2; trans_b++) {
            tess_gemm g = {.m = M, .n = 1, .k = K, .a = a, .lda = K, .b = b, .ldb = trans_b ? K : 1, .c = c, .ldc = 1};
            g.trans_b = trans_b;
            g.ab_dtype = g.c_dtype = TESS_BF16;
            EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
            EXPECT_INT(c[0], 0x3f80);
            EXPECT_INT(c[1], 0x3f82);
            EXPECT_INT(c[2], 0x3f80);
            EXPECT(isnan(tess_bf16_to_float(c[3])));
            EXPECT_INT(c[4], 0x7f80);
        }
        tess_stream_destroy(&s);
    }
}

static void what_cannot_be_computed_is_refused(void)
{
    for (int t = 0; t < N_TABLES; t++) {
        tess_stream *s = open_stream(t, 1);
        if (s == NULL)
            continue;
        float x[16] = {0};
        tess_gemm good = {.m = 2, .n = 2, .k = 2, .a = x, .lda = 2, .b = x, .ldb = 2, .c = x + 8, .ldc = 2}, g = good;
        EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
        g.c_dtype = TESS_BF16;
        EXPECT_FAILS(tess_stream_kernels(s)->gemm(s, &g), TESS_E_UNSUPPORTED, "operands float32 with result bfloat16");
        g = good;
        g.ab_dtype = TESS_F16;
        g.c_dtype = TESS_BF16;
        EXPECT_FAILS(tess_stream_kernels(s)->gemm(s, &g), TESS_E_UNSUPPORTED, "operands float16 with result bfloat16");
        g = good;
        g.ab_dtype = g.c_dtype = TESS_BF16;
        g.accumulate = true;
        EXPECT_FAILS(tess_stream_kernels(s)->gemm(s, &g), TESS_E_UNSUPPORTED, "accumulate into bfloat16");
        g = good;
        g.k = -1;
        EXPECT_FAILS(tess_stream_kernels(s)->gemm(s, &g), TESS_E_INVALID, "negative size");
        g = good;
        g.ldb = 1;
        EXPECT_FAILS(tess_stream_kernels(s)->gemm(s, &g), TESS_E_INVALID, "b has rows of 2 elements but a stride of 1");
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    {.name = "awkward_sizes_are_right", .run = awkward_sizes_are_right},
    {.name = "few_rows_are_right", .run = few_rows_are_right},
    {.name = "blocks_of_k_rows_and_columns_join", .run = blocks_of_k_rows_and_columns_join},
    {.name = "training_shapes_are_right_on_every_fast_table", .run = training_shapes_are_right_on_every_fast_table},
    {.name = "avx512_bf16_sums_pairs_of_products", .run = avx512_bf16_sums_pairs_of_products},
    {.name = "a_row_has_the_same_bits_alone_and_among_others", .run = a_row_has_the_same_bits_alone_and_among_others},
    {.name = "threads_do_not_change_bits", .run = threads_do_not_change_bits},
    {.name = "large_products_are_made_of_the_same_rows", .run = large_products_are_made_of_the_same_rows},
    {.name = "nothing_to_sum_leaves_bias_and_c", .run = nothing_to_sum_leaves_bias_and_c},
    {.name = "bf16_results_round_to_even_and_keep_nan", .run = bf16_results_round_to_even_and_keep_nan},
    {.name = "what_cannot_be_computed_is_refused", .run = what_cannot_be_computed_is_refused},
};

TEST_MAIN(cases)
