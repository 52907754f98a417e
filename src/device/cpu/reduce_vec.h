/* Sums: of two tensors, of columns, of the same element of many inputs, of a row's squares. Compiled once per
 * instruction set, by its table. */
#ifndef TESS_DEVICE_CPU_REDUCE_VEC_H
#define TESS_DEVICE_CPU_REDUCE_VEC_H

#include "device/cpu/vec_typed.h"

typedef struct addition {
    const void *a, *b;
    void *y;
    tess_dtype dtype;
} addition;

TESS_INLINE void add_part(const void *context, int64_t i, int64_t n)
{
    const addition *a = context;
    p_ahead(a->a, i, a->dtype);
    p_ahead(a->b, i, a->dtype);
    p_ahead(a->y, i, a->dtype);
    p_put(a->y, i, p_add(p_get(a->a, i, n, a->dtype), p_get(a->b, i, n, a->dtype)), n, a->dtype);
}

static void add_loop(void *context, int64_t begin, int64_t end, int worker)
{
    addition a = *(const addition *)context;
    (void)worker;
    if (a.dtype == TESS_F32)
        row_pairs(add_part, &(addition){a.a, a.b, a.y, TESS_F32}, begin, end);
    else
        row_pairs(add_part, &(addition){a.a, a.b, a.y, TESS_BF16}, begin, end);
}

static tess_status add(tess_stream *s, const void *a, const void *b, void *y, int64_t n, tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("add", dtype));
    addition context = {a, b, y, dtype};
    tess_threads_run(s->threads, add_loop, &context, n, tess_loop_grain(0));
    return TESS_OK;
}

typedef struct columns {
    const void *dy;
    float *db;
    int64_t stride, T;
    tess_dtype dtype;
} columns;

enum { COLUMN_TILE = 1024 }; /* columns whose block sums stay in L1 while the rows stream by */

/* sum += count elements of x; sum in the lanes of dtype, in whole pairs. */
TESS_INLINE void add_row(float *sum, const void *x, int64_t at, int64_t count, tess_dtype dtype)
{
    int64_t i = 0;
    for (; i + TESS_PAIR <= count; i += TESS_PAIR)
        p_put(sum, i, p_add(p_get(sum, i, TESS_PAIR, TESS_F32), p_get(x, at + i, TESS_PAIR, dtype)), TESS_PAIR,
              TESS_F32);
    if (i < count)
        p_put(sum, i, p_add(p_get(sum, i, TESS_PAIR, TESS_F32), p_get(x, at + i, count - i, dtype)), TESS_PAIR,
              TESS_F32);
}

TESS_INLINE void column_tile(const columns *c, int64_t first, int64_t count, tess_dtype dtype)
{
    float block[COLUMN_TILE], sum[COLUMN_TILE] = {0};
    int64_t width = (count + TESS_PAIR - 1) / TESS_PAIR * TESS_PAIR;
    for (int64_t begin = 0; begin < c->T; begin += TESS_NORM_BLOCK) {
        memset(block, 0, (size_t)width * sizeof(float));
        for (int64_t t = begin; t < c->T && t < begin + TESS_NORM_BLOCK; t++)
            add_row(block, c->dy, t * c->stride + first, count, dtype);
        add_row(sum, block, 0, width, TESS_F32);
    }
    for (int64_t i = 0; i < count; i += TESS_PAIR)
        p_put_floats(c->db + first + i, p_get(sum, i, TESS_PAIR, TESS_F32),
                     count - i < TESS_PAIR ? count - i : TESS_PAIR, dtype);
}

static void column_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const columns *c = context;
    (void)worker;
    for (int64_t first = begin; first < end; first += COLUMN_TILE) {
        int64_t count = end - first < COLUMN_TILE ? end - first : COLUMN_TILE;
        if (c->dtype == TESS_F32)
            column_tile(c, first, count, TESS_F32);
        else
            column_tile(c, first, count, TESS_BF16);
    }
}

static tess_status column_sum(tess_stream *s, const void *dy, int64_t stride, float *db, int64_t T, int64_t C,
                              tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("column_sum", dtype));
    columns c = {dy, db, stride, T, dtype};
    tess_threads_run(s->threads, column_loop, &c, C, 64 * tess_loop_grain(64 * T));
    return TESS_OK;
}

typedef struct reduction {
    const void *const *x;
    float *y;
    int n_inputs;
    bool accumulate;
    tess_dtype dtype;
} reduction;

/* Adds as a binary counter does: after input r, level k holds the sum of the last 2^k inputs wherever bit k of r + 1 is
 * set. What is left at the end is added from the right: the tree that carries an odd one up. */
TESS_INLINE vec tree_sum(const reduction *a, int n_inputs, int64_t i, int64_t n, tess_dtype dtype)
{
    vec level[32];
    int depth = 0;
    for (int r = 0; r < n_inputs; r++) {
        vec sum = v_get(a->x[r], i, n, dtype);
        for (int carry = r; (carry & 1) != 0; carry >>= 1)
            sum = v_add(level[--depth], sum);
        level[depth++] = sum;
    }
    vec sum = depth > 0 ? level[--depth] : v_set(0);
    while (depth > 0)
        sum = v_add(level[--depth], sum);
    return sum;
}

