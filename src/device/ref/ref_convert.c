/* Converts values to another dtype, rounded to nearest even. */
#include "device/ref/ref_impl.h"

static tess_status convert(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, int64_t n)
{
    (void)s;
    TESS_TRY(tess_check_convert(from, to));
    if (from == to) {
        memmove(y, x, (size_t)n * tess_dtype_size(from));
        return TESS_OK;
    }
    for (int64_t i = 0; i < n; i++)
        tess_put_float(y, to, (size_t)i, tess_get_float(x, from, (size_t)i));
    return TESS_OK;
}

void tess_ref_convert(tess_kernels *k)
{
    k->convert = convert;
}
