/* FP8: y = x rounded to the nearest E4M3 or E5M2 number, with a scale for each block of a row. */
#include <math.h>

#include "device/ref/ref_impl.h"

static void round_block(const void *x, int64_t at, void *y, int64_t to, int64_t n, tess_fp8 format, tess_dtype dtype)
{
    float most = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        float magnitude = fabsf(ref_get(x, at + i, dtype));
        finite &= isfinite(magnitude);
        most = magnitude > most ? magnitude : most;
    }
    float scale = tess_fp8_scale(most, format);
    for (int64_t i = 0; i < n; i++) {
        float value = ref_get(x, at + i, dtype);
        ref_put(y, to + i, finite ? tess_round_fp8(value, scale, format) : value, dtype);
    }
}

static tess_status round_fp8(tess_stream *s, const void *x, int64_t stride, void *y, int64_t rows, int64_t C,
                             tess_fp8 format, tess_dtype dtype)
{
    (void)s;
    TESS_TRY(tess_check_dtype("round_fp8", dtype));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < C; c += TESS_FP8_BLOCK)
            round_block(x, r * stride + c, y, r * C + c, C - c < TESS_FP8_BLOCK ? C - c : TESS_FP8_BLOCK, format,
                        dtype);
    return TESS_OK;
}

void tess_ref_fp8(tess_kernels *k)
{
    k->round_fp8 = round_fp8;
}
