/* The embedding, the definition: out[t] = table[ids[t]] + positions[pos[t]]; dtable[ids[t]] += dout[t], tokens
 * ascending. */
#include "device/ref/ref_impl.h"

static tess_status embedding_forward(tess_stream *s, const void *table, const void *positions, const int32_t *ids,
                                     const int32_t *pos, void *out, int64_t T, int64_t C, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("embedding", dtype));
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < C; i++) {
            float value = ref_get(table, ids[t] * C + i, dtype);
            if (positions != NULL)
                value += ref_get(positions, pos[t] * C + i, dtype);
            ref_put(out, t * C + i, value, dtype);
        }
    return TESS_OK;
}

static tess_status embedding_backward(tess_stream *s, const int32_t *ids, const void *dout, float *dtable, int64_t rows,
                                      int64_t T, int64_t C, bool accumulate, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("embedding backward", dtype));
    for (int64_t i = 0; i < rows * C && !accumulate; i++)
        dtable[i] = 0;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < C; i++)
            dtable[ids[t] * C + i] += ref_get(dout, t * C + i, dtype);
    return TESS_OK;
}

void tess_ref_embedding(tess_kernels *k)
{
    k->embedding_forward = embedding_forward;
    k->embedding_backward = embedding_backward;
}
