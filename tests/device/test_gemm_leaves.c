/* Products whose sum over K is a tree of leaves: every table, in each of its ways, gives the bits of the definition, at
 * sizes that no leaf, unit or tile divides. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "device/bf16.h"
#include "device/cuda_shim/cuda_shim_stream.h"
#include "device/dry_device.h"
#include "device/gemm_check.h"
#include "device/stream.h"

static const char *const table_names[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx", "cuda", "cuda-tc"};
enum { N_TABLES = 7, MOST_LEAVES = 128, GAP = 3 };

static uint32_t seed = 5;

static float get(const void *x, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F32 ? ((const float *)x)[i] : tess_bf16_to_float(((const uint16_t *)x)[i]);
}

static void *allocate(size_t bytes)
{
    void *x = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    EXPECT(x != NULL);
    return x;
}

static void *draw(int64_t count, tess_dtype dtype)
{
    void *x = allocate((size_t)count * tess_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float value = (float)(int32_t)seed * 0x1p-30f;
        if (dtype == TESS_F32)
            ((float *)x)[i] = value;
        else
            ((uint16_t *)x)[i] = tess_float_to_bf16(value);
    }
    return x;
}

typedef struct problem {
    tess_gemm_fused f;
    void *factors[2 + 2 * TESS_GEMM_TERMS], *bias, *c;
    size_t c_bytes;
} problem;

typedef struct shape {
    int64_t m, n, k;
    bool trans_b, bias;
    int n_terms;
} shape;

static problem problem_make(const shape *s, int64_t leaf, tess_dtype ab, tess_dtype c)
{
    problem p = {.f.n_terms = s->n_terms, .c_bytes = (size_t)(s->m * (s->n + GAP)) * tess_dtype_size(c)};
    tess_gemm *g = &p.f.g;
    *g = (tess_gemm){.m = s->m, .n = s->n, .k = s->k, .trans_b = s->trans_b, .ab_dtype = ab, .c_dtype = c};
    g->lda = s->k + 1;
    g->ldb = (s->trans_b ? s->k : s->n) + 2;
    g->ldc = s->n + GAP;
    g->leaf = leaf;
    for (int i = 0; i <= s->n_terms; i++) {
        p.factors[2 * i] = draw(s->m * g->lda, ab);
        p.factors[2 * i + 1] = draw((s->trans_b ? s->n : s->k) * g->ldb, ab);
        if (i > 0)
            p.f.terms[i - 1] = (tess_gemm_term){p.factors[2 * i], g->lda, p.factors[2 * i + 1], g->ldb, s->k};
    }
    g->a = p.factors[0];
    g->b = p.factors[1];
    p.bias = draw(s->n, ab);
    g->bias = s->bias ? p.bias : NULL;
    p.c = draw(s->m * g->ldc, c);
    g->c = p.c;
    p.f.work = allocate(tess_gemm_fused_work(s->m, s->n, s->n_terms > 0, TESS_THEN_NOTHING, c));
    return p;
}

static void problem_free(problem *p)
{
    for (int i = 0; i < 2 + 2 * TESS_GEMM_TERMS; i++)
        free(p->factors[i]);
    free(p->bias);
    free(p->c);
    free(p->f.work);
}

/* ---- The definition ---- */

static tess_gemm_term term_at(const tess_gemm_fused *f, int i)
{
    return i > 0 ? f->terms[i - 1] : (tess_gemm_term){f->g.a, f->g.lda, f->g.b, f->g.ldb, f->g.k};
}

static int n_leaves_of(const tess_gemm *g)
{
    return g->leaf > 0 && g->k > 0 ? (int)((g->k + g->leaf - 1) / g->leaf) : 1;
}

/* k of a leaf: [begin, end). */
static void range_of(const tess_gemm *g, int leaf, int64_t *begin, int64_t *end)
{
    *begin = leaf * g->leaf;
    *end = g->leaf > 0 && *begin + g->leaf < g->k ? *begin + g->leaf : g->k;
}

/* Neighbours are added until one is left; an odd one out is carried up. */
static float add_neighbours(float *sums, int n)
{
    for (; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < (n + 1) / 2; i++)
            sums[i] = 2 * i + 1 < n ? sums[2 * i] + sums[2 * i + 1] : sums[2 * i];
    return sums[0];
}

