#include "comm/reduce.h"

#include <math.h>
#include <string.h>

#include "comm/reduce_loops.h"
#include "comm/stream.h"
#include "job/job_memory.h"

enum {
    BLOCK = 1024,  /* elements at a time: what is at work at once stays in the first-level cache */
    MAX_DEPTH = 19 /* blocks: a tree over 512 ranks has nine levels, two blocks each, and the result */
};

typedef float tree_scratch[BLOCK];

/* ---- Tree of float sums ---- */
int tess_reduce_half(int n)
{
    int half = 1;
    while (half * 2 < n)
        half *= 2;
    return half;
}

static const void *element(const void *x, tess_dtype dtype, size_t i)
{
    return (const uint8_t *)x + i * tess_dtype_size(dtype);
}

/* y = sum of two leaves, converted on the way (+ y). True, as of the next three: no y is NaN or infinite. */
static bool add_two(const void *a, const void *b, tess_dtype dtype, float *y, size_t n, tree_scratch *scratch,
                    bool accumulate)
{
    const tess_reduce_loops *loops = tess_reduce_loops_best();
    if (dtype == TESS_F32)
        return loops->add_f32(a, b, y, n, accumulate);
    if (dtype == TESS_BF16)
        return loops->add_bf16(a, b, y, n, accumulate);
    tess_load_f32(a, dtype, scratch[0], n);
    tess_load_f32(b, dtype, scratch[1], n);
    return loops->add_f32(scratch[0], scratch[1], y, n, accumulate);
}

/* y = (x[0] + x[1]) + (x[2] + x[3]), elements from `at` on. F32 and BF16. */
static bool add_four(const void *const *x, tess_dtype dtype, size_t at, size_t n, float *y)
{
    const tess_reduce_loops *loops = tess_reduce_loops_best();
    const float *floats[4];
    const uint16_t *halves[4];
    for (int r = 0; r < 4; r++) {
        floats[r] = element(x[r], dtype, at);
        halves[r] = element(x[r], dtype, at);
    }
    return dtype == TESS_F32 ? loops->add4_f32(floats, y, n) : loops->add4_bf16(halves, y, n);
}

/* y = x (+ y) */
static bool add_one(const void *x, tess_dtype dtype, float *y, size_t n, tree_scratch *scratch, bool accumulate)
{
    uint32_t most = 0;
    tess_load_f32(x, dtype, accumulate ? scratch[0] : y, n);
    for (size_t i = 0; i < n; i++) {
        y[i] = accumulate ? scratch[0][i] + y[i] : y[i];
        most = tess_reduce_larger(most, y[i]);
    }
    return tess_reduce_finite(most);
}

/* y gets the tree over x[0 .. n_inputs), elements from `at` on (+ y). The levels below work in the blocks of scratch.
 */
static bool tree_block(const void *const *x, int n_inputs, tess_dtype dtype, size_t at, size_t n, float *y,
                       tree_scratch *scratch, bool accumulate)
{
    if (n_inputs == 1)
        return add_one(element(x[0], dtype, at), dtype, y, n, scratch, accumulate);
    if (n_inputs == 2)
        return add_two(element(x[0], dtype, at), element(x[1], dtype, at), dtype, y, n, scratch, accumulate);
    if (n_inputs == 4 && !accumulate && dtype != TESS_F16)
        return add_four(x, dtype, at, n, y);
    int half = tess_reduce_half(n_inputs);
    tree_block(x, half, dtype, at, n, scratch[0], scratch + 1, false);
    tree_block(x + half, n_inputs - half, dtype, at, n, scratch[1], scratch + 2, false);
    return tess_reduce_loops_best()->add_f32(scratch[0], scratch[1], y, n, accumulate);
}

bool tess_reduce_tree_f32(const void *const *x, int n_inputs, tess_dtype dtype, float *out, size_t n, bool accumulate,
                          bool streams)
{
    _Alignas(64) tree_scratch scratch[MAX_DEPTH];
    bool finite = true;
    streams = streams && !accumulate; /* what was just read is in the cache */
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        finite &= tree_block(x, n_inputs, dtype, at, count, streams ? scratch[0] : out + at, scratch + 1, accumulate);
        if (streams)
            tess_stream_copy(out + at, scratch[0], count * sizeof(float));
    }
    if (streams)
        tess_stream_end();
    return finite;
}

