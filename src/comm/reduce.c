#include "comm/reduce.h"

#include <string.h>

enum {
    BLOCK = 1024, /* elements processed at a time, so that the working set stays in the first-level cache */
    /* number of scratch blocks: a tree over 2^31 ranks has 31 levels with two blocks each, plus the result: 252 KiB
     * of stack */
    MAX_DEPTH = 63
};

typedef float tree_scratch[BLOCK];

static bool is_float(tess_dtype dtype)
{
    return dtype == TESS_F32 || dtype == TESS_BF16 || dtype == TESS_F16;
}

tess_status tess_reduce(tess_stream *s, const void *const *x, int n_inputs, tess_dtype dtype, tess_op op,
                        void *const *outs, int n_outs, size_t n, bool streams)
{
    const tess_reduction r = {.x = x,
                              .n_inputs = n_inputs,
                              .dtype = dtype,
                              .op = op,
                              .divisor = op == TESS_AVG ? n_inputs : 1,
                              .y = outs,
                              .n_outputs = n_outs,
                              .y_dtype = dtype,
                              .n = (int64_t)n,
                              .streams = streams};
    return tess_stream_kernels(s)->reduce(s, &r);
}

tess_status tess_reduce_tree_f32(tess_stream *s, const void *const *x, int n_inputs, tess_dtype dtype, float *out,
                                 size_t n, bool accumulate, bool streams, bool *finite)
{
    void *to = out;
    const tess_reduction r = {.x = x,
                              .n_inputs = n_inputs,
                              .dtype = dtype,
                              .divisor = 1,
                              .y = &to,
                              .n_outputs = 1,
                              .y_dtype = TESS_F32,
                              .n = (int64_t)n,
                              .accumulate = accumulate,
                              .streams = streams,
                              .finite = finite};
    return tess_stream_kernels(s)->reduce(s, &r);
}

/* ---- Partials ---- */
int tess_reduce_half(int n)
{
    int half = 1;
    while (half * 2 < n)
        half *= 2;
    return half;
}

tess_dtype tess_reduce_partial_dtype(tess_dtype dtype, tess_op op)
{
    if (op == TESS_MAX || op == TESS_MIN)
        return dtype;
    return is_float(dtype) ? TESS_F32 : op == TESS_AVG ? TESS_I64 : dtype;
}

tess_status tess_reduce_partial(tess_stream *s, const void *const *x, int n_inputs, tess_dtype dtype, tess_op op,
                                void *out, size_t n)
{
    const tess_reduction r = {.x = x,
                              .n_inputs = n_inputs,
                              .dtype = dtype,
                              .op = op,
                              .divisor = 1,
                              .y = &out,
                              .n_outputs = 1,
                              .y_dtype = tess_reduce_partial_dtype(dtype, op),
                              .n = (int64_t)n};
    return tess_stream_kernels(s)->reduce(s, &r);
}

/* Arguments that finish_block passes down the tree. */
typedef struct finish {
    tess_stream *s;
    const tess_partial *partials;
    size_t at, n; /* number of elements */
    tess_status status;
} finish;

/* Returns the sum over inputs [begin, end): an existing partial, or the sum computed in `y`. */
static const float *finish_block(finish *f, int begin, int end, float *y, tree_scratch *scratch)
{
    const tess_partial *partial = f->partials;
    while (partial->begin < begin)
        partial++;
    if (partial->end == end)
        return (const float *)partial->values + f->at;
    int middle = begin + tess_reduce_half(end - begin);
    const void *sides[] = {finish_block(f, begin, middle, scratch[0], scratch + 1),
                           finish_block(f, middle, end, scratch[1], scratch + 2)};
    tess_status status = tess_reduce_tree_f32(f->s, sides, 2, TESS_F32, y, f->n, false, false, NULL);
    f->status = f->status == TESS_OK ? status : f->status;
    return y;
}

static tess_status finish_floats(tess_stream *s, const tess_partial *partials, int n_partials, tess_dtype dtype,
                                 tess_op op, void *out, size_t n, bool accumulate)
{
    _Alignas(64) tree_scratch scratch[MAX_DEPTH];
    int n_inputs = partials[n_partials - 1].end;
    for (size_t at = 0; at < n; at += BLOCK) {
        finish f = {s, partials, at, n - at < BLOCK ? n - at : BLOCK, TESS_OK};
        const void *sum = finish_block(&f, 0, n_inputs, scratch[0], scratch + 1);
        void *to = (uint8_t *)out + at * tess_dtype_size(dtype), *wide = dtype == TESS_F32 ? to : scratch[1];
        TESS_TRY(f.status);
        const tess_reduction r = {.x = &sum,
                                  .n_inputs = 1,
                                  .dtype = TESS_F32,
                                  .divisor = op == TESS_AVG ? n_inputs : 1,
                                  .y = &wide,
                                  .n_outputs = 1,
                                  .y_dtype = TESS_F32,
                                  .n = (int64_t)f.n,
                                  .accumulate = accumulate};
        TESS_TRY(tess_stream_kernels(s)->reduce(s, &r));
        if (wide != to)
            TESS_TRY(tess_stream_kernels(s)->convert(
                s, &(tess_convert_args){.x = wide, .from = TESS_F32, .y = to, .to = dtype, .n = r.n}));
    }
    return TESS_OK;
}

tess_status tess_reduce_finish(tess_stream *s, const tess_partial *partials, const void **values, int n_partials,
                               tess_dtype dtype, tess_op op, void *out, size_t n, bool accumulate)
{
    if (is_float(dtype) && (op == TESS_SUM || op == TESS_AVG))
        return finish_floats(s, partials, n_partials, dtype, op, out, n, accumulate);
    /* Integer sums wrap, and minimum and maximum do not depend on order, so any way of combining partials equals the
     * tree. */
    for (int i = 0; i < n_partials; i++)
        values[i] = partials[i].values;
    const tess_reduction r = {.x = values,
                              .n_inputs = n_partials,
                              .dtype = tess_reduce_partial_dtype(dtype, op),
                              .op = op,
                              .divisor = op == TESS_AVG ? partials[n_partials - 1].end : 1,
                              .y = &out,
                              .n_outputs = 1,
                              .y_dtype = dtype,
                              .n = (int64_t)n};
    return tess_stream_kernels(s)->reduce(s, &r);
}

/* ---- Conversions ---- */
bool tess_convert_possible(tess_dtype from, tess_dtype to)
{
    return from == to || (is_float(from) && is_float(to));
}

tess_status tess_convert_values(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, size_t n)
{
    if (from != to)
        return tess_stream_kernels(s)->convert(
            s, &(tess_convert_args){.x = x, .from = from, .y = y, .to = to, .n = (int64_t)n});
    if (x != y)
        memmove(y, x, n * tess_dtype_size(from));
    return TESS_OK;
}
