#include "device/fp8_rows.h"

#include <math.h>
#include <string.h>

#include "device/fp8.h"

/* GRAIN: elements of a range; NOT_FINITE: the exponent of a block that has no scale */
enum { GRAIN = 1 << 14, NOT_FINITE = 255 };

typedef struct coding {
    const float *x; /* input of encode */
    uint8_t *codes;
    void *y; /* output of decode */
    int64_t C;
    size_t row_bytes;
    tess_dtype dtype;
} coding;

size_t tess_fp8_row_bytes(int64_t C)
{
    return (size_t)C + (size_t)((C + TESS_FP8_BLOCK - 1) / TESS_FP8_BLOCK);
}

/* Returns the number of elements of the block that begins at element `at`. */
static size_t block_at(const coding *c, int64_t at)
{
    return c->C - at < TESS_FP8_BLOCK ? (size_t)(c->C - at) : TESS_FP8_BLOCK;
}

static uint8_t encode_block(const float *x, size_t n, tess_dtype dtype, uint8_t *codes)
{
    float value[TESS_FP8_BLOCK], most = 0;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        value[i] = dtype == TESS_BF16 ? tess_bf16_to_float(tess_float_to_bf16(x[i])) : x[i];
        finite = finite && isfinite(value[i]);
        most = fmaxf(most, fabsf(value[i]));
    }
    memset(codes, 0, n);
    if (!finite)
        return NOT_FINITE;
    float scale = tess_fp8_scale(most, TESS_E4M3);
    for (size_t i = 0; i < n; i++)
        codes[i] = tess_float_to_fp8(value[i] * (1 / scale), TESS_E4M3);
    return (uint8_t)(tess_float_bits(scale) >> 23);
}

/* The lower bits of a code, as the upper bits of a float32, are the value times 2^-120, even if it is subnormal.
 * NOT_FINITE is the exponent of infinity, and zero times infinity is NaN. */
static void decode_block(const uint8_t *codes, uint8_t exponent, size_t n, float *y)
{
    float scale = tess_bits_float((uint32_t)exponent << 23);
    for (size_t i = 0; i < n; i++) {
        uint32_t sign = (uint32_t)(codes[i] & 0x80u) << 24, magnitude = (uint32_t)(codes[i] & 0x7fu) << 20;
        y[i] = tess_bits_float(sign | magnitude) * 0x1p120f * scale;
    }
}

static void encode_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const coding *c = context;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        uint8_t *codes = c->codes + (size_t)r * c->row_bytes, *scales = codes + c->C;
        for (int64_t at = 0; at < c->C; at += TESS_FP8_BLOCK) {
            size_t n = block_at(c, at);
            *scales++ = encode_block(c->x + r * c->C + at, n, c->dtype, codes + at);
        }
    }
}

static void decode_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const coding *c = context;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const uint8_t *codes = c->codes + (size_t)r * c->row_bytes, *scales = codes + c->C;
        for (int64_t at = 0; at < c->C; at += TESS_FP8_BLOCK) {
            float value[TESS_FP8_BLOCK];
            size_t n = block_at(c, at);
            decode_block(codes + at, *scales++, n, value);
            if (c->dtype == TESS_F32)
                memcpy((float *)c->y + r * c->C + at, value, n * sizeof(float));
            for (size_t i = 0; c->dtype == TESS_BF16 && i < n; i++)
                ((uint16_t *)c->y)[r * c->C + at + (int64_t)i] = tess_float_to_bf16(value[i]);
        }
    }
}

static void run(tess_stream *stream, tess_loop_fn fn, coding *c, int64_t rows)
{
    c->row_bytes = tess_fp8_row_bytes(c->C);
    tess_threads_run(tess_stream_threads(stream), fn, c, rows, c->C < GRAIN ? GRAIN / (c->C + 1) + 1 : 1);
}

void tess_fp8_encode_rows(tess_stream *stream, const float *x, int64_t rows, int64_t C, tess_dtype dtype, uint8_t *to)
{
    coding c = {.x = x, .codes = to, .C = C, .dtype = dtype};
    run(stream, encode_rows, &c, rows);
}

void tess_fp8_decode_rows(tess_stream *stream, const uint8_t *from, int64_t rows, int64_t C, tess_dtype dtype, void *y)
{
    coding c = {.codes = (uint8_t *)(uintptr_t)from, .y = y, .C = C, .dtype = dtype};
    run(stream, decode_rows, &c, rows);
}