static void sum_floats(const void *const *x, int n_inputs, tess_dtype dtype, bool average, size_t at, size_t n,
                       void *out)
{
    _Alignas(64) tree_scratch scratch[MAX_DEPTH];
    float *sum = dtype == TESS_F32 ? out : scratch[0];
    tree_block(x, n_inputs, dtype, at, n, sum, scratch + 1, false);
    if (average)
        for (size_t i = 0; i < n; i++)
            sum[i] /= (float)n_inputs;
    if (dtype != TESS_F32)
        tess_store_f32(sum, out, dtype, n);
}

/* ---- Extrema and integers, a block at a time ---- */
static inline float larger(float a, float b)
{
    return a > b || isnan(a) ? a : b;
}

static inline float smaller(float a, float b)
{
    return a < b || isnan(a) ? a : b;
}

static void extreme_floats(const void *const *x, int n_inputs, tess_dtype dtype, bool maximum, size_t at, size_t n,
                           void *out)
{
    float best[BLOCK], next[BLOCK];
    tess_load_f32(element(x[0], dtype, at), dtype, best, n);
    for (int r = 1; r < n_inputs; r++) {
        tess_load_f32(element(x[r], dtype, at), dtype, next, n);
        for (size_t i = 0; i < n; i++)
            best[i] = maximum ? larger(best[i], next[i]) : smaller(best[i], next[i]);
    }
    tess_store_f32(best, out, dtype, n);
}

static void load_i64(const void *x, tess_dtype dtype, int64_t *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = dtype == TESS_I64   ? ((const int64_t *)x)[i]
               : dtype == TESS_I32 ? ((const int32_t *)x)[i]
                                   : ((const uint8_t *)x)[i];
}

static void store_i64(const int64_t *x, void *y, tess_dtype dtype, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (dtype == TESS_I64)
            ((int64_t *)y)[i] = x[i];
        else if (dtype == TESS_I32)
            ((int32_t *)y)[i] = (int32_t)(uint32_t)(uint64_t)x[i];
        else
            ((uint8_t *)y)[i] = (uint8_t)(uint64_t)x[i];
    }
}

static void fold_integers(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, size_t at, size_t n,
                          int64_t *total)
{
    int64_t next[BLOCK];
    load_i64(element(x[0], dtype, at), dtype, total, n);
    for (int r = 1; r < n_inputs; r++) {
        load_i64(element(x[r], dtype, at), dtype, next, n);
        for (size_t i = 0; i < n; i++) {
            if (op == TESS_MAX)
                total[i] = total[i] > next[i] ? total[i] : next[i];
            else if (op == TESS_MIN)
                total[i] = total[i] < next[i] ? total[i] : next[i];
            else
                total[i] = (int64_t)((uint64_t)total[i] + (uint64_t)next[i]);
        }
    }
}

static void reduce_integers(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, size_t at, size_t n,
                            void *out)
{
    int64_t total[BLOCK];
    fold_integers(x, n_inputs, dtype, op, at, n, total);
    if (op == TESS_AVG)
        for (size_t i = 0; i < n; i++)
            total[i] /= n_inputs;
    store_i64(total, out, dtype, n);
}

static bool is_float(tess_dtype dtype)
{
    return dtype == TESS_F32 || dtype == TESS_BF16 || dtype == TESS_F16;
}

static void reduce_block(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, size_t at, size_t n,
                         void *out)
{
    if (!is_float(dtype))
        reduce_integers(x, n_inputs, dtype, op, at, n, out);
    else if (op == TESS_MAX || op == TESS_MIN)
        extreme_floats(x, n_inputs, dtype, op == TESS_MAX, at, n, out);
    else
        sum_floats(x, n_inputs, dtype, op == TESS_AVG, at, n, out);
}

static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void tess_reduce(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, void *const *outs, int n_outs,
                 size_t n, bool streams)
{
    _Alignas(64) uint8_t block[BLOCK * sizeof(int64_t)];
    size_t size = tess_dtype_size(dtype);
    bool direct = n_outs == 1 && !streams;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        reduce_block(x, n_inputs, dtype, op, at, count, direct ? (uint8_t *)outs[0] + at * size : block);
        for (int k = 0; k < n_outs && !direct; k++)
            (streams ? tess_stream_copy : copy)((uint8_t *)outs[k] + at * size, block, count * size);
    }
    if (streams)
        tess_stream_end();
}

