/* Embedding: rows and positions forwards, gradients in the order of the tokens backwards, on any threads. */
#include "elementwise_test.h"

enum { ROWS = 37, MANY_ROWS = 8209, POSITIONS = 11 };

/* T, C and the rows of the table. A GPU sorts 1,024 tokens at a time, and adds up the counts of 8,192 rows at a time.
 */
static const int64_t shapes[][3] = {{0, 8, ROWS},        {1, 1, ROWS},     {5, 15, ROWS},    {3, 16, ROWS},
                                    {40, 17, ROWS},      {31, 31, ROWS},   {33, 33, ROWS},   {7, 100, ROWS},
                                    {50, 257, ROWS},     {64, 1031, ROWS}, {700, 129, ROWS}, {2100, 3, ROWS},
                                    {1030, 1, MANY_ROWS}};

typedef struct problem {
    int64_t T, C, rows;
    tess_dtype dtype;
    void *table, *positions, *dout;
    int32_t *ids, *pos;
} problem;

static problem make_problem(const int64_t shape[3], tess_dtype dtype)
{
    const int64_t T = shape[0], C = shape[1], rows = shape[2];
    problem p = {T,
                 C,
                 rows,
                 dtype,
                 random_array(1, rows * C, 0, 1, dtype),
                 random_array(2, POSITIONS * C, 0, 1, dtype),
                 random_array(3, T * C, 0, 1, dtype),
                 new_array(T, 4),
                 new_array(T, 4)};
    for (int64_t t = 0; t < T; t++) {
        p.ids[t] = (int32_t)(tess_rng_u64(7, TESS_RNG_TEST, 4, (uint64_t)t) % (uint64_t)rows);
        p.pos[t] = (int32_t)(t % POSITIONS);
    }
    return p;
}

static void free_problem(problem *p)
{
    void *all[] = {p->table, p->positions, p->dout, p->ids, p->pos};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static const float factors[] = {0, 45.25f};

static void embedding_scales_rows_and_adds_positions(void)
{
    for (size_t i = 0; i < COUNT(shapes) * 4; i++) {
        if (!test_takes())
            continue;
        const float given = factors[i % 4 / 2], factor = given != 0 ? given : 1;
        problem p = make_problem(shapes[i / 4], both_dtypes[i % 2]);
        int64_t n = p.T * p.C;
        void *plain = new_array(n, tess_dtype_size(p.dtype)), *moved = new_array(n, tess_dtype_size(p.dtype));
        for (int64_t j = 0; j < n; j++) {
            double x = value_at(p.table, p.ids[j / p.C] * p.C + j % p.C, p.dtype);
            float position = (float)value_at(p.positions, p.pos[j / p.C] * p.C + j % p.C, p.dtype);
            put_value(plain, j, (float)x * factor, p.dtype);
            put_value(moved, j, fmaf((float)x, factor, position), p.dtype);
        }
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            void *out = blank_array(n, p.dtype);
            EXPECT_OK(tess_stream_kernels(s)->embedding_forward(s, &(tess_embedding_args){.table = p.table,
                                                                                          .ids = p.ids,
                                                                                          .out = out,
                                                                                          .T = p.T,
                                                                                          .C = p.C,
                                                                                          .factor = given,
                                                                                          .dtype = p.dtype}));
            expect_bits("rows", v, out, plain, n, p.dtype);
            EXPECT_OK(tess_stream_kernels(s)->embedding_forward(s, &(tess_embedding_args){.table = p.table,
                                                                                          .positions = p.positions,
                                                                                          .ids = p.ids,
                                                                                          .pos = p.pos,
                                                                                          .out = out,
                                                                                          .T = p.T,
                                                                                          .C = p.C,
                                                                                          .factor = given,
                                                                                          .dtype = p.dtype}));
            expect_bits("rows + positions", v, out, moved, n, p.dtype);
            free(out);
            tess_stream_destroy(&s);
        }
        free(plain);
        free(moved);
        free_problem(&p);
    }
}

/* Float32 additions in the order of the tokens, started from 0 or from what is there. */
static void embedding_gradients_add_tokens_in_order_on_any_threads(void)
{
    for (size_t i = 0; i < COUNT(shapes) * 4; i++) {
        if (!test_takes())
            continue;
        problem p = make_problem(shapes[i / 4], both_dtypes[i % 2]);
        bool accumulate = i % 4 >= 2;
        const float given = factors[i / 4 % 2];
        float *start = random_array(5, p.rows * p.C, 0, 1, TESS_F32), *want = copy_array(start, p.rows * p.C, TESS_F32);
        if (!accumulate)
            memset(want, 0, (size_t)(p.rows * p.C) * sizeof(float));
        for (int64_t j = 0; j < p.T * p.C; j++) {
            float *to = &want[p.ids[j / p.C] * p.C + j % p.C];
            *to = fmaf((float)value_at(p.dout, j, p.dtype), given != 0 ? given : 1, *to);
        }
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            float *got = copy_array(start, p.rows * p.C, TESS_F32);
            EXPECT_OK(
                tess_stream_kernels(s)->embedding_backward(s, &(tess_embedding_grad_args){.ids = p.ids,
                                                                                          .dout = p.dout,
                                                                                          .dtable = got,
                                                                                          .rows = p.rows,
                                                                                          .T = p.T,
                                                                                          .C = p.C,
                                                                                          .accumulate = accumulate,
                                                                                          .factor = given,
                                                                                          .dtype = p.dtype}));
            expect_bits("dtable", v, got, want, p.rows * p.C, TESS_F32);
            free(got);
            tess_stream_destroy(&s);
        }
        free(start);
        free(want);
        free_problem(&p);
    }
}

static const test_case cases[] = {
    CASE(embedding_scales_rows_and_adds_positions),
    CASE(embedding_gradients_add_tokens_in_order_on_any_threads),
};

TEST_MAIN(cases)
