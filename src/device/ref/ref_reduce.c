/* Sums, the definition: of two tensors, of columns, of the same element of many inputs, and of the squares of a row. */
#include <math.h>

#include "device/ref/ref_impl.h"
#include "device/ref/vec_ref.h"
#include "device/vmath.h"

tess_status tess_ref_add(TESS_UNUSED tess_stream *s, const tess_add_args *a)
{
    TESS_TRY(tess_check_dtype("add", a->dtype));
    for (int64_t i = 0; i < a->n; i++)
        ref_put(a->y, i, fmaf(tess_factor_of(a->factor), ref_get(a->a, i, a->dtype), ref_get(a->b, i, a->dtype)),
                a->dtype);
    return TESS_OK;
}

static float soft_capped(float x, float soft_cap)
{
    return soft_cap != 0 ? v_soft_cap(x, soft_cap, 1 / soft_cap) : x;
}

tess_status tess_ref_scale(TESS_UNUSED tess_stream *s, const tess_scale_args *a)
{
    TESS_TRY(tess_check_dtype("scale", a->dtype));
    for (int64_t i = 0; i < a->n; i++)
        ref_put(a->y, i, soft_capped(a->factor * ref_get(a->x, i, a->dtype), a->soft_cap), a->dtype);
    return TESS_OK;
}

tess_status tess_ref_column_sum(TESS_UNUSED tess_stream *s, const tess_column_sum_args *a)
{
    TESS_TRY(tess_check_dtype("column_sum", a->dtype));
    for (int64_t c = 0; c < a->C; c++) {
        float sum = 0;
        for (int64_t begin = 0; begin < a->T; begin += TESS_NORM_BLOCK) {
            float block = 0;
            for (int64_t t = begin; t < a->T && t < begin + TESS_NORM_BLOCK; t++)
                block += ref_get(a->dy, t * a->stride + c, a->dtype);
            sum += block;
        }
        a->db[c] = sum;
    }
    return TESS_OK;
}

/* Returns the tree of inputs begin .. begin+n. Its left half is the largest power of two below n. That is the same as
 * adding neighbours and carrying an unpaired node up. */
static float tree(const tess_reduction *r, int begin, int n, size_t i)
{
    if (n == 1)
        return tess_get_float(r->x[begin], r->dtype, i);
    int left = 1;
    while (left * 2 < n)
        left *= 2;
    return tree(r, begin, left, i) + tree(r, begin + left, n - left, i);
}

static float sum_float(const tess_reduction *r, size_t i)
{
    float sum = r->n_inputs > 0 ? tree(r, 0, r->n_inputs, i) : 0.0f;
    if (r->divisor != 1)
        sum /= (float)r->divisor;
    return r->accumulate ? sum + ((const float *)r->y[0])[i] : sum;
}

static float extreme_float(const tess_reduction *r, size_t i)
{
    float best = tess_get_float(r->x[0], r->dtype, i);
    for (int k = 1; k < r->n_inputs; k++) {
        float next = tess_get_float(r->x[k], r->dtype, i);
        bool stays = r->op == TESS_MAX ? best > next : best < next;
        best = stays || isnan(best) ? best : next;
    }
    return best;
}

static int64_t get_integer(const void *x, tess_dtype dtype, size_t i)
{
    return dtype == TESS_I64   ? ((const int64_t *)x)[i]
           : dtype == TESS_I32 ? ((const int32_t *)x)[i]
                               : ((const uint8_t *)x)[i];
}

static void put_integer(void *y, tess_dtype dtype, size_t i, int64_t value)
{
    if (dtype == TESS_I64)
        ((int64_t *)y)[i] = value;
    else if (dtype == TESS_I32)
        ((int32_t *)y)[i] = (int32_t)(uint32_t)(uint64_t)value;
    else
        ((uint8_t *)y)[i] = (uint8_t)(uint64_t)value;
}

static int64_t fold_integer(const tess_reduction *r, size_t i)
{
    int64_t total = r->n_inputs > 0 ? get_integer(r->x[0], r->dtype, i) : 0;
    for (int k = 1; k < r->n_inputs; k++) {
        int64_t next = get_integer(r->x[k], r->dtype, i);
        if (r->op == TESS_MAX)
            total = total > next ? total : next;
        else if (r->op == TESS_MIN)
            total = total < next ? total : next;
        else
            total = (int64_t)((uint64_t)total + (uint64_t)next);
    }
    return r->divisor != 1 ? total / r->divisor : total;
}

tess_status tess_ref_reduce(TESS_UNUSED tess_stream *s, const tess_reduction *r)
{
    bool is_float = tess_reduces_floats(r), is_sum = r->op == TESS_SUM || r->op == TESS_AVG, all_finite = true;
    TESS_TRY(tess_check_reduction(r));
    for (size_t i = 0; i < (size_t)r->n; i++) {
        float value = !is_float ? 0 : is_sum ? sum_float(r, i) : extreme_float(r, i);
        int64_t integer = is_float ? 0 : fold_integer(r, i);
        all_finite = all_finite && isfinite(value);
        for (int k = 0; k < r->n_outputs; k++) {
            if (is_float)
                tess_put_float(r->y[k], r->y_dtype, i, value);
            else
                put_integer(r->y[k], r->y_dtype, i, integer);
        }
    }
    if (r->finite != NULL && is_sum && !all_finite)
        *r->finite = false;
    return TESS_OK;
}

/* `streams` needs no further steps: other threads see an ordinary store. */
tess_status tess_ref_copy(TESS_UNUSED tess_stream *s, const tess_copy_args *a)
{
    memcpy(a->to, a->from, (size_t)a->bytes);
    return TESS_OK;
}

tess_status tess_ref_row_sumsq(TESS_UNUSED tess_stream *s, const tess_row_sumsq_args *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->x + r * a->C;
        double lane[16] = {0};
        for (int64_t i = 0; i < a->C; i++)
            lane[i % 16] += (double)x[i] * (double)x[i];
        for (int width = 8; width > 0; width /= 2)
            for (int i = 0; i < width; i++)
                lane[i] += lane[i + width];
        a->out[r] = lane[0];
    }
    return TESS_OK;
}