/* One fused multiply-add a product. */
static float leaf_by_hand(const tess_gemm_fused *f, int leaf, int64_t i, int64_t j)
{
    float sum = 0;
    int64_t begin, end;
    range_of(&f->g, leaf, &begin, &end);
    for (int t = 0; t <= f->n_terms; t++) {
        tess_gemm_term x = term_at(f, t);
        for (int64_t k = begin; k < end; k++)
            sum = fmaf(get(x.a, i * x.lda + k, f->g.ab_dtype),
                       get(x.b, f->g.trans_b ? j * x.ldb + k : k * x.ldb + j, f->g.ab_dtype), sum);
    }
    return sum;
}

/* (m, n) of a leaf as the table itself multiplies. */
static float *leaf_by_table(tess_stream *s, const tess_gemm_fused *f, int leaf)
{
    tess_gemm g = f->g;
    int64_t begin, end;
    size_t size = tess_dtype_size(g.ab_dtype);
    range_of(&f->g, leaf, &begin, &end);
    float *sums = allocate((size_t)(g.m * g.n) * sizeof(float));
    g.k = end - begin;
    g.c = sums;
    g.ldc = g.n;
    g.c_dtype = TESS_F32;
    g.bias = NULL;
    g.leaf = 0;
    for (int t = 0; t <= f->n_terms; t++) {
        tess_gemm_term x = term_at(f, t);
        g.a = (const char *)x.a + (size_t)begin * size;
        g.b = (const char *)x.b + (size_t)(g.trans_b ? begin : begin * x.ldb) * size;
        g.accumulate = t > 0;
        EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
    }
    return sums;
}

/* C by the definition, of a problem whose C it replaces; `rotated`: the leaves one place further. s: sums of leaves are
 * the table's; NULL: by hand. */
static void define(const problem *p, tess_stream *s, int rotated, void *c)
{
    const tess_gemm *g = &p->f.g;
    int n = n_leaves_of(g);
    float *leaves[MOST_LEAVES] = {NULL}, sums[MOST_LEAVES];
    memcpy(c, p->c, p->c_bytes);
    for (int l = 0; l < n && s != NULL; l++)
        leaves[l] = leaf_by_table(s, &p->f, l);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            for (int l = 0; l < n; l++)
                sums[(l + rotated) % n] = s != NULL ? leaves[l][i * g->n + j] : leaf_by_hand(&p->f, l, i, j);
            float sum = add_neighbours(sums, n);
            if (g->bias != NULL)
                sum += get(g->bias, j, g->ab_dtype);
            if (g->c_dtype == TESS_F32)
                ((float *)c)[i * g->ldc + j] = sum;
            else
                ((uint16_t *)c)[i * g->ldc + j] = tess_float_to_bf16(sum);
        }
    for (int l = 0; l < n; l++)
        free(leaves[l]);
}

/* ---- The table's ways ---- */

static tess_status by_product(tess_stream *s, const tess_gemm_fused *f)
{
    return tess_stream_kernels(s)->gemm(s, &f->g);
}

static tess_status by_fused_product(tess_stream *s, const tess_gemm_fused *f)
{
    return tess_stream_kernels(s)->gemm_fused(s, f);
}

static void expect_way(tess_stream *s, const problem *p, const char *name,
                       tess_status (*way)(tess_stream *, const tess_gemm_fused *), const void *want)
{
    char what[160];
    const tess_gemm *g = &p->f.g;
    size_t size = tess_dtype_size(g->c_dtype);
    tess_gemm_fused f = p->f;
    f.g.c = allocate(p->c_bytes);
    memcpy(f.g.c, p->c, p->c_bytes);
    EXPECT_OK(way(s, &f));
    snprintf(what, sizeof(what), "%s %s: m %d n %d k %d leaf %d trans_b %d bias %d terms %d %s -> %s",
             tess_stream_kernels(s)->name, name, (int)g->m, (int)g->n, (int)g->k, (int)g->leaf, g->trans_b,
             g->bias != NULL, p->f.n_terms, tess_dtype_name(g->ab_dtype), tess_dtype_name(g->c_dtype));
    test_expect_same(__FILE__, __LINE__, what, f.g.c, want, p->c_bytes / size, size);
    free(f.g.c);
}

