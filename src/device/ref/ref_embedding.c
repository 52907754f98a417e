/* The embedding, the definition: out[t] = factor * table[ids[t]] + positions[pos[t]]; dtable[ids[t]] += factor *
 * dout[t], tokens ascending. */
#include <math.h>

#include "device/ref/ref_impl.h"

tess_status tess_ref_embedding_forward(TESS_UNUSED tess_stream *s, const tess_embedding_args *a)
{
    TESS_TRY(tess_check_dtype("embedding", a->dtype));
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t i = 0; i < a->C; i++) {
            float x = ref_get(a->table, a->ids[t] * a->C + i, a->dtype), factor = tess_factor_of(a->factor);
            if (a->positions != NULL)
                x = fmaf(factor, x, ref_get(a->positions, a->pos[t] * a->C + i, a->dtype));
            else
                x *= factor;
            ref_put(a->out, t * a->C + i, x, a->dtype);
        }
    return TESS_OK;
}

tess_status tess_ref_embedding_backward(TESS_UNUSED tess_stream *s, const tess_embedding_grad_args *a)
{
    TESS_TRY(tess_check_dtype("embedding backward", a->dtype));
    for (int64_t i = 0; i < a->rows * a->C && !a->accumulate; i++)
        a->dtable[i] = 0;
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t i = 0; i < a->C; i++)
            a->dtable[a->ids[t] * a->C + i] = fmaf(tess_factor_of(a->factor), ref_get(a->dout, t * a->C + i, a->dtype),
                                                   a->dtable[a->ids[t] * a->C + i]);
    return TESS_OK;
}
