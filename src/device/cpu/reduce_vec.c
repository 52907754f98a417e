/* Multiples of a tensor, and sums: of two tensors, of columns, of the same element of many inputs, and of the squares
 * of a row. */
#include <stdatomic.h>

#include "device/cpu/stream_copy.h"
#include "device/cpu/vec_rows.h"
#include "device/vmath.h"

TESS_INLINE void add_part(const void *context, int64_t i, int64_t n)
{
    const tess_add_args *a = context;
    p_ahead(a->a, i, a->dtype);
    p_ahead(a->b, i, a->dtype);
    p_ahead(a->y, i, a->dtype);
    const pair factor = {v_set(a->factor), v_set(a->factor)};
    p_put(a->y, i, p_fma(p_get(a->a, i, n, a->dtype), factor, p_get(a->b, i, n, a->dtype)), n, a->dtype);
}

static void add_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_add_args *of = context;
    tess_add_args a = {.a = of->a, .b = of->b, .y = of->y, .factor = tess_factor_of(of->factor), .dtype = TESS_F32};
    if (of->dtype == TESS_F32) {
        row_pairs(add_part, &a, begin, end);
    } else {
        a.dtype = TESS_BF16;
        row_pairs(add_part, &a, begin, end);
    }
}

tess_status VEC_NAME(add)(tess_stream *s, const tess_add_args *a)
{
    TESS_TRY(tess_check_dtype("add", a->dtype));
    tess_threads_run(s->threads, add_loop, (void *)a, a->n, tess_loop_grain(0));
    return TESS_OK;
}

TESS_INLINE void scale_part(const void *context, int64_t i, int64_t n)
{
    const tess_scale_args *m = context;
    p_ahead(m->x, i, m->dtype);
    p_put(m->y, i, p_scale(p_get(m->x, i, n, m->dtype), m->factor), n, m->dtype);
}

TESS_INLINE void soft_cap_part(const void *context, int64_t i, int64_t n)
{
    const tess_scale_args *m = context;
    pair x = p_scale(p_get(m->x, i, n, m->dtype), m->factor);
    x.a = v_soft_cap(x.a, m->soft_cap, 1 / m->soft_cap);
    x.b = v_soft_cap(x.b, m->soft_cap, 1 / m->soft_cap);
    p_put(m->y, i, x, n, m->dtype);
}

static void scale_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    tess_scale_args m = *(const tess_scale_args *)context;
    if (m.soft_cap != 0)
        row_pairs(soft_cap_part, &m, begin, end);
    else if (m.dtype == TESS_F32)
        row_pairs(scale_part, &(tess_scale_args){.x = m.x, .factor = m.factor, .y = m.y, .dtype = TESS_F32}, begin,
                  end);
    else
        row_pairs(scale_part, &(tess_scale_args){.x = m.x, .factor = m.factor, .y = m.y, .dtype = TESS_BF16}, begin,
                  end);
}

tess_status VEC_NAME(scale)(tess_stream *s, const tess_scale_args *m)
{
    TESS_TRY(tess_check_dtype("scale", m->dtype));
    tess_threads_run(s->threads, scale_loop, (void *)m, m->n, tess_loop_grain(0));
    return TESS_OK;
}

enum { COLUMN_TILE = 1024 }; /* columns of a tile; its block sums stay in L1 while rows are read */

/* Adds `count` elements of x to sum. The elements of sum are in the order of a `pair` of dtype; their number is rounded
 * up to whole pairs. */
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

TESS_INLINE void column_tile(const tess_column_sum_args *c, int64_t first, int64_t count, tess_dtype dtype)
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

static void column_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_column_sum_args *c = context;
    for (int64_t first = begin; first < end; first += COLUMN_TILE) {
        int64_t count = end - first < COLUMN_TILE ? end - first : COLUMN_TILE;
        if (c->dtype == TESS_F32)
            column_tile(c, first, count, TESS_F32);
        else
            column_tile(c, first, count, TESS_BF16);
    }
}

tess_status VEC_NAME(column_sum)(tess_stream *s, const tess_column_sum_args *c)
{
    TESS_TRY(tess_check_dtype("column_sum", c->dtype));
    tess_threads_run(s->threads, column_loop, (void *)c, c->C, 64 * tess_loop_grain(64 * c->T));
    return TESS_OK;
}