/* Tables with an instruction for sums of bf16 products have an order of their own inside a leaf. */
static bool sums_pairs(const tess_stream *s, const tess_gemm *g)
{
    const char *name = tess_stream_kernels(s)->name;
    return g->ab_dtype == TESS_BF16 &&
           (strcmp(name, "avx512_bf16") == 0 || strcmp(name, "amx") == 0 || strcmp(name, "cuda-tc") == 0);
}

static void check(tess_stream *const *streams, const shape *shape, int64_t n_leaves, int types)
{
    problem p = problem_make(shape, tess_leaf_of(shape->k, n_leaves), types == 0 ? TESS_F32 : TESS_BF16,
                             types == 1 ? TESS_BF16 : TESS_F32);
    void *by_hand = allocate(p.c_bytes), *by_table = allocate(p.c_bytes);
    define(&p, NULL, 0, by_hand);
    for (int t = 0; t < N_TABLES; t++) {
        const bool on_tensor_cores = strcmp(table_names[t], "cuda-tc") == 0; /* float32 is that of "cuda" */
        if (streams[t] == NULL || (on_tensor_cores && types == 0))
            continue;
        const void *want = by_hand;
        if (sums_pairs(streams[t], &p.f.g)) {
            define(&p, streams[t], 0, by_table);
            want = by_table;
        }
        if (shape->n_terms == 0)
            expect_way(streams[t], &p, "gemm", by_product, want);
        expect_way(streams[t], &p, "gemm_fused", by_fused_product, want);
        if (p.f.g.leaf > 0)
            expect_way(streams[t], &p, "by rows", tess_gemm_leaves_by_rows, want);
    }
    free(by_hand);
    free(by_table);
    problem_free(&p);
}

static void open_all(tess_stream **streams, int n_threads)
{
    for (int t = 0; t < N_TABLES; t++) {
        const tess_kernels *kernels;
        streams[t] = NULL;
        if (strncmp(table_names[t], "cuda", 4) == 0) {
            if (n_threads == 2 && !cuda_shim_is_slow()) /* threads, which it has not: once is enough */
                EXPECT_OK(cuda_shim_stream(test_mem(), strcmp(table_names[t], "cuda") != 0, &streams[t]));
        } else if (tess_kernels_select(table_names[t], &kernels) == TESS_OK)
            EXPECT_OK(tess_stream_create(test_mem(), n_threads, table_names[t], &streams[t]));
    }
}

static void close_all(tess_stream **streams)
{
    for (int t = 0; t < N_TABLES; t++)
        tess_stream_destroy(&streams[t]);
}

static const int64_t leaf_counts[] = {1, 2, 4, 8, 64};
enum { N_COUNTS = sizeof(leaf_counts) / sizeof(leaf_counts[0]) };

static void leaves_add_up_as_the_definition_says(void)
{
    static const int64_t depths[] = {200, 331, 33, 0, 1, 32};
    static const int64_t sizes[][2] = {{1, 37}, {6, 16}, {35, 33}};
    tess_stream *streams[N_TABLES];
    open_all(streams, 2);
    for (size_t d = 0; d < sizeof(depths) / sizeof(depths[0]); d++)
        for (int l = 0; l < N_COUNTS; l++)
            for (int bits = 0; bits < 18; bits++) {
                const int64_t *size = sizes[bits % 3];
                int n_terms = bits / 6;
                shape s = {size[0], size[1], depths[d], bits & 1, n_terms == 0 && (bits & 2), n_terms};
                for (int types = 0; types < 3; types++)
                    if (test_takes())
                        check(streams, &s, leaf_counts[l], types);
            }
    close_all(streams);
}

/* Around the blocks of tables: 384 and 512 of k, 1024 rows of sums in work space, 256 rows of the way by rows. */
static void blocks_join_inside_leaves_and_at_their_ends(void)
{
    static const shape shapes[] = {{9, 33, 1600, true, true, 0},  {20, 17, 3100, false, false, 1},
                                   {1040, 9, 200, true, true, 0}, {300, 5, 331, false, false, 2},
                                   {7, 300, 2500, true, true, 0}, {2, 5, 4300, true, false, 1}};
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        tess_stream *streams[N_TABLES];
        open_all(streams, n_threads);
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
            for (int l = 1; l < N_COUNTS; l++)
                if (test_takes())
                    check(streams, &shapes[i], leaf_counts[l], (int)(i + (size_t)l) % 3);
        close_all(streams);
    }
}

