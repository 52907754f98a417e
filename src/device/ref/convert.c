#include "device/ref/ref_impl.h"

static float get_any(const void *x, int64_t i, tess_dtype dtype)
{
    return dtype == TESS_F16 ? tess_f16_to_float(((const uint16_t *)x)[i]) : ref_get(x, i, dtype);
}

static void put_any(void *y, int64_t i, float value, tess_dtype dtype)
{
    if (dtype == TESS_F16)
        ((uint16_t *)y)[i] = tess_float_to_f16(value);
    else
        ref_put(y, i, value, dtype);
}

static tess_status convert(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, int64_t n)
{
    (void)s;
    TESS_TRY(tess_check_convert(from, to));
    if (from == to) {
        memmove(y, x, (size_t)n * tess_dtype_size(from));
        return TESS_OK;
    }
    for (int64_t i = 0; i < n; i++)
        put_any(y, i, get_any(x, i, from), to);
    return TESS_OK;
}

void tess_ref_convert(tess_kernels *k)
{
    k->convert = convert;
}