enum { SUM_FEW = 8 }; /* largest number of inputs whose pointers stay in registers */

/* Adds inputs as a binary counter counts. After input r, level k holds a sum of 2^k inputs if bit k of r + 1 is set.
 * The sums that remain at the end are added from the last to the first. The result is the sum of a tree that carries an
 * unpaired node up to the next level. */
TESS_INLINE vec tree_sum_any(const void *const *x, int n_inputs, int64_t i, int64_t n, tess_dtype dtype)
{
    vec level[32];
    int depth = 0;
    for (int r = 0; r < n_inputs; r++) {
        vec sum = v_get(x[r], i, n, dtype);
        for (int carry = r; (carry & 1) != 0; carry >>= 1)
            sum = v_add(level[--depth], sum);
        level[depth++] = sum;
    }
    vec sum = depth > 0 ? level[--depth] : v_set(0);
    while (depth > 0)
        sum = v_add(level[--depth], sum);
    return sum;
}

TESS_INLINE vec tree_sum_2(const void *const *x, int64_t i, int64_t n, tess_dtype dtype)
{
    return v_add(v_get(x[0], i, n, dtype), v_get(x[1], i, n, dtype));
}

TESS_INLINE vec tree_sum_4(const void *const *x, int64_t i, int64_t n, tess_dtype dtype)
{
    return v_add(tree_sum_2(x, i, n, dtype), tree_sum_2(x + 2, i, n, dtype));
}

TESS_INLINE vec tree_sum(const void *const *x, int n_inputs, int64_t i, int64_t n, tess_dtype dtype)
{
    switch (n_inputs) {
    case 1:
        return v_get(x[0], i, n, dtype);
    case 2:
        return tree_sum_2(x, i, n, dtype);
    case 4:
        return tree_sum_4(x, i, n, dtype);
    case 8:
        return v_add(tree_sum_4(x, i, n, dtype), tree_sum_4(x + 4, i, n, dtype));
    default:
        return tree_sum_any(x, n_inputs, i, n, dtype);
    }
}

/* Writes the sums of elements i .. i+n to y, from element `to` on. Returns `check`, with NaN in the lanes whose sum is
 * not finite. */
TESS_INLINE vec sum_part(const tess_reduction *r, int n_inputs, tess_dtype dtype, tess_dtype y_dtype, void *y,
                         int64_t to, int64_t i, int64_t n, vec check)
{
    for (int k = 0; k < n_inputs; k++)
        v_ahead(r->x[k], i, dtype);
    v_ahead(y, to, y_dtype);
    vec sum = tree_sum(r->x, n_inputs, i, n, dtype);
    if (r->divisor != 1)
        sum = v_div(sum, v_set((float)r->divisor));
    if (r->accumulate)
        sum = v_add(sum, v_get(y, to, n, y_dtype));
    v_put(y, to, sum, n, y_dtype);
    return v_fma(sum, v_set(0), check);
}

/* Writes the sums of elements begin .. end to y, from element `to` on. Returns true if all are finite. */
TESS_INLINE bool sum_span(const tess_reduction *r, int n_inputs, tess_dtype dtype, tess_dtype y_dtype, void *y,
                          int64_t to, int64_t begin, int64_t end)
{
    vec check = v_set(0);
    int64_t i = begin, shift = to - begin;
    const void *x[SUM_FEW]; /* a copy on the stack, which no store can change, so that the loop keeps it in registers */
    tess_reduction own = *r;
    for (int k = 0; k < n_inputs && n_inputs <= SUM_FEW; k++)
        x[k] = r->x[k];
    if (n_inputs <= SUM_FEW)
        own.x = x;
    for (; i + 16 <= end; i += 16)
        check = sum_part(&own, n_inputs, dtype, y_dtype, y, i + shift, i, 16, check);
    if (i < end)
        check = sum_part(&own, n_inputs, dtype, y_dtype, y, i + shift, i, end - i, check);
    return v_sum(check) == 0;
}