static bool same(const problem *p, const void *x, const void *y)
{
    return memcmp(x, y, p->c_bytes) == 0;
}

static void another_order_or_number_of_leaves_has_other_bits(void)
{
    const shape s = {20, 20, 331, true, false, 0};
    int64_t leaf[2] = {tess_leaf_of(s.k, 4), tess_leaf_of(s.k, 8)};
    problem p = problem_make(&s, leaf[0], TESS_F32, TESS_F32);
    void *four = allocate(p.c_bytes), *rotated = allocate(p.c_bytes), *eight = allocate(p.c_bytes);
    define(&p, NULL, 0, four);
    define(&p, NULL, 1, rotated);
    p.f.g.leaf = leaf[1];
    define(&p, NULL, 0, eight);
    EXPECT(leaf[0] == 96 && leaf[1] == 64);
    EXPECT(!same(&p, four, rotated) && !same(&p, four, eight));
    free(four);
    free(rotated);
    free(eight);
    problem_free(&p);
}

/* The property that lets ranks have runs of leaves: 3 of 4, the second with leaves that are missing after its last. */
static void a_run_of_leaves_is_a_subtree(void)
{
    const shape s = {21, 19, 331, true, false, 1};
    tess_stream *streams[N_TABLES];
    open_all(streams, 2);
    for (int t = 0; t < N_TABLES; t++) {
        if (streams[t] == NULL)
            continue;
        problem p = problem_make(&s, tess_leaf_of(s.k, 8), TESS_BF16, TESS_F32);
        int64_t half = 4 * p.f.g.leaf;
        void *want = allocate(p.c_bytes);
        memcpy(want, p.c, p.c_bytes);
        EXPECT(half < s.k && s.k - half < half);
        EXPECT_OK(by_fused_product(streams[t], &p.f));
        for (int part = 0; part < 2; part++) {
            tess_gemm_fused f = p.f;
            int64_t begin = part * half;
            f.g.k = f.terms[0].k = part == 0 ? half : s.k - half;
            f.g.a = (const uint16_t *)f.g.a + begin;
            f.g.b = (const uint16_t *)f.g.b + begin;
            f.terms[0].a = (const uint16_t *)f.terms[0].a + begin;
            f.terms[0].b = (const uint16_t *)f.terms[0].b + begin;
            f.g.c = allocate(p.c_bytes);
            EXPECT_OK(by_fused_product(streams[t], &f));
            for (int64_t i = 0; i < s.m; i++)
                for (int64_t j = 0; j < s.n; j++) {
                    float *to = (float *)want + i * f.g.ldc + j, sum = ((float *)f.g.c)[i * f.g.ldc + j];
                    *to = part == 0 ? sum : *to + sum;
                }
            free(f.g.c);
        }
        test_expect_same(__FILE__, __LINE__, table_names[t], p.c, want, p.c_bytes / sizeof(float), sizeof(float));
        free(want);
        problem_free(&p);
    }
    close_all(streams);
}

/* The sums of the leaves of a block of C keep to the limit, and blocks of rows and of columns do not change bits. With
 * A^T loads of rows are aligned only if blocks begin at whole tiles. */
