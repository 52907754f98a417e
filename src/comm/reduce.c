#include "comm/reduce.h"
#include "comm/reduce_loops.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK = 1024,  /* elements at a time: what is at work at once stays in the first-level cache */
    MAX_DEPTH = 14 /* blocks: a tree over 128 ranks has six levels above its pairs, two blocks each, and the result */
};

/* ---- 16-bit floats
 * --------------------------------------------------------------------------------------------------- */
static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static inline uint16_t bf16_of(float x)
{
    uint32_t u = bits_of(x);
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    uint32_t quiet = (u >> 16) | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline float float_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00)
        return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 | ((rest & 0x3ff) != 0 ? 0x400000 : 0));
    if (rest >= 0x400)
        return float_of(sign | ((rest << 13) + 0x38000000));
    float tiny = (float)rest * 0x1p-24f; /* subnormal: exact */
    return (sign != 0) ? -tiny : tiny;
}

static inline uint16_t f16_of(float x)
{
    uint32_t u = bits_of(x), sign = (u >> 16) & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x477ff000) /* rounds to 65536 or beyond */
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) { /* below 2^-14: the unit is 2^-24, and adding 0.5 to x has just that unit */
        uint32_t sum = bits_of(float_of(u) + 0.5f);
        return (uint16_t)(sign | (sum - 0x3f000000));
    }
    return (uint16_t)(sign | ((u - 0x38000000 + 0xfff + ((u >> 13) & 1)) >> 13));
}

static void widen_bf16(const uint16_t *x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = float_of((uint32_t)x[i] << 16);
}

static void narrow_bf16(const float *x, uint16_t *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bf16_of(x[i]);
}

static void add_f32(const float *a, const float *b, float *y, size_t n, bool accumulate)
{
    if (accumulate)
        for (size_t i = 0; i < n; i++)
            y[i] = (a[i] + b[i]) + y[i];
    else
        for (size_t i = 0; i < n; i++)
            y[i] = a[i] + b[i];
}

static void add_bf16(const uint16_t *a, const uint16_t *b, float *y, size_t n, bool accumulate)
{
    for (size_t i = 0; i < n; i++) {
        float sum = float_of((uint32_t)a[i] << 16) + float_of((uint32_t)b[i] << 16);
        y[i] = accumulate ? sum + y[i] : sum;
    }
}

static const tess_reduce_loops plain_loops = {widen_bf16, narrow_bf16, add_f32, add_bf16};

static const tess_reduce_loops *loops(void)
{
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    return wide ? &tess_reduce_loops_avx512 : &plain_loops;
}

static void load_f32(const void *x, tess_dtype dtype, float *restrict y, size_t n)
{
    if (dtype == TESS_F32) {
        memcpy(y, x, n * sizeof(float));
    } else if (dtype == TESS_BF16) {
        loops()->widen_bf16(x, y, n);
    } else {
        const uint16_t *h = x;
        for (size_t i = 0; i < n; i++)
            y[i] = float_of_f16(h[i]);
    }
}

static void store_f32(const float *x, void *y, tess_dtype dtype, size_t n)
{
    if (dtype == TESS_F32) {
        memcpy(y, x, n * sizeof(float));
    } else if (dtype == TESS_BF16) {
        loops()->narrow_bf16(x, y, n);
    } else {
        uint16_t *h = y;
        for (size_t i = 0; i < n; i++)
            h[i] = f16_of(x[i]);
    }
}

static bool is_float(tess_dtype dtype)
{
    return dtype == TESS_F32 || dtype == TESS_BF16 || dtype == TESS_F16;
}

bool tess_convert_possible(tess_dtype from, tess_dtype to)
{
    return from == to || (is_float(from) && is_float(to));
}

void tess_convert_values(const void *x, tess_dtype from, void *y, tess_dtype to, size_t n)
{
    if (from == to) {
        if (x != y)
            memmove(y, x, n * tess_dtype_size(from));
    } else if (from == TESS_F32) {
        store_f32(x, y, to, n);
    } else if (to == TESS_F32) {
        load_f32(x, from, y, n);
    } else {
        float block[BLOCK];
        for (size_t i = 0; i < n; i += BLOCK) {
            size_t count = n - i < BLOCK ? n - i : BLOCK;
            load_f32((const uint16_t *)x + i, from, block, count);
            store_f32(block, (uint16_t *)y + i, to, count);
        }
    }
}

/* ---- Tree of float sums
 * ------------------------------------------------------------------------------------------------ */
static int largest_power_below(int n)
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

