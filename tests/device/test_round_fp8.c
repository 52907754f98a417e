/* Rounding through fp8 in blocks: against float64 with no cast in it, and what each row and block is to the others. */
#include <float.h>

#include "device/fp8_rows.h"
#include "elementwise_test.h"

static const tess_fp8 formats[] = {TESS_E4M3, TESS_E5M2};

/* The nearest number with `mantissa` bits behind the first, to even, in multiples of the smallest subnormal one. */
static double nearest(double x, int mantissa, int least)
{
    int exponent;
    frexp(x, &exponent);
    exponent = exponent - 1 > least ? exponent - 1 : least;
    return ldexp(nearbyint(ldexp(x, mantissa - exponent)), exponent - mantissa);
}

static void expect_block(const void *x, const void *y, int64_t at, int64_t to, int64_t n, tess_fp8 format,
                         tess_dtype dtype)
{
    const bool e4m3 = format == TESS_E4M3;
    int scale = -110;
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(value_at(x, at + i, dtype)));
    while (ldexp(most, -scale) > (e4m3 ? 448 : 57344))
        scale++;
    for (int64_t i = 0; i < n; i++) {
        double value = ldexp(value_at(x, at + i, dtype), -scale);
        double want = ldexp(nearest(value, e4m3 ? 3 : 2, e4m3 ? -6 : -14), scale), got = value_at(y, to + i, dtype);
        if (got < want || got > want || signbit(got) != signbit(want))
            test_fail(__FILE__, __LINE__, "element %lld: %.9g is %.9g, expected %.9g (scale 2^%d)", (long long)(at + i),
                      value_at(x, at + i, dtype), got, want, scale);
    }
}

/* Magnitudes over some 60 powers of two, and signs of zero. */
static void *wide_array(int64_t n, tess_dtype dtype)
{
    void *x = new_array(n, tess_dtype_size(dtype));
    for (int64_t i = 0; i < n; i++) {
        uint64_t random = tess_rng_u64(7, TESS_RNG_TEST, 2, (uint64_t)i);
        double value = tess_rng_normal(7, TESS_RNG_TEST, 3, (uint64_t)i);
        put_value(x, i, random % 11 == 0 ? copysign(0, value) : ldexp(value, (int)(random >> 8 & 63) % 61 - 40), dtype);
    }
    return x;
}

static void blocks_have_the_nearest_codes_of_their_scale_on_any_level(void)
{
    const int64_t sizes[] = {0, 1, 15, 17, 127, 128, 129, 300};
    enum { ROWS = 5, AHEAD = 7 };
    for (size_t i = 0; i < COUNT(sizes) * 4; i++) {
        tess_dtype dtype = both_dtypes[i % 2];
        tess_fp8 format = formats[i / 2 % 2];
        int64_t C = sizes[i / 4], stride = C + AHEAD;
        void *x = wide_array(ROWS * stride, dtype), *want = blank_array(ROWS * C, dtype);
        tess_stream *s = open_variant(0);
        EXPECT_OK(tess_stream_kernels(s)->round_fp8(
            s, &(tess_round_fp8_args){
                   .x = x, .stride = stride, .y = want, .rows = ROWS, .C = C, .format = format, .dtype = dtype}));
        tess_stream_destroy(&s);
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t c = 0; c < C; c += 128)
                expect_block(x, want, r * stride + c, r * C + c, C - c < 128 ? C - c : 128, format, dtype);
        for (size_t v = 1; v < COUNT(variants); v++) {
            if ((s = open_variant(v)) == NULL)
                continue;
            void *y = blank_array(ROWS * C, dtype);
            EXPECT_OK(tess_stream_kernels(s)->round_fp8(
                s, &(tess_round_fp8_args){
                       .x = x, .stride = stride, .y = y, .rows = ROWS, .C = C, .format = format, .dtype = dtype}));
            expect_bits("rounded", v, y, want, ROWS * C, dtype);
            free(y);
            tess_stream_destroy(&s);
        }
        free(want);
        free(x);
    }
}

