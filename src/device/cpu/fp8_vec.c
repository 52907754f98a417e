/* Rounds values through fp8, with a scale for each block of a row. */
#include "device/cpu/vec_rows.h"
#include "device/fp8.h"

TESS_INLINE vec fp8_magnitude(vec x)
{
    return v_from_bits(v_iand(v_bits(x), v_iset(0x7fffffff)));
}

/* Rounds a number of at most the largest code to the nearest code. It adds a number so large that the sum's last bit is
 * the code's last bit. Below the smallest normal code that bit is the smallest subnormal code. */
TESS_INLINE vec fp8_nearest(vec x, tess_fp8 format)
{
    const int32_t mantissa = format == TESS_E4M3 ? 3 : 2, bias = format == TESS_E4M3 ? 7 : 15;
    ivec bits = v_bits(x), power = v_imax(v_iand(bits, v_iset(0x7f800000)), v_iset((127 + 1 - bias) << 23));
    vec large = v_from_bits(v_iadd(power, v_iset((23 - mantissa) << 23)));
    ivec nearest = v_bits(v_sub(v_add(fp8_magnitude(x), large), large));
    return v_from_bits(v_ior(nearest, v_iand(bits, v_iset(INT32_MIN))));
}

/* Rounds n elements (0 < n <= TESS_FP8_BLOCK) from element `at` of x to element `to` of y. */
TESS_INLINE void fp8_block(const tess_round_fp8_args *c, int64_t at, int64_t to, int64_t n, tess_fp8 format,
                           tess_dtype dtype)
{
    vec part[TESS_FP8_BLOCK / 16], most = v_set(0), none = v_set(0); /* none: NaN if some element is not finite */
    for (int64_t i = 0; i < n; i += 16) {
        vec x = part[i / 16] = v_get(c->x, at + i, n - i < 16 ? n - i : 16, dtype);
        most = v_max(fp8_magnitude(x), most);
        none = v_add(none, v_sub(x, x));
    }
    const bool finite = v_sum(none) == 0;
    const float scale = tess_fp8_scale(v_largest(most), format);
    for (int64_t i = 0; i < n; i += 16) {
        vec x = part[i / 16], rounded = v_mul(fp8_nearest(v_mul(x, v_set(1 / scale)), format), v_set(scale));
        v_put(c->y, to + i, finite ? rounded : x, n - i < 16 ? n - i : 16, dtype);
    }
}

TESS_INLINE void fp8_rows(const tess_round_fp8_args *c, int64_t begin, int64_t end, tess_fp8 format, tess_dtype dtype)
{
    for (int64_t r = begin; r < end; r++) {
        int64_t i = 0, at = r * c->stride, to = r * c->C;
        for (; i + TESS_FP8_BLOCK <= c->C; i += TESS_FP8_BLOCK)
            fp8_block(c, at + i, to + i, TESS_FP8_BLOCK, format, dtype);
        if (i < c->C)
            fp8_block(c, at + i, to + i, c->C - i, format, dtype);
    }
}

static void fp8_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_round_fp8_args *c = context;
    if (c->format == TESS_E4M3 && c->dtype == TESS_F32)
        fp8_rows(c, begin, end, TESS_E4M3, TESS_F32);
    else if (c->format == TESS_E4M3)
        fp8_rows(c, begin, end, TESS_E4M3, TESS_BF16);
    else if (c->dtype == TESS_F32)
        fp8_rows(c, begin, end, TESS_E5M2, TESS_F32);
    else
        fp8_rows(c, begin, end, TESS_E5M2, TESS_BF16);
}

tess_status VEC_NAME(round_fp8)(tess_stream *s, const tess_round_fp8_args *c)
{
    TESS_TRY(tess_check_dtype("round_fp8", c->dtype));
    tess_threads_run(s->threads, fp8_loop, (void *)c, c->rows, tess_loop_grain(c->C));
    return TESS_OK;
}
