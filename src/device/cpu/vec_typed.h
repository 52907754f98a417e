/* Loads and stores of vectors by dtype, and sums along a row. A header that defines `vec` must be included first.
 * `dtype` and `n` should be constants after inlining: callers branch on them once, outside their loops. */
#ifndef TESS_DEVICE_CPU_VEC_TYPED_H
#define TESS_DEVICE_CPU_VEC_TYPED_H

#include "device/bf16.h"
#include "device/elementwise.h"
#include "device/stream_impl.h"

#define TESS_INLINE static inline __attribute__((always_inline))

/* Loads elements i .. i+n of x, 0 < n <= 16. The other lanes are 0. */
TESS_INLINE vec v_get(const void *x, int64_t i, int64_t n, tess_dtype dtype)
{
    if (dtype == TESS_F32)
        return v_load((const float *)x + i, n);
    if (dtype == TESS_BF16)
        return v_load_bf16((const uint16_t *)x + i, n);
    return v_load_f16((const uint16_t *)x + i, n);
}

/* Prefetches x at 4 KiB after element i. The hardware's own prefetch stops at the end of a page. Kernels that wait for
 * memory get a fifth faster, and data in cache costs no more. */
TESS_INLINE void v_ahead(const void *x, int64_t i, tess_dtype dtype)
{
    __builtin_prefetch((const char *)x + (size_t)i * (dtype == TESS_F32 ? 4 : 2) + 4096);
}

TESS_INLINE void v_put(void *x, int64_t i, vec value, int64_t n, tess_dtype dtype)
{
    if (dtype == TESS_F32)
        v_store((float *)x + i, value, n);
    else if (dtype == TESS_BF16)
        v_store_bf16((uint16_t *)x + i, value, n);
    else
        v_store_f16((uint16_t *)x + i, value, n);
}

/* 32 elements in two vectors, for kernels whose arrays all have the same dtype. The dtype decides which element is in
 * which lane: a holds the first 16 elements of float32, or those of even index of bfloat16, since that needs no
 * shuffle. */
typedef struct pair {
    vec a, b;
} pair;

enum { TESS_PAIR = 32 };

/* Returns how many of the first n elements, 0 < n <= 32, are in a. */
TESS_INLINE int64_t p_lanes(int64_t n, tess_dtype dtype)
{
    return dtype == TESS_F32 ? (n < 16 ? n : 16) : (n + 1) / 2;
}

/* Loads elements i .. i+n of x, 0 < n <= 32. The other lanes are 0. */
TESS_INLINE pair p_get(const void *x, int64_t i, int64_t n, tess_dtype dtype)
{
    pair p = {v_set(0), v_set(0)};
    if (dtype == TESS_F32) {
        p.a = v_load((const float *)x + i, p_lanes(n, dtype));
        if (n > 16)
            p.b = v_load((const float *)x + i + 16, n - 16);
    } else {
        v_load_bf16_split((const uint16_t *)x + i, n, &p.a, &p.b);
    }
    return p;
}

TESS_INLINE void p_put(void *x, int64_t i, pair value, int64_t n, tess_dtype dtype)
{
    if (dtype == TESS_F32) {
        v_store((float *)x + i, value.a, p_lanes(n, dtype));
        if (n > 16)
            v_store((float *)x + i + 16, value.b, n - 16);
    } else {
        v_store_bf16_split((uint16_t *)x + i, value.a, value.b, n);
    }
}

/* Does what v_ahead does, for the 32 elements of a pair. */
TESS_INLINE void p_ahead(const void *x, int64_t i, tess_dtype dtype)
{
    v_ahead(x, i, dtype);
    if (dtype == TESS_F32)
        v_ahead(x, i + 16, dtype);
}

/* Loads n floats, in the lanes that a pair of `dtype` has them in. */
TESS_INLINE pair p_get_floats(const float *x, int64_t n, tess_dtype dtype)
{
    pair p = p_get(x, 0, n, TESS_F32);
    if (dtype != TESS_F32)
        v_split(p.a, p.b, &p.a, &p.b);
    return p;
}

/* Stores n elements of a pair of `dtype` as float32, in order. */
TESS_INLINE void p_put_floats(float *x, pair value, int64_t n, tess_dtype dtype)
{
    if (dtype != TESS_F32)
        v_join(value.a, value.b, &value.a, &value.b);
    p_put(x, 0, value, n, TESS_F32);
}

