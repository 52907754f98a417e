/* Loads and stores of `vec` by dtype, and sums along a row (include a header of vectors first). `dtype` and `n` are
 * meant to be constants after inlining: callers branch on them once, outside their loops. */
#ifndef TESS_DEVICE_CPU_VEC_TYPED_H
#define TESS_DEVICE_CPU_VEC_TYPED_H

#include "device/bf16.h"
#include "device/elementwise.h"
#include "device/stream.h"

#define TESS_INLINE static inline __attribute__((always_inline))

/* Elements i .. i+n of x, 0 < n <= 16; absent lanes are 0. */
TESS_INLINE vec v_get(const void *x, int64_t i, int64_t n, tess_dtype dtype)
{
    if (dtype == TESS_F32)
        return v_load((const float *)x + i, n);
    if (dtype == TESS_BF16)
        return v_load_bf16((const uint16_t *)x + i, n);
    return v_load_f16((const uint16_t *)x + i, n);
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

TESS_INLINE vec v_round(vec value, tess_dtype dtype)
{
    return dtype == TESS_F32 ? value : v_round_bf16(value);
}

/* The first n lanes of a, 0 in the others. */
TESS_INLINE vec v_keep(vec a, int64_t n)
{
    float part[16];
    if (n == 16)
        return a;
    v_store(part, a, 16);
    return v_load(part, n);
}

/* Adds the terms of elements i .. i+n to the partial sums. */
typedef vec (*row_term)(const void *context, int64_t i, int64_t n, vec sum);

/* The sum of a row in the order that device/elementwise.h states: four vectors of partial sums. */
TESS_INLINE float row_sum(row_term term, const void *context, int64_t begin, int64_t end)
{
    vec sum[4] = {v_set(0), v_set(0), v_set(0), v_set(0)};
    int64_t i = begin;
    for (; i + TESS_ROW_LANES <= end; i += TESS_ROW_LANES) {
        sum[0] = term(context, i, 16, sum[0]);
        sum[1] = term(context, i + 16, 16, sum[1]);
        sum[2] = term(context, i + 32, 16, sum[2]);
        sum[3] = term(context, i + 48, 16, sum[3]);
    }
    for (int k = 0; i < end; i += 16, k++)
        sum[k] = i + 16 <= end ? term(context, i, 16, sum[k]) : term(context, i, end - i, sum[k]);
    return v_sum(v_add(v_add(sum[0], sum[2]), v_add(sum[1], sum[3])));
}

/* body(context, i, n) over the elements begin .. end: whole vectors, then the rest. */
typedef void (*row_body)(const void *context, int64_t i, int64_t n);

TESS_INLINE void row_each(row_body body, const void *context, int64_t begin, int64_t end)
{
    int64_t i = begin;
    for (; i + 16 <= end; i += 16)
        body(context, i, 16);
    if (i < end)
        body(context, i, end - i);
}

#endif
