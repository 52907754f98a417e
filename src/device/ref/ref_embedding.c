/* The embedding, the definition: out[t] = table[ids[t]] + positions[pos[t]]; dtable[ids[t]] += dout[t], tokens
 * ascending. */
#include "device/ref/ref_impl.h"

tess_status tess_ref_embedding_forward(TESS_UNUSED tess_stream *s, const tess_embedding_args *a)
{
    TESS_TRY(tess_check_dtype("embedding", a->dtype));
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t i = 0; i < a->C; i++) {
            float value = ref_get(a->table, a->ids[t] * a->C + i, a->dtype);
            if (a->positions != NULL)
                value += ref_get(a->positions, a->pos[t] * a->C + i, a->dtype);
            ref_put(a->out, t * a->C + i, value, a->dtype);
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
            a->dtable[a->ids[t] * a->C + i] += ref_get(a->dout, t * a->C + i, a->dtype);
    return TESS_OK;
}
