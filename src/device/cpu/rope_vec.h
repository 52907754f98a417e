/* Rotary embedding. Compiled once per instruction set, by its table. */
#ifndef TESS_DEVICE_CPU_ROPE_VEC_H
#define TESS_DEVICE_CPU_ROPE_VEC_H

#include "device/cpu/vec_typed.h"

typedef struct rotation {
    void *x;
    int64_t stride, n_heads, D, half;
    const int32_t *pos;
    const float *cos_table, *sin_table;
    bool inverse;
    tess_dtype dtype;
} rotation;

TESS_INLINE void rope_pairs(const rotation *a, int64_t head, int64_t angle, int64_t i, int64_t n, tess_dtype dtype)
{
    vec x = v_get(a->x, head + i, n, dtype), y = v_get(a->x, head + a->half + i, n, dtype);
    vec c = v_load(a->cos_table + angle + i, n), s = v_load(a->sin_table + angle + i, n);
    vec xc = v_mul(x, c), ys = v_mul(y, s), yc = v_mul(y, c), xs = v_mul(x, s);
    v_put(a->x, head + i, a->inverse ? v_add(xc, ys) : v_sub(xc, ys), n, dtype);
    v_put(a->x, head + a->half + i, a->inverse ? v_sub(yc, xs) : v_add(yc, xs), n, dtype);
}

TESS_INLINE void rope_rows(const rotation *a, int64_t begin, int64_t end, tess_dtype dtype)
{
    for (int64_t t = begin; t < end; t++) {
        int64_t angle = a->pos[t] * a->half;
        for (int64_t head = t * a->stride; head < t * a->stride + a->n_heads * a->D; head += a->D) {
            int64_t i = 0;
            for (; i + 16 <= a->half; i += 16)
                rope_pairs(a, head, angle, i, 16, dtype);
            if (i < a->half)
                rope_pairs(a, head, angle, i, a->half - i, dtype);
        }
    }
}

static void rope_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const rotation *a = context;
    (void)worker;
    if (a->dtype == TESS_F32)
        rope_rows(a, begin, end, TESS_F32);
    else
        rope_rows(a, begin, end, TESS_BF16);
}

static tess_status rope(tess_stream *s, void *x, int64_t stride, const int32_t *pos, const float *cos_table,
                        const float *sin_table, int64_t T, int64_t n_heads, int64_t D, int64_t R, bool inverse,
                        tess_dtype dtype)
{
    TESS_TRY(tess_check_dtype("rope", dtype));
    rotation a = {x, stride, n_heads, D, R / 2, pos, cos_table, sin_table, inverse, dtype};
    tess_threads_run(s->threads, rope_loop, &a, T, tess_loop_grain(n_heads * R));
    return TESS_OK;
}

#endif
