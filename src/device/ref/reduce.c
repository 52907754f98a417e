/* Sums: of two tensors, of columns, of the same element of many inputs, of a row's squares. */
#include "device/ref/ref_impl.h"

static tess_status add(tess_stream *s, const void *a, const void *b, void *y, int64_t n, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("add", dtype));
    for (int64_t i = 0; i < n; i++)
        ref_put(y, i, ref_get(a, i, dtype) + ref_get(b, i, dtype), dtype);
    return TESS_OK;
}

static tess_status column_sum(tess_stream *s, const void *dy, int64_t stride, float *db, int64_t T, int64_t C,
                              tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("column_sum", dtype));
    for (int64_t c = 0; c < C; c++) {
        float sum = 0;
        for (int64_t begin = 0; begin < T; begin += TESS_NORM_BLOCK) {
            float block = 0;
            for (int64_t t = begin; t < T && t < begin + TESS_NORM_BLOCK; t++)
                block += ref_get(dy, t * stride + c, dtype);
            sum += block;
        }
        db[c] = sum;
    }
    return TESS_OK;
}

/* Inputs begin .. begin+n of the tree: the left half is the largest power of two below n, which is what adding
 * neighbours and carrying up an odd one comes to. */
static float tree(const void *const *x, int begin, int n, int64_t i, tess_dtype dtype)
{
    if (n == 1)
        return ref_get(x[begin], i, dtype);
    int left = 1;
    while (left * 2 < n)
        left *= 2;
    return tree(x, begin, left, i, dtype) + tree(x, begin + left, n - left, i, dtype);
}

static tess_status reduce_tree(tess_stream *s, const void *const *x, int n_inputs, tess_dtype dtype, float *y,
                               int64_t n, bool accumulate)
{
    (void)s;
    TESS_TRY(tess_check_dtype("reduce_tree", dtype));
    for (int64_t i = 0; i < n; i++) {
        float sum = n_inputs > 0 ? tree(x, 0, n_inputs, i, dtype) : 0.0f;
        y[i] = accumulate ? sum + y[i] : sum;
    }
    return TESS_OK;
}

static tess_status row_sumsq(tess_stream *s, const float *x, double *out, int64_t rows, int64_t C)
{
    (void)s;
    for (int64_t r = 0; r < rows; r++) {
        double lane[16] = {0};
        for (int64_t i = 0; i < C; i++)
            lane[i % 16] += (double)x[r * C + i] * (double)x[r * C + i];
        for (int width = 8; width > 0; width /= 2)
            for (int i = 0; i < width; i++)
                lane[i] += lane[i + width];
        out[r] = lane[0];
    }
    return TESS_OK;
}

void tess_ref_reduce(tess_kernels *k)
{
    k->add = add;
    k->column_sum = column_sum;
    k->reduce_tree = reduce_tree;
    k->row_sumsq = row_sumsq;
}