TESS_INLINE pair p_add(pair x, pair y)
{
    return (pair){v_add(x.a, y.a), v_add(x.b, y.b)};
}

TESS_INLINE pair p_sub(pair x, pair y)
{
    return (pair){v_sub(x.a, y.a), v_sub(x.b, y.b)};
}

TESS_INLINE pair p_mul(pair x, pair y)
{
    return (pair){v_mul(x.a, y.a), v_mul(x.b, y.b)};
}

TESS_INLINE pair p_scale(pair x, float factor)
{
    return (pair){v_mul(x.a, v_set(factor)), v_mul(x.b, v_set(factor))};
}

TESS_INLINE pair p_minus(pair x, float amount)
{
    return (pair){v_sub(x.a, v_set(amount)), v_sub(x.b, v_set(amount))};
}

TESS_INLINE pair p_fma(pair x, pair y, pair z)
{
    return (pair){v_fma(x.a, y.a, z.a), v_fma(x.b, y.b, z.b)};
}

TESS_INLINE pair p_round(pair x, tess_dtype dtype)
{
    return dtype == TESS_F32 ? x : (pair){v_round_bf16(x.a), v_round_bf16(x.b)};
}

/* Returns the first n lanes of x, with 0 in the others. */
TESS_INLINE vec v_keep(vec x, int64_t n)
{
    float part[16];
    if (n == 16)
        return x;
    if (n == 0)
        return v_set(0);
    v_store(part, x, 16);
    return v_load(part, n);
}

TESS_INLINE pair p_keep(pair x, int64_t n, tess_dtype dtype)
{
    int64_t in_a = p_lanes(n, dtype);
    return n == TESS_PAIR ? x : (pair){v_keep(x.a, in_a), v_keep(x.b, n - in_a)};
}

/* Returns the sum of 32 partial sums, folded in halves: elements i and i + 16 are added, then those 8, 4, 2 and 1
 * apart. If the lanes hold even and odd elements, the two vectors are added last. */
TESS_INLINE float p_sum(pair x, tess_dtype dtype)
{
    return dtype == TESS_F32 ? v_sum(v_add(x.a, x.b)) : v_sum(x.a) + v_sum(x.b);
}

/* Adds the terms of elements i .. i+n to partial sums, a pair for each sum. */
typedef void (*row_terms)(const void *context, int64_t i, int64_t n, pair *sums);

enum { ROW_MOST_SUMS = 2 };

/* Computes sums of a row in the order that device/elementwise.h states, with two pairs of partial sums for each. */
TESS_INLINE void row_sums(row_terms terms, const void *context, int64_t begin, int64_t end, tess_dtype dtype,
                          int n_sums, float *out)
{
    const pair zero = {v_set(0), v_set(0)};
    pair low[ROW_MOST_SUMS] = {zero, zero}, high[ROW_MOST_SUMS] = {zero, zero};
    int64_t i = begin;
    for (; i + TESS_ROW_LANES <= end; i += TESS_ROW_LANES) {
        terms(context, i, TESS_PAIR, low);
        terms(context, i + TESS_PAIR, TESS_PAIR, high);
    }
    if (i + TESS_PAIR <= end) {
        terms(context, i, TESS_PAIR, low);
        if (i + TESS_PAIR < end)
            terms(context, i + TESS_PAIR, end - i - TESS_PAIR, high);
    } else if (i < end) {
        terms(context, i, end - i, low);
    }
    for (int k = 0; k < n_sums; k++)
        out[k] = p_sum(p_add(low[k], high[k]), dtype);
}

/* row_pairs calls body(context, i, n) for elements begin .. end: once for each whole pair, then for the rest. */
typedef void (*row_body)(const void *context, int64_t i, int64_t n);

TESS_INLINE void row_pairs(row_body body, const void *context, int64_t begin, int64_t end)
{
    int64_t i = begin;
    for (; i + TESS_PAIR <= end; i += TESS_PAIR)
        body(context, i, TESS_PAIR);
    if (i < end)
        body(context, i, end - i);
}

/* Calls body(context, i, n) for elements begin .. end: once for each whole vector, then for the rest. */
TESS_INLINE void row_each(row_body body, const void *context, int64_t begin, int64_t end)
{
    int64_t i = begin;
    for (; i + 16 <= end; i += 16)
        body(context, i, 16);
    if (i < end)
        body(context, i, end - i);
}

#endif
