/* Rotary position embedding. */
#include "device/cpu/vec_rows.h"

/* Rotates elements i .. i+n of both halves of all heads of the row at `row`. An angle is loaded once for all heads. */
TESS_INLINE void rope_heads(const tess_rope_args *a, int64_t row, int64_t angle, int64_t i, int64_t n, tess_dtype dtype)
{
    int64_t half = a->R / 2;
    pair c = p_get_floats(a->cos_table + angle + i, n, dtype), s = p_get_floats(a->sin_table + angle + i, n, dtype);
    s = p_scale(s, a->inverse ? -1.0f : 1.0f);
    for (int64_t head = row + i; head < row + a->n_heads * a->D; head += a->D) {
        pair x = p_get(a->x, head, n, dtype), y = p_get(a->x, head + half, n, dtype);
        p_put(a->x, head, p_sub(p_mul(x, c), p_mul(y, s)), n, dtype);
        p_put(a->x, head + half, p_add(p_mul(y, c), p_mul(x, s)), n, dtype);
    }
}

/* Rotates pairs i .. i+n of neighbours, 0 < n <= 16. bf16 loads already separate even and odd channels. */
TESS_INLINE void rope_neighbours(const tess_rope_args *a, int64_t row, int64_t angle, int64_t i, int64_t n,
                                 tess_dtype dtype)
{
    vec c = v_load(a->cos_table + angle + i, n), s = v_load(a->sin_table + angle + i, n);
    s = v_mul(s, v_set(a->inverse ? -1.0f : 1.0f));
    for (int64_t at = row + 2 * i; at < row + a->n_heads * a->D; at += a->D) {
        pair x = p_get(a->x, at, 2 * n, dtype), y;
        if (dtype == TESS_F32)
            v_split(x.a, x.b, &x.a, &x.b);
        y.a = v_sub(v_mul(x.a, c), v_mul(x.b, s));
        y.b = v_add(v_mul(x.b, c), v_mul(x.a, s));
        if (dtype == TESS_F32)
            v_join(y.a, y.b, &y.a, &y.b);
        p_put(a->x, at, y, 2 * n, dtype);
    }
}

TESS_INLINE void rope_rows(const tess_rope_args *context, int64_t begin, int64_t end, tess_dtype dtype)
{
    /* This is a copy on the stack, so that the compiler knows that stores do not change it. */
    const tess_rope_args a = *context;
    const int64_t half = a.R / 2;
    for (int64_t t = begin; t < end; t++) {
        int64_t row = t * a.stride + a.first, angle = a.pos[t] * half, i = 0;
        if (a.interleaved) {
            for (; i + 16 <= half; i += 16)
                rope_neighbours(&a, row, angle, i, 16, dtype);
            if (i < half)
                rope_neighbours(&a, row, angle, i, half - i, dtype);
            continue;
        }
        for (; i + TESS_PAIR <= half; i += TESS_PAIR)
            rope_heads(&a, row, angle, i, TESS_PAIR, dtype);
        if (i < half)
            rope_heads(&a, row, angle, i, half - i, dtype);
    }
}

static void rope_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_rope_args *a = context;
    if (a->dtype == TESS_F32)
        rope_rows(a, begin, end, TESS_F32);
    else
        rope_rows(a, begin, end, TESS_BF16);
}

tess_status VEC_NAME(rope)(tess_stream *s, const tess_rope_args *a)
{
    TESS_TRY(tess_check_dtype("rope", a->dtype));
    tess_threads_run(s->threads, rope_loop, (void *)a, a->T, tess_loop_grain(a->n_heads * a->R));
    return TESS_OK;
}
