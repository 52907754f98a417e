/* Conversions among float32, bfloat16 and float16. */
#include "device/cpu/vec_rows.h"

TESS_INLINE void convert_part(const void *context, int64_t i, int64_t n)
{
    const tess_convert_args *c = context;
    v_ahead(c->x, i, c->from);
    v_ahead(c->y, i, c->to);
    v_put(c->y, i, v_get(c->x, i, n, c->from), n, c->to);
}

TESS_INLINE void convert_span(const tess_convert_args *c, int64_t begin, int64_t end, tess_dtype from, tess_dtype to)
{
    tess_convert_args constant = {.x = c->x, .from = from, .y = c->y, .to = to};
    row_each(convert_part, &constant, begin, end);
}

static void convert_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_convert_args *c = context;
    size_t size = tess_dtype_size(c->from);
    if (c->from == c->to)
        memmove((char *)c->y + (size_t)begin * size, (const char *)c->x + (size_t)begin * size,
                (size_t)(end - begin) * size);
    else if (c->from == TESS_F32 && c->to == TESS_BF16)
        convert_span(c, begin, end, TESS_F32, TESS_BF16);
    else if (c->from == TESS_F32)
        convert_span(c, begin, end, TESS_F32, TESS_F16);
    else if (c->from == TESS_BF16 && c->to == TESS_F32)
        convert_span(c, begin, end, TESS_BF16, TESS_F32);
    else if (c->from == TESS_BF16)
        convert_span(c, begin, end, TESS_BF16, TESS_F16);
    else if (c->to == TESS_F32)
        convert_span(c, begin, end, TESS_F16, TESS_F32);
    else
        convert_span(c, begin, end, TESS_F16, TESS_BF16);
}

tess_status VEC_NAME(convert)(tess_stream *s, const tess_convert_args *c)
{
    TESS_TRY(tess_check_convert(c->from, c->to));
    tess_threads_run(s->threads, convert_loop, (void *)c, c->n, tess_loop_grain(0));
    return TESS_OK;
}