TESS_INLINE bool sum_typed(const tess_reduction *r, tess_dtype dtype, tess_dtype y_dtype, void *y, int64_t to,
                           int64_t begin, int64_t end)
{
    switch (r->n_inputs) {
    case 1:
        return sum_span(r, 1, dtype, y_dtype, y, to, begin, end);
    case 2:
        return sum_span(r, 2, dtype, y_dtype, y, to, begin, end);
    case 4:
        return sum_span(r, 4, dtype, y_dtype, y, to, begin, end);
    case 8:
        return sum_span(r, 8, dtype, y_dtype, y, to, begin, end);
    default:
        return sum_span(r, r->n_inputs, dtype, y_dtype, y, to, begin, end);
    }
}

static bool sum_into(const tess_reduction *r, void *y, int64_t to, int64_t begin, int64_t end)
{
    bool widens = r->y_dtype == TESS_F32;
    if (r->dtype == TESS_F32)
        return sum_typed(r, TESS_F32, TESS_F32, y, to, begin, end);
    if (r->dtype == TESS_BF16)
        return widens ? sum_typed(r, TESS_BF16, TESS_F32, y, to, begin, end)
                      : sum_typed(r, TESS_BF16, TESS_BF16, y, to, begin, end);
    return widens ? sum_typed(r, TESS_F16, TESS_F32, y, to, begin, end)
                  : sum_typed(r, TESS_F16, TESS_F16, y, to, begin, end);
}

/* Elements of a block, which stays in L1 until it is copied to several outputs or written past the caches */
enum { SUM_BLOCK = 1024 };

typedef struct float_sums {
    const tess_reduction *r;
    _Atomic bool bad;
} float_sums;

static void sum_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    float_sums *sums = context;
    const tess_reduction *r = sums->r;
    bool finite = true, direct = r->n_outputs == 1 && (!r->streams || r->accumulate);
    size_t size = tess_dtype_size(r->y_dtype);
    _Alignas(64) float block[SUM_BLOCK];
    if (direct)
        finite = sum_into(r, r->y[0], begin, begin, end);
    for (int64_t i = begin; i < end && !direct; i += SUM_BLOCK) {
        int64_t count = end - i < SUM_BLOCK ? end - i : SUM_BLOCK;
        finite &= sum_into(r, block, 0, i, i + count);
        for (int k = 0; k < r->n_outputs; k++)
            (r->streams ? stream_copy : plain_copy)((char *)r->y[k] + (size_t)i * size, block, (size_t)count * size);
    }
    if (!direct && r->streams)
        stream_end();
    if (!finite)
        atomic_store(&sums->bad, true);
}

tess_status VEC_NAME(reduce)(tess_stream *s, const tess_reduction *r)
{
    if (!tess_reduces_floats(r) || r->op == TESS_MAX || r->op == TESS_MIN)
        return tess_ref_reduce(s, r);
    TESS_TRY(tess_check_reduction(r));
    float_sums sums = {.r = r};
    tess_threads_run(s->threads, sum_loop, &sums, r->n, tess_loop_grain(0));
    if (r->finite != NULL && atomic_load(&sums.bad))
        *r->finite = false;
    return TESS_OK;
}

tess_status VEC_NAME(copy)(TESS_UNUSED tess_stream *s, const tess_copy_args *a)
{
    if (a->streams) {
        stream_copy(a->to, a->from, (size_t)a->bytes);
        stream_end();
    } else {
        memcpy(a->to, a->from, (size_t)a->bytes);
    }
    return TESS_OK;
}

enum { SUMSQ_ROWS = 4 };

/* Sums the squares of `n_rows` rows at once, and prefetches the next `n_rows`. Several rows are read at once because a
 * single stream uses only half of the cache misses that a core can have outstanding. */
TESS_INLINE void sumsq_rows(const tess_row_sumsq_args *a, int64_t first, int64_t n_rows)
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

static void sumsq_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_row_sumsq_args *a = context;
    int64_t r = begin;
    for (; r + SUMSQ_ROWS <= end; r += SUMSQ_ROWS)
        sumsq_rows(a, r, SUMSQ_ROWS);
    for (; r < end; r++)
        sumsq_rows(a, r, 1);
}

tess_status VEC_NAME(row_sumsq)(tess_stream *s, const tess_row_sumsq_args *a)
{
    tess_threads_run(s->threads, sumsq_loop, (void *)a, a->rows, tess_loop_grain(a->C));
    return TESS_OK;
}
