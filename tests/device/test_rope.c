/* Rotary positions: against float64, a token on its own, and the inverse rotation. */
#include "elementwise_test.h"

typedef struct shape {
    int64_t T, n_heads, D, R, gap; /* gap: elements between the heads of one token and the next token */
    bool interleaved;
} shape;

static const shape shapes[] = {{0, 2, 8, 8, 0},         {1, 1, 2, 2, 0},          {3, 2, 30, 30, 5},
                               {5, 1, 32, 32, 0},       {4, 3, 34, 34, 7},        {7, 2, 64, 64, 64},
                               {6, 2, 80, 32, 0},       {9, 2, 100, 66, 3},       {2, 5, 128, 128, 0},
                               {3, 2, 16, 0, 1},        {130, 4, 64, 64, 9},      {3, 2, 30, 30, 5, true},
                               {5, 1, 64, 32, 0, true}, {4, 3, 34, 34, 7, true},  {6, 2, 80, 70, 0, true},
                               {1, 1, 2, 2, 0, true},   {9, 2, 128, 64, 3, true}, {65, 4, 128, 128, 0, true}};

enum { MAX_POSITION = 50 };

typedef struct tables {
    float *cosines, *sines;
    int32_t *pos;
} tables;

static tables make_tables(const shape *p)
{
    int64_t half = p->R / 2;
    tables t = {new_array(MAX_POSITION * half, 4), new_array(MAX_POSITION * half, 4), new_array(p->T, 4)};
    for (int64_t i = 0; i < MAX_POSITION * half; i++) {
        double angle = (double)(i / half) * pow(10000.0, -(double)(i % half) / (double)half);
        t.cosines[i] = (float)cos(angle);
        t.sines[i] = (float)sin(angle);
    }
    for (int64_t i = 0; i < p->T; i++)
        t.pos[i] = (int32_t)(i * 7 % MAX_POSITION);
    return t;
}

static void free_tables(tables *t)
{
    free(t->cosines);
    free(t->sines);
    free(t->pos);
}

/* Only the stride separates the last token's heads from the end. */
static int64_t n_elements(const shape *p)
{
    int64_t stride = p->n_heads * p->D + p->gap;
    return p->T > 0 ? (p->T - 1) * stride + p->n_heads * p->D : 0;
}

static void turn(tess_stream *s, const shape *p, const tables *t, void *x, bool inverse, tess_dtype dtype)
{
    EXPECT_OK(tess_stream_kernels(s)->rope(s, &(tess_rope_args){.x = x,
                                                                .stride = p->n_heads * p->D + p->gap,
                                                                .pos = t->pos,
                                                                .cos_table = t->cosines,
                                                                .sin_table = t->sines,
                                                                .T = p->T,
                                                                .n_heads = p->n_heads,
                                                                .D = p->D,
                                                                .R = p->R,
                                                                .inverse = inverse,
                                                                .interleaved = p->interleaved,
                                                                .dtype = dtype}));
}

static void expect_rotation(const shape *p, const tables *t, const void *x, const void *y, bool inverse,
                            tess_dtype dtype)
{
    int64_t half = p->R / 2, stride = p->n_heads * p->D + p->gap;
    for (int64_t i = 0; i < n_elements(p); i++) {
        int64_t token = i / stride, in_head = i % stride % p->D;
        double want = value_at(x, i, dtype), scale = fabs(want);
        if (i % stride < p->n_heads * p->D && in_head < 2 * half) {
            bool low = p->interleaved ? in_head % 2 == 0 : in_head < half;
            int64_t pair = p->interleaved ? in_head / 2 : in_head % half, apart = p->interleaved ? 1 : half;
            int64_t angle = t->pos[token] * half + pair;
            double other = value_at(x, low ? i + apart : i - apart, dtype);
            double sine = (low == inverse ? 1 : -1) * (double)t->sines[angle];
            want = want * t->cosines[angle] + other * sine;
            scale += fabs(other);
        }
        expect_near("x", i, value_at(y, i, dtype), want, allowed(scale, dtype));
    }
}

static void rope_agrees_with_float64_and_bit_for_bit_across_levels(void)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (size_t d = 0; d < 2 * COUNT(both_dtypes); d++) {
            const shape *p = &shapes[i];
            tess_dtype dtype = both_dtypes[d / 2];
            bool inverse = d % 2 == 1;
            int64_t n = n_elements(p);
            tables t = make_tables(p);
            void *x = random_array(1, n, 0, 1, dtype), *want = copy_array(x, n, dtype);
            tess_stream *s = open_variant(0);
            turn(s, p, &t, want, inverse, dtype);
            tess_stream_destroy(&s);
            expect_rotation(p, &t, x, want, inverse, dtype);
            for (size_t v = 1; v < COUNT(variants); v++) {
                if ((s = open_variant(v)) == NULL)
                    continue;
                void *y = copy_array(x, n, dtype);
                turn(s, p, &t, y, inverse, dtype);
                expect_bits("rotated", v, y, want, n, dtype);
                free(y);
                tess_stream_destroy(&s);
            }
            free(x);
            free(want);
            free_tables(&t);
        }
    }
}

static void a_token_alone_has_the_bits_it_has_among_others(void)
{
    const shape p = {31, 3, 48, 40, 11, false};
    int64_t n = n_elements(&p), stride = p.n_heads * p.D + p.gap;
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        tables t = make_tables(&p);
        void *x = random_array(1, n, 0, 1, TESS_BF16), *all = copy_array(x, n, TESS_BF16);
        turn(s, &p, &t, all, false, TESS_BF16);
        shape one = p;
        one.T = 1;
        for (int64_t row = 0; row < p.T; row += 5) {
            void *alone = copy_array(row_at(x, row * stride, TESS_BF16), p.n_heads * p.D, TESS_BF16);
            tables here = {t.cosines, t.sines, t.pos + row};
            turn(s, &one, &here, alone, false, TESS_BF16);
            expect_bits("row alone", v, alone, row_at(all, row * stride, TESS_BF16), p.n_heads * p.D, TESS_BF16);
            free(alone);
        }
        free(x);
        free(all);
        free_tables(&t);
        tess_stream_destroy(&s);
    }
}

/* The transposed rotation undoes the rotation, to rounding. */
static void the_inverse_undoes_the_rotation(void)
{
    const shape p = {12, 2, 64, 64, 0, false};
    int64_t n = n_elements(&p);
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        tables t = make_tables(&p);
        float *x = random_array(1, n, 0, 1, TESS_F32), *y = copy_array(x, n, TESS_F32);
        turn(s, &p, &t, y, false, TESS_F32);
        EXPECT(memcmp(x, y, (size_t)n * sizeof(*x)) != 0);
        turn(s, &p, &t, y, true, TESS_F32);
        EXPECT_CLOSE(y, x, (size_t)n, 1e-6, 0);
        free(x);
        free(y);
        free_tables(&t);
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    CASE(rope_agrees_with_float64_and_bit_for_bit_across_levels),
    CASE(a_token_alone_has_the_bits_it_has_among_others),
    CASE(the_inverse_undoes_the_rotation),
};

TEST_MAIN(cases)