TESS_INLINE vec tree_sum_2(const reduction *a, int first, int64_t i, int64_t n, tess_dtype dtype)
{
    return v_add(v_get(a->x[first], i, n, dtype), v_get(a->x[first + 1], i, n, dtype));
}

TESS_INLINE vec tree_sum_4(const reduction *a, int first, int64_t i, int64_t n, tess_dtype dtype)
{
    return v_add(tree_sum_2(a, first, i, n, dtype), tree_sum_2(a, first + 2, i, n, dtype));
}

TESS_INLINE void reduce_part(const void *context, int64_t i, int64_t n)
{
    const reduction *a = context;
    vec sum;
    for (int r = 0; r < a->n_inputs; r++)
        v_ahead(a->x[r], i, a->dtype);
    v_ahead(a->y, i, TESS_F32);
    if (a->n_inputs == 1)
        sum = v_get(a->x[0], i, n, a->dtype);
    else if (a->n_inputs == 2)
        sum = tree_sum_2(a, 0, i, n, a->dtype);
    else if (a->n_inputs == 4)
        sum = tree_sum_4(a, 0, i, n, a->dtype);
    else if (a->n_inputs == 8)
        sum = v_add(tree_sum_4(a, 0, i, n, a->dtype), tree_sum_4(a, 4, i, n, a->dtype));
    else
        sum = tree_sum(a, a->n_inputs, i, n, a->dtype);
    if (a->accumulate)
        sum = v_add(sum, v_load(a->y + i, n));
    v_store(a->y + i, sum, n);
}

TESS_INLINE void reduce_span(const reduction *a, int64_t begin, int64_t end, tess_dtype dtype)
{
    reduction r = *a;
    r.dtype = dtype;
    if (r.n_inputs == 1)
        row_each(reduce_part, &(reduction){r.x, r.y, 1, r.accumulate, dtype}, begin, end);
    else if (r.n_inputs == 2)
        row_each(reduce_part, &(reduction){r.x, r.y, 2, r.accumulate, dtype}, begin, end);
    else if (r.n_inputs == 4)
        row_each(reduce_part, &(reduction){r.x, r.y, 4, r.accumulate, dtype}, begin, end);
    else if (r.n_inputs == 8)
        row_each(reduce_part, &(reduction){r.x, r.y, 8, r.accumulate, dtype}, begin, end);
    else
        row_each(reduce_part, &r, begin, end);
}

static void reduce_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const reduction *a = context;
    (void)worker;
    if (a->dtype == TESS_F32)
        reduce_span(a, begin, end, TESS_F32);
    else
        reduce_span(a, begin, end, TESS_BF16);
}

static tess_status reduce_tree(tess_stream *s, const void *const *x, int n_inputs, tess_dtype dtype, float *y,
                               int64_t n, bool accumulate)
{
    TESS_TRY(tess_check_dtype("reduce_tree", dtype));
    reduction a = {x, y, n_inputs, accumulate, dtype};
    tess_threads_run(s->threads, reduce_loop, &a, n, tess_loop_grain(0));
    return TESS_OK;
}

enum { SUMSQ_ROWS = 4 };

typedef struct squares {
    const float *x;
    double *out;
    int64_t C;
} squares;

/* Sums `n_rows` rows at once, each a stream of its own, and asks for as many more: one stream alone leaves half of a
 * core's outstanding misses unused. */
TESS_INLINE void sumsq_rows(const squares *a, int64_t first, int64_t n_rows)
{
    const float *x = a->x + first * a->C;
    dvec sums[SUMSQ_ROWS];
    int64_t i = 0;
    for (int64_t r = 0; r < n_rows; r++)
        sums[r] = v_dzero();
    for (; i + 16 <= a->C; i += 16)
        for (int64_t r = 0; r < n_rows; r++) {
            __builtin_prefetch(x + (r + n_rows) * a->C + i);
            sums[r] = v_add_squares(sums[r], v_load(x + r * a->C + i, 16));
        }
    for (int64_t r = 0; r < n_rows; r++) {
        if (i < a->C)
            sums[r] = v_add_squares(sums[r], v_load(x + r * a->C + i, a->C - i));
        a->out[first + r] = v_dsum(sums[r]);
    }
}

static void sumsq_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const squares *a = context;
    (void)worker;
    int64_t r = begin;
    for (; r + SUMSQ_ROWS <= end; r += SUMSQ_ROWS)
        sumsq_rows(a, r, SUMSQ_ROWS);
    for (; r < end; r++)
        sumsq_rows(a, r, 1);
}

static tess_status row_sumsq(tess_stream *s, const float *x, double *out, int64_t rows, int64_t C)
{
    squares a = {x, out, C};
    tess_threads_run(s->threads, sumsq_loop, &a, rows, tess_loop_grain(C));
    return TESS_OK;
}

#endif
