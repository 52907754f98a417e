/* Converts values to another dtype, rounded to nearest even. */
#include "device/ref/ref_impl.h"

tess_status tess_ref_convert(TESS_UNUSED tess_stream *s, const tess_convert_args *a)
{
    TESS_TRY(tess_check_convert(a->from, a->to));
    if (a->from == a->to) {
        memmove(a->y, a->x, (size_t)a->n * tess_dtype_size(a->from));
        return TESS_OK;
    }
    for (int64_t i = 0; i < a->n; i++)
        tess_put_float(a->y, a->to, (size_t)i, tess_get_float(a->x, a->from, (size_t)i));
    return TESS_OK;
}