static void blocks_of_c_keep_to_the_limit(void)
{
    enum { K = 90, LEAF = 32, LEAF_BYTES = 3 * sizeof(float) }; /* LEAF_BYTES: sums of an element of C */
    static const struct {
        int64_t m, n, limit, at_least;
    } cases[] = {{300, 70, LEAF_BYTES * 70 * 300, 0}, /* one block of 256 rows, and the rest */
                 {300, 70, LEAF_BYTES * 64,
                  LEAF_BYTES * 128 * 70},               /* blocks of a tile's rows; all columns are less than a tile */
                 {70, 300, LEAF_BYTES * 70 * 200, 0},   /* a tile's columns */
                 {140, 270, LEAF_BYTES * 128 * 150, 0}, /* several blocks of rows and of columns */
                 {9, 520, LEAF_BYTES * 9 * 256, 0}};
    for (int tensor = 0; tensor < 2; tensor++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            for (int bits = 0; bits < 2 && !cuda_shim_is_slow(); bits++) {
                const int64_t m = cases[i].m, n = cases[i].n, lda = 304, ldb = 528;
                tess_stream *s, *whole;
                EXPECT_OK(cuda_shim_stream(test_mem(), tensor, &s));
                EXPECT_OK(cuda_shim_stream(test_mem(), tensor, &whole));
                void *a = draw(lda * 304, TESS_BF16), *b = draw(ldb * 528, TESS_BF16), *bias = draw(n, TESS_BF16);
                float *c = draw(m * (n + GAP), TESS_F32), *want = allocate((size_t)(m * (n + GAP)) * sizeof(float));
                memcpy(want, c, (size_t)(m * (n + GAP)) * sizeof(float));
                tess_gemm g = {.m = m,
                               .n = n,
                               .k = K,
                               .a = a,
                               .lda = lda,
                               .b = b,
                               .ldb = ldb,
                               .c = want,
                               .ldc = n + GAP,
                               .trans_a = bits & 1,
                               .trans_b = i % 2 == 1,
                               .bias = bias,
                               .ab_dtype = TESS_BF16,
                               .c_dtype = TESS_F32,
                               .leaf = LEAF};
                EXPECT_OK(tess_stream_kernels(whole)->gemm(whole, &g));
                g.c = c;
                cuda_shim_limit_leaves(cases[i].limit);
                EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
                cuda_shim_limit_leaves(0);
                test_expect_same(__FILE__, __LINE__, tensor ? "cuda-tc" : "cuda", c, want, (size_t)(m * (n + GAP)),
                                 sizeof(float));
                const size_t most = (size_t)(tensor && cases[i].at_least > 0 ? cases[i].at_least : cases[i].limit);
                EXPECT(tess_stream_work_bytes(s) <= most);
                EXPECT(tess_stream_work_bytes(whole) == (size_t)(m * n) * LEAF_BYTES);
                g.n = 0; /* nothing to compute */
                EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
                EXPECT_OK(tess_stream_kernels(s)->gemm_fused(s, &(tess_gemm_fused){.g = g}));
                free(a);
                free(b);
                free(bias);
                free(c);
                free(want);
                tess_stream_destroy(&s);
                tess_stream_destroy(&whole);
            }
}

static void leaves_are_those_of_chunk(void)
{
    EXPECT_INT(tess_leaf_of(704, 1), 0);
    EXPECT_INT(tess_leaf_of(704, 8), 96);
    EXPECT_INT(tess_leaf_of(3072, 8), 384);
    EXPECT_INT(tess_leaf_of(33, 2), 32);
    EXPECT_INT(tess_leaf_of(33, 64), 32);
    EXPECT_INT(tess_leaf_of(331, 4), 96);
}

static void what_does_not_go_together_is_refused(void)
{
    const shape s = {4, 4, 64, true, false, 1};
    tess_stream *stream;
    EXPECT_OK(tess_stream_create(test_mem(), 1, NULL, &stream));
    problem p = problem_make(&s, 32, TESS_F32, TESS_F32);
    p.f.terms[0].k = 32;
    EXPECT_FAILS(by_fused_product(stream, &p.f), TESS_E_INVALID, "terms of 64 and 32 k; with leaves they are alike");
    p.f.n_terms = 0;
    p.f.g.leaf = 33;
    EXPECT_FAILS(by_product(stream, &p.f), TESS_E_INVALID, "leaves of 33; they are multiples of 32");
    p.f.g.leaf = 32;
    p.f.g.accumulate = true;
    EXPECT_FAILS(by_product(stream, &p.f), TESS_E_INVALID, "go with no accumulation");
    p.f.g.accumulate = false;
    p.f.g.ldc = 4;
    p.f.then = TESS_THEN_ACT;
    p.f.y = p.c;
    EXPECT_FAILS(by_fused_product(stream, &p.f), TESS_E_INVALID, "no leaves");
    problem_free(&p);
    tess_stream_destroy(&stream);
}

static const test_case cases[] = {
    CASE(leaves_add_up_as_the_definition_says),
    CASE(blocks_join_inside_leaves_and_at_their_ends),
    CASE(another_order_or_number_of_leaves_has_other_bits),
    CASE(a_run_of_leaves_is_a_subtree),
    CASE(blocks_of_c_keep_to_the_limit),
    CASE(leaves_are_those_of_chunk),
    CASE(what_does_not_go_together_is_refused),
};

TEST_MAIN(cases)
