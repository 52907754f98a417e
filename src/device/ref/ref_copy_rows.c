/* Rows that copy bytes, and the exact sum. Memory or integer arithmetic limits their speed, so all tables of the host
 * use these. */
#include <string.h>

#include "device/ref/ref_impl.h"
#include "device/stream_impl.h"

/* A copy of rows: row i of y is row index[i] of x, or row i if index is NULL. */
typedef struct row_copies {
    const char *x;
    char *y;
    size_t x_stride, y_stride, row_bytes;
    const int32_t *index;
} row_copies;

static void copy_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const row_copies *c = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        memcpy(c->y + (size_t)i * c->y_stride, c->x + (size_t)(c->index != NULL ? c->index[i] : i) * c->x_stride,
               c->row_bytes);
}

static tess_status copy_rows(tess_stream *s, const void *x, size_t x_stride, void *y, size_t y_stride, int64_t n,
                             size_t row_bytes)
{
    row_copies c = {x, y, x_stride, y_stride, row_bytes, NULL};
    tess_threads_run(s->threads, copy_loop, &c, n, tess_loop_grain((int64_t)row_bytes));
    return TESS_OK;
}

static tess_status gather_rows(tess_stream *s, const void *x, const int32_t *index, void *y, int64_t n,
                               size_t row_bytes)
{
    row_copies c = {x, y, row_bytes, row_bytes, row_bytes, index};
    tess_threads_run(s->threads, copy_loop, &c, n, tess_loop_grain((int64_t)row_bytes));
    return TESS_OK;
}

static tess_status exact_sum(tess_stream *s, const float *x, int64_t n, bool negate, tess_exact_sum *sum)
{
    (void)s;
    for (int64_t i = 0; i < n; i++)
        tess_exact_add(sum, negate ? -(double)x[i] : (double)x[i]);
    tess_exact_normalize(sum);
    return TESS_OK;
}

void tess_ref_copy_rows(tess_kernels *k)
{
    k->copy_rows = copy_rows;
    k->gather_rows = gather_rows;
    k->exact_sum = exact_sum;
}
