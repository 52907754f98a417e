/* FP8: y = x rounded to the nearest E4M3 or E5M2 number, with a scale for each block of a row. */
#include <math.h>

#include "device/ref/ref_impl.h"

/* Rounds n elements of a block, from element `at` of x to element `to` of y. */
static void round_block(const tess_round_fp8_args *a, int64_t at, int64_t to, int64_t n)
{
    float most = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        float magnitude = fabsf(ref_get(a->x, at + i, a->dtype));
        finite &= isfinite(magnitude);
        most = magnitude > most ? magnitude : most;
    }
    float scale = tess_fp8_scale(most, a->format);
    for (int64_t i = 0; i < n; i++) {
        float value = ref_get(a->x, at + i, a->dtype);
        ref_put(a->y, to + i, finite ? tess_round_fp8(value, scale, a->format) : value, a->dtype);
    }
}

static tess_status round_fp8(tess_stream *s, const tess_round_fp8_args *a)
{
    (void)s;
    TESS_TRY(tess_check_dtype("round_fp8", a->dtype));
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->C; c += TESS_FP8_BLOCK)
            round_block(a, r * a->stride + c, r * a->C + c, a->C - c < TESS_FP8_BLOCK ? a->C - c : TESS_FP8_BLOCK);
    return TESS_OK;
}

void tess_ref_fp8(tess_kernels *k)
{
    k->round_fp8 = round_fp8;
}
