/* Rotary position embedding, the definition. For each i below half a head, (a, b) = (x[i], x[half + i]) becomes (a c -
 * b d, b c + a d), where c and d are the cosine and sine for pos[t] and i. */
#include "device/ref/ref_impl.h"

static tess_status rope(tess_stream *s, void *x, int64_t stride, const int32_t *pos, const float *cos_table,
                        const float *sin_table, int64_t T, int64_t n_heads, int64_t D, int64_t R, bool inverse,
                        tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("rope", dtype));
    int64_t half = R / 2;
    for (int64_t t = 0; t < T; t++) {
        const float *cosines = cos_table + pos[t] * half, *sines = sin_table + pos[t] * half;
        for (int64_t head = t * stride; head < t * stride + n_heads * D; head += D) {
            for (int64_t i = 0; i < half; i++) {
                float a = ref_get(x, head + i, dtype), b = ref_get(x, head + half + i, dtype);
                float c = cosines[i], d = inverse ? -sines[i] : sines[i];
                ref_put(x, head + i, a * c - b * d, dtype);
                ref_put(x, head + half + i, b * c + a * d, dtype);
            }
        }
    }
    return TESS_OK;
}

void tess_ref_rope(tess_kernels *k)
{
    k->rope = rope;
}