/* ---- Partials ---- */
tess_dtype tess_reduce_partial_dtype(tess_dtype dtype, tess_op op)
{
    if (op == TESS_MAX || op == TESS_MIN)
        return dtype;
    return is_float(dtype) ? TESS_F32 : op == TESS_AVG ? TESS_I64 : dtype;
}

void tess_reduce_partial(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, void *out, size_t n)
{
    tess_dtype kept = tess_reduce_partial_dtype(dtype, op);
    if (is_float(dtype) && (op == TESS_SUM || op == TESS_AVG)) {
        tess_reduce_tree_f32(x, n_inputs, dtype, out, n, false, false);
    } else if (kept == dtype && op != TESS_AVG) {
        tess_reduce(x, n_inputs, dtype, op, &out, 1, n, false);
    } else {
        for (size_t at = 0; at < n; at += BLOCK)
            fold_integers(x, n_inputs, dtype, TESS_SUM, at, n - at < BLOCK ? n - at : BLOCK, (int64_t *)out + at);
    }
}

/* The sum over inputs [begin, end), elements from `at` on: a partial as it is, or in `y`. */
static const float *finish_block(const tess_partial *partials, int begin, int end, size_t at, size_t n, float *y,
                                 tree_scratch *scratch)
{
    while (partials->begin < begin)
        partials++;
    if (partials->end == end)
        return (const float *)partials->values + at;
    int middle = begin + tess_reduce_half(end - begin);
    const float *left = finish_block(partials, begin, middle, at, n, scratch[0], scratch + 1);
    const float *right = finish_block(partials, middle, end, at, n, scratch[1], scratch + 2);
    tess_reduce_loops_best()->add_f32(left, right, y, n, false);
    return y;
}

void tess_reduce_finish_f32(const tess_partial *partials, int n_partials, float *out, size_t n, bool accumulate)
{
    _Alignas(64) tree_scratch scratch[MAX_DEPTH];
    int n_inputs = partials[n_partials - 1].end;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        float *to = out + at, *y = accumulate ? scratch[0] : to;
        const float *sum = finish_block(partials, 0, n_inputs, at, count, y, scratch + 1);
        if (accumulate)
            for (size_t i = 0; i < count; i++)
                to[i] = sum[i] + to[i];
        else if (sum != to)
            memcpy(to, sum, count * sizeof(float));
    }
}

static void finish_floats(const tess_partial *partials, int n_partials, tess_dtype dtype, bool average, void *out,
                          size_t n)
{
    float sum[BLOCK];
    int n_inputs = partials[n_partials - 1].end;
    _Alignas(64) tree_scratch scratch[MAX_DEPTH];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        const float *found = finish_block(partials, 0, n_inputs, at, count, sum, scratch);
        if (found != sum)
            memcpy(sum, found, count * sizeof(float));
        if (average)
            for (size_t i = 0; i < count; i++)
                sum[i] /= (float)n_inputs;
        tess_store_f32(sum, (uint8_t *)out + at * tess_dtype_size(dtype), dtype, count);
    }
}

/* Sums of integers wrap and extrema know no order: any way of putting them together is the tree. */
static void finish_rest(const tess_partial *partials, int n_partials, tess_dtype dtype, tess_op op, void *out, size_t n)
{
    const void *values[JOB_MAX_RANKS];
    for (int i = 0; i < n_partials; i++)
        values[i] = partials[i].values;
    if (op != TESS_AVG) {
        tess_reduce(values, n_partials, dtype, op, &out, 1, n, false);
        return;
    }
    int64_t total[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        fold_integers(values, n_partials, TESS_I64, TESS_SUM, at, count, total);
        for (size_t i = 0; i < count; i++)
            total[i] /= partials[n_partials - 1].end;
        store_i64(total, (uint8_t *)out + at * tess_dtype_size(dtype), dtype, count);
    }
}

void tess_reduce_finish(const tess_partial *partials, int n_partials, tess_dtype dtype, tess_op op, void *out, size_t n)
{
    bool sums_floats = is_float(dtype) && (op == TESS_SUM || op == TESS_AVG);
    if (sums_floats && dtype == TESS_F32 && op == TESS_SUM)
        tess_reduce_finish_f32(partials, n_partials, out, n, false);
    else if (sums_floats)
        finish_floats(partials, n_partials, dtype, op == TESS_AVG, out, n);
    else
        finish_rest(partials, n_partials, dtype, op, out, n);
}