/* Blocks of two: the ends of float32, where a scale changes, and what is not finite. */
static void the_ends_of_the_range_and_what_is_not_finite(void)
{
    const float pairs[][2] = {{FLT_MAX, 1},        {448, 0x1p-10f},         {449, 0x1p-10f},        {57344, -0x1p-17f},
                              {57345, 0x1.8p-16f}, {0x1p-149f, -0x1p-126f}, {0x1p-111f, 0x1p-120f}, {0, -0.0f}};
    const float strange[][2] = {{INFINITY, 1.1f}, {NAN, -1.1f}, {-INFINITY, NAN}};
    for (size_t v = 0; v < 2 * COUNT(variants); v++) {
        tess_stream *s = open_variant(v / 2);
        if (s == NULL)
            continue;
        float y[2];
        for (size_t i = 0; i < COUNT(pairs); i++) {
            EXPECT_OK(tess_stream_kernels(s)->round_fp8(s, &(tess_round_fp8_args){.x = pairs[i],
                                                                                  .stride = 2,
                                                                                  .y = y,
                                                                                  .rows = 1,
                                                                                  .C = 2,
                                                                                  .format = formats[v % 2],
                                                                                  .dtype = TESS_F32}));
            if (i > 0)
                expect_block(pairs[i], y, 0, 0, 2, formats[v % 2], TESS_F32);
            else
                EXPECT(isinf(y[0]) && y[1] == 0); /* the nearest code times its scale is 2^128 */
        }
        for (size_t i = 0; i < COUNT(strange); i++) {
            EXPECT_OK(tess_stream_kernels(s)->round_fp8(s, &(tess_round_fp8_args){.x = strange[i],
                                                                                  .stride = 2,
                                                                                  .y = y,
                                                                                  .rows = 1,
                                                                                  .C = 2,
                                                                                  .format = formats[v % 2],
                                                                                  .dtype = TESS_F32}));
            EXPECT_SAME(y, strange[i], 2);
        }
        EXPECT_FAILS(tess_stream_kernels(s)->round_fp8(
                         s,
                         &(tess_round_fp8_args){
                             .x = y, .stride = 2, .y = y, .rows = 1, .C = 2, .format = TESS_E4M3, .dtype = TESS_F16}),
                     TESS_E_UNSUPPORTED, "float16");
        tess_stream_destroy(&s);
    }
}

static void codes_of_rows_are_what_rounding_gives(void)
{
    const int64_t sizes[] = {0, 1, 127, 128, 129, 300};
    enum { ROWS = 5 };
    for (size_t i = 0; i < COUNT(sizes) * 2; i++) {
        tess_dtype dtype = both_dtypes[i % 2];
        int64_t C = sizes[i / 2];
        tess_stream *s = open_variant(i % 4 == 0 ? 1 : 0);
        if (s == NULL)
            continue;
        float *wide = wide_array(ROWS * C, TESS_F32);
        void *x = blank_array(ROWS * C, dtype), *want = blank_array(ROWS * C, dtype), *y = blank_array(ROWS * C, dtype);
        uint8_t *codes = new_array(ROWS * tess_fp8_row_bytes(C) + 1, 1);
        for (int64_t k = 0; k < ROWS * C; k++)
            put_value(x, k, (double)wide[k], dtype);
        EXPECT_OK(tess_stream_kernels(s)->round_fp8(
            s, &(tess_round_fp8_args){
                   .x = x, .stride = C, .y = want, .rows = ROWS, .C = C, .format = TESS_E4M3, .dtype = dtype}));
        EXPECT_OK(tess_fp8_encode_rows(s, wide, ROWS, C, dtype, codes));
        EXPECT_OK(tess_fp8_decode_rows(s, codes, ROWS, C, dtype, y));
        expect_bits("codes", 0, y, want, ROWS * C, dtype);
        tess_stream_destroy(&s);
        free(codes);
        free(wide);
        free(x);
        free(want);
        free(y);
    }
    EXPECT_INT(tess_fp8_row_bytes(256), 258); /* a byte each, and 2 scales */
    EXPECT_INT(tess_fp8_row_bytes(257), 260);
}

static void a_block_that_is_not_finite_is_not_a_number(void)
{
    float x[200] = {1, INFINITY, 2}, y[200];
    uint8_t codes[202];
    tess_stream *s = open_variant(0);
    x[199] = -3;
    EXPECT_OK(tess_fp8_encode_rows(s, x, 1, 200, TESS_F32, codes));
    EXPECT_OK(tess_fp8_decode_rows(s, codes, 1, 200, TESS_F32, y));
    for (int i = 0; i < 200; i++)
        EXPECT(i < 128 ? isnan(y[i]) : y[i] == x[i]);
    tess_stream_destroy(&s);
}

static const test_case cases[] = {
    CASE(codes_of_rows_are_what_rounding_gives),
    CASE(a_block_that_is_not_finite_is_not_a_number),
    CASE(blocks_have_the_nearest_codes_of_their_scale_on_any_level),
    CASE(the_ends_of_the_range_and_what_is_not_finite),
};

TEST_MAIN(cases)
