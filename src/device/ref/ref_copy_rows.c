/* Rows that copy bytes, and the exact sum. Memory or integer arithmetic limits their speed, so all tables of the host
 * use these. */
#include <string.h>

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

tess_status tess_ref_exact_sum(TESS_UNUSED tess_stream *s, const tess_exact_sum_args *a)
{
    for (int64_t i = 0; i < a->n; i++)
        tess_exact_add(a->sum, a->negate ? -(double)a->x[i] : (double)a->x[i]);
    tess_exact_normalize(a->sum);
    return TESS_OK;
}
