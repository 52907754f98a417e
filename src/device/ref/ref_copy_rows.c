/* Rows that copy bytes or add heads, and the exact sum. Memory or integer arithmetic limits their speed, so all tables
 * of the host use these. */
#include <string.h>

#include "device/bf16.h"
#include "device/elementwise.h"
#include "device/ref/ref_impl.h"
#include "device/stream_impl.h"

static void copy_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_copy_rows_args *a = context;
    for (int64_t i = begin; i < end; i++)
        memcpy((char *)a->y + i * a->y_stride, (const char *)a->x + i * a->x_stride, (size_t)a->row_bytes);
}

tess_status tess_ref_copy_rows(tess_stream *s, const tess_copy_rows_args *a)
{
    tess_threads_run(s->threads, copy_loop, (void *)a, a->n, tess_loop_grain(a->row_bytes));
    return TESS_OK;
}

static void gather_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_gather_rows_args *a = context;
    for (int64_t i = begin; i < end; i++)
        memcpy((char *)a->y + i * a->row_bytes, (const char *)a->x + a->index[i] * a->row_bytes, (size_t)a->row_bytes);
}

tess_status tess_ref_gather_rows(tess_stream *s, const tess_gather_rows_args *a)
{
    tess_threads_run(s->threads, gather_loop, (void *)a, a->n, tess_loop_grain(a->row_bytes));
    return TESS_OK;
}

static void join_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_join_heads_args *a = context;
    const int64_t size = (int64_t)tess_dtype_size(a->dtype), used = a->A + a->B + a->S;
    for (int64_t i = begin; i < end; i++) {
        char *y = (char *)a->y + i * a->D * size;
        memcpy(y, (const char *)a->a + i * a->a_stride * size, (size_t)(a->A * size));
        if (a->B > 0)
            memcpy(y + a->A * size, (const char *)a->b + i * a->b_stride * size, (size_t)(a->B * size));
        if (a->S > 0)
            memcpy(y + (a->A + a->B) * size, (const char *)a->shared + i / a->H * a->S * size, (size_t)(a->S * size));
        memset(y + used * size, 0, (size_t)((a->D - used) * size));
    }
}

tess_status tess_ref_join_heads(tess_stream *s, const tess_join_heads_args *a)
{
    tess_threads_run(s->threads, join_loop, (void *)a, a->T * a->H, tess_loop_grain(a->D));
    return TESS_OK;
}

static void sum_heads_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_sum_heads_args *a = context;
    for (int64_t t = begin; t < end; t++)
        for (int64_t c = 0; c < a->C; c++) {
            float sum = 0;
            for (int64_t h = 0; h < a->H; h++)
                sum += tess_get_float(a->x, a->dtype, (size_t)((t * a->H + h) * a->stride + c));
            tess_put_float(a->y, a->dtype, (size_t)(t * a->C + c), sum);
        }
}

tess_status tess_ref_sum_heads(tess_stream *s, const tess_sum_heads_args *a)
{
    tess_threads_run(s->threads, sum_heads_loop, (void *)a, a->T, tess_loop_grain(a->H * a->C));
    return TESS_OK;
}

static void clip_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_clip_args *a = context;
    for (int64_t i = begin; i < end; i++) {
        const float x = tess_get_float(a->x, a->dtype, (size_t)i);
        float y = x > a->limit ? a->limit : x < -a->limit ? -a->limit : x;
        if (a->dy != NULL)
            y = x >= -a->limit && x <= a->limit ? tess_get_float(a->dy, a->dtype, (size_t)i) : 0;
        tess_put_float(a->y, a->dtype, (size_t)i, y);
    }
}

tess_status tess_ref_clip(tess_stream *s, const tess_clip_args *a)
{
    tess_threads_run(s->threads, clip_loop, (void *)a, a->n, tess_loop_grain(1));
    return TESS_OK;
}

tess_status tess_ref_exact_sum(TESS_UNUSED tess_stream *s, const tess_exact_sum_args *a)
{
    for (int64_t i = 0; i < a->n; i++)
        tess_exact_add(a->sum, a->negate ? -(double)a->x[i] : (double)a->x[i]);
    tess_exact_normalize(a->sum);
    return TESS_OK;
}
