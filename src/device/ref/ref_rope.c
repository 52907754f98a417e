/* Rotary position embedding, the definition. Pair i of a head, (x, y) = (x[i], x[half + i]) or (x[2 i], x[2 i + 1]),
 * becomes (x c - y d, y c + x d), where c and d are the cosine and sine for pos[t] and i. */
#include "device/ref/ref_impl.h"

tess_status tess_ref_rope(TESS_UNUSED tess_stream *s, const tess_rope_args *a)
{
    TESS_TRY(tess_check_dtype("rope", a->dtype));
    int64_t half = a->R / 2;
    for (int64_t t = 0; t < a->T; t++) {
        const float *cosines = a->cos_table + a->pos[t] * half, *sines = a->sin_table + a->pos[t] * half;
        const int64_t begin = t * a->stride + a->first;
        for (int64_t head = begin; head < begin + a->n_heads * a->D; head += a->D) {
            for (int64_t i = 0; i < half; i++) {
                int64_t first = head + (a->interleaved ? 2 * i : i), second = first + (a->interleaved ? 1 : half);
                float x = ref_get(a->x, first, a->dtype), y = ref_get(a->x, second, a->dtype);
                float c = cosines[i], d = a->inverse ? -sines[i] : sines[i];
                ref_put(a->x, first, x * c - y * d, a->dtype);
                ref_put(a->x, second, y * c + x * d, a->dtype);
            }
        }
    }
    return TESS_OK;
}