/* y = sum of two leaves, converted on the way (+ y). */
static void add_leaves(const void *a, const void *b, tess_dtype dtype, float *y, size_t n, bool accumulate)
{
    if (dtype == TESS_F32) {
        loops()->add_f32(a, b, y, n, accumulate);
    } else if (dtype == TESS_BF16) {
        loops()->add_bf16(a, b, y, n, accumulate);
    } else {
        const uint16_t *p = a, *q = b;
        for (size_t i = 0; i < n; i++) {
            float sum = float_of_f16(p[i]) + float_of_f16(q[i]);
            y[i] = accumulate ? sum + y[i] : sum;
        }
    }
}

/* y gets the tree over x[0 .. n_inputs), elements from `at` on (+ y). The levels below work in the blocks of scratch.
 */
static void tree_block(const void *const *x, int n_inputs, tess_dtype dtype, size_t at, size_t n, float *y,
                       float (*scratch)[BLOCK], bool accumulate)
{
    if (n_inputs == 2) {
        add_leaves(element(x[0], dtype, at), element(x[1], dtype, at), dtype, y, n, accumulate);
    } else if (n_inputs > 2) {
        int half = largest_power_below(n_inputs);
        tree_block(x, half, dtype, at, n, scratch[0], scratch + 1, false);
        tree_block(x + half, n_inputs - half, dtype, at, n, scratch[1], scratch + 2, false);
        loops()->add_f32(scratch[0], scratch[1], y, n, accumulate);
    } else if (!accumulate) {
        load_f32(element(x[0], dtype, at), dtype, y, n);
    } else {
        load_f32(element(x[0], dtype, at), dtype, scratch[0], n);
        for (size_t i = 0; i < n; i++)
            y[i] = scratch[0][i] + y[i];
    }
}

void tess_reduce_tree_f32(const void *const *x, int n_inputs, tess_dtype dtype, float *out, size_t n, bool accumulate)
{
    _Alignas(64) float scratch[MAX_DEPTH][BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        tree_block(x, n_inputs, dtype, at, count, out + at, scratch, accumulate);
    }
}

static void reduce_floats(const void *const *x, int n_inputs, tess_dtype dtype, bool average, void *out, size_t n)
{
    _Alignas(64) float scratch[MAX_DEPTH][BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        tree_block(x, n_inputs, dtype, at, count, scratch[0], scratch + 1, false);
        if (average)
            for (size_t i = 0; i < count; i++)
                scratch[0][i] /= (float)n_inputs;
        store_f32(scratch[0], (uint8_t *)out + at * tess_dtype_size(dtype), dtype, count);
    }
}

/* ---- Extrema and integers
 * ---------------------------------------------------------------------------------------------- */
static inline float larger(float a, float b)
{
    return a > b || isnan(a) ? a : b;
}

static inline float smaller(float a, float b)
{
    return a < b || isnan(a) ? a : b;
}

static void extreme_floats(const void *const *x, int n_inputs, tess_dtype dtype, bool maximum, void *out, size_t n)
{
    float best[BLOCK], next[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        load_f32(element(x[0], dtype, at), dtype, best, count);
        for (int r = 1; r < n_inputs; r++) {
            load_f32(element(x[r], dtype, at), dtype, next, count);
            for (size_t i = 0; i < count; i++)
                best[i] = maximum ? larger(best[i], next[i]) : smaller(best[i], next[i]);
        }
        store_f32(best, (uint8_t *)out + at * tess_dtype_size(dtype), dtype, count);
    }
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

static void reduce_integers(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, void *out, size_t n)
{
    int64_t total[BLOCK], next[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        load_i64(element(x[0], dtype, at), dtype, total, count);
        for (int r = 1; r < n_inputs; r++) {
            load_i64(element(x[r], dtype, at), dtype, next, count);
            for (size_t i = 0; i < count; i++) {
                if (op == TESS_MAX)
                    total[i] = total[i] > next[i] ? total[i] : next[i];
                else if (op == TESS_MIN)
                    total[i] = total[i] < next[i] ? total[i] : next[i];
                else
                    total[i] = (int64_t)((uint64_t)total[i] + (uint64_t)next[i]);
            }
        }
        if (op == TESS_AVG)
            for (size_t i = 0; i < count; i++)
                total[i] /= n_inputs;
        store_i64(total, (uint8_t *)out + at * tess_dtype_size(dtype), dtype, count);
    }
}

void tess_reduce(const void *const *x, int n_inputs, tess_dtype dtype, tess_op op, void *out, size_t n)
{
    if (!is_float(dtype))
        reduce_integers(x, n_inputs, dtype, op, out, n);
    else if (op == TESS_MAX || op == TESS_MIN)
        extreme_floats(x, n_inputs, dtype, op == TESS_MAX, out, n);
    else
        reduce_floats(x, n_inputs, dtype, op == TESS_AVG, out, n);
}
