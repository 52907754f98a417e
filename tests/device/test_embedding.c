/* Embedding: rows and positions forwards, gradients in the order of the tokens backwards, on any threads. */
#include "elementwise_test.h"

enum { ROWS = 37, POSITIONS = 11 };

static const int64_t shapes[][2] = {{0, 8},   {1, 1},   {5, 15},   {3, 16},    {40, 17},  {31, 31},
                                    {33, 33}, {7, 100}, {50, 257}, {64, 1031}, {700, 129}};

typedef struct problem {
    int64_t T, C;
    tess_dtype dtype;
    void *table, *positions, *dout;
    int32_t *ids, *pos;
} problem;

static problem make_problem(int64_t T, int64_t C, tess_dtype dtype)
{
    problem p = {T,
                 C,
                 dtype,
                 random_array(1, ROWS * C, 0, 1, dtype),
                 random_array(2, POSITIONS * C, 0, 1, dtype),
                 random_array(3, T * C, 0, 1, dtype),
                 new_array(T, 4),
                 new_array(T, 4)};
    for (int64_t t = 0; t < T; t++) {
        p.ids[t] = (int32_t)(tess_rng_u64(7, TESS_RNG_TEST, 4, (uint64_t)t) % ROWS);
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
        problem p = make_problem(shapes[i / 4][0], shapes[i / 4][1], both_dtypes[i % 2]);
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
        problem p = make_problem(shapes[i / 4][0], shapes[i / 4][1], both_dtypes[i % 2]);
        bool accumulate = i % 4 >= 2;
        const float given = factors[i / 4 % 2];
        float *start = random_array(5, ROWS * p.C, 0, 1, TESS_F32), *want = copy_array(start, ROWS * p.C, TESS_F32);
        if (!accumulate)
            memset(want, 0, (size_t)(ROWS * p.C) * sizeof(float));
        for (int64_t j = 0; j < p.T * p.C; j++) {
            float *to = &want[p.ids[j / p.C] * p.C + j % p.C];
            *to = fmaf((float)value_at(p.dout, j, p.dtype), given != 0 ? given : 1, *to);
        }
        for (size_t v = 0; v < COUNT(variants); v++) {
            tess_stream *s = open_variant(v);
            if (s == NULL)
                continue;
            float *got = copy_array(start, ROWS * p.C, TESS_F32);
            EXPECT_OK(
                tess_stream_kernels(s)->embedding_backward(s, &(tess_embedding_grad_args){.ids = p.ids,
                                                                                          .dout = p.dout,
                                                                                          .dtable = got,
                                                                                          .rows = ROWS,
                                                                                          .T = p.T,
                                                                                          .C = p.C,
                                                                                          .accumulate = accumulate,
                                                                                          .factor = given,
                                                                                          .dtype = p.dtype}));
            expect_bits("dtable", v, got, want, ROWS * p.C, TESS_F32);
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
