/* FP8: y = x rounded to the nearest E4M3 or E5M2 number, with a scale for each block of a row; the codes of E4M3
 * numbers and the scales, which all tables take from here. */
#include <math.h>

#include "base/os/threads.h"
#include "device/ref/ref_impl.h"
#include "device/stream_impl.h"

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

tess_status tess_ref_round_fp8(TESS_UNUSED tess_stream *s, const tess_round_fp8_args *a)
{
    TESS_TRY(tess_check_dtype("round_fp8", a->dtype));
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->C; c += TESS_FP8_BLOCK)
            round_block(a, r * a->stride + c, r * a->C + c, a->C - c < TESS_FP8_BLOCK ? a->C - c : TESS_FP8_BLOCK);
    return TESS_OK;
}

/* ---- Codes ---- */
enum { GRAIN = 1 << 14 }; /* elements of a range */

static int64_t block_at(int64_t at, int64_t C)
{
    return C - at < TESS_FP8_BLOCK ? C - at : TESS_FP8_BLOCK;
}

static void encode_rows(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_fp8_encode_args *a = context;
    for (int64_t r = begin; r < end; r++) {
        uint8_t *codes = a->codes + r * a->row_bytes, *scales = codes + a->C;
        for (int64_t at = 0; at < a->C; at += TESS_FP8_BLOCK)
            *scales++ = tess_fp8_encode(a->x + r * a->C + at, block_at(at, a->C), a->dtype == TESS_BF16, codes + at);
    }
}

static void decode_rows(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const tess_fp8_decode_args *a = context;
    for (int64_t r = begin; r < end; r++) {
        const uint8_t *codes = a->codes + r * a->row_bytes, *scales = codes + a->C;
        for (int64_t at = 0; at < a->C; at += TESS_FP8_BLOCK, scales++) {
            const int64_t n = block_at(at, a->C), to = r * a->C + at;
            for (int64_t i = 0; a->dtype == TESS_F32 && i < n; i++)
                ((float *)a->y)[to + i] = tess_fp8_decode(codes[at + i], *scales);
            for (int64_t i = 0; a->dtype == TESS_BF16 && i < n; i++)
                ((uint16_t *)a->y)[to + i] = tess_float_to_bf16(tess_fp8_decode(codes[at + i], *scales));
        }
    }
}

static int64_t rows_of_grain(int64_t C)
{
    return C < GRAIN ? GRAIN / (C + 1) + 1 : 1;
}

tess_status tess_ref_fp8_encode(tess_stream *s, const tess_fp8_encode_args *a)
{
    TESS_TRY(tess_check_dtype("fp8_encode", a->dtype));
    tess_threads_run(s->threads, encode_rows, (void *)(uintptr_t)a, a->rows, rows_of_grain(a->C));
    return TESS_OK;
}

tess_status tess_ref_fp8_decode(tess_stream *s, const tess_fp8_decode_args *a)
{
    TESS_TRY(tess_check_dtype("fp8_decode", a->dtype));
    tess_threads_run(s->threads, decode_rows, (void *)(uintptr_t)a, a->rows, rows_of_grain(a->C));
    return TESS_OK;
}
