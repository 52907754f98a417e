/* Conversions between dtypes: every 16-bit value, rounding to nearest even, the same bits on every kernel table. */
#include "elementwise_test.h"

static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16, TESS_F16};

/* Values whose rounding is known by hand: ties to even, overflow, subnormals, signs of zero, NaN. */
static void conversions_round_to_nearest_even(void)
{
    const float x[] = {1.0f,      0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0.0f,    INFINITY,
                       0x1p-133f, 3.4e38f,   65519.0f,  65520.0f,      0x1p-25f, 0x1.8p-25f};
    const uint16_t bf16[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x8000, 0x7f80,
                             0x0001, 0x7f80, 0x4780, 0x4780, 0x3300, 0x3340};
    const uint16_t f16[] = {0x3c00, 0x3c04, 0x3c0c, 0x3c04, 0x8000, 0x7c00,
                            0x0000, 0x7c00, 0x7bff, 0x7c00, 0x0000, 0x0001};
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        uint16_t y[COUNT(x)];
        EXPECT_OK(tess_stream_kernels(s)->convert(
            s, &(tess_convert_args){.x = x, .from = TESS_F32, .y = y, .to = TESS_BF16, .n = COUNT(x)}));
        EXPECT_SAME(y, bf16, COUNT(x));
        EXPECT_OK(tess_stream_kernels(s)->convert(
            s, &(tess_convert_args){.x = x, .from = TESS_F32, .y = y, .to = TESS_F16, .n = COUNT(x)}));
        EXPECT_SAME(y, f16, COUNT(x));
        EXPECT_FAILS(tess_stream_kernels(s)->convert(
                         s, &(tess_convert_args){.x = x, .from = TESS_I32, .y = y, .to = TESS_F32, .n = 1}),
                     TESS_E_UNSUPPORTED, "int32");
        tess_stream_destroy(&s);
    }
}

/* All 16-bit values up and back: nothing changes but that a NaN becomes quiet. */
static void every_16_bit_value_survives_the_way_through_float(void)
{
    enum { N = 65536 };
    for (size_t i = 0; i < 2 * COUNT(variants); i++) {
        tess_stream *s = open_variant(i / 2);
        if (s == NULL)
            continue;
        tess_dtype dtype = i % 2 == 0 ? TESS_BF16 : TESS_F16;
        uint16_t infinity = dtype == TESS_BF16 ? 0x7f80 : 0x7c00, quiet = dtype == TESS_BF16 ? 0x40 : 0x200;
        uint16_t *x = new_array(N, 2), *y = new_array(N, 2), *want = new_array(N, 2);
        float *wide = new_array(N, 4);
        for (int k = 0; k < N; k++) {
            x[k] = (uint16_t)k;
            want[k] = (uint16_t)((k & 0x7fff) > infinity ? k | quiet : k);
        }
        EXPECT_OK(tess_stream_kernels(s)->convert(
            s, &(tess_convert_args){.x = x, .from = dtype, .y = wide, .to = TESS_F32, .n = N}));
        EXPECT_OK(tess_stream_kernels(s)->convert(
            s, &(tess_convert_args){.x = wide, .from = TESS_F32, .y = y, .to = dtype, .n = N}));
        expect_bits("there and back", i / 2, y, want, N, TESS_BF16);
        for (int k = 0; k < N && dtype == TESS_F16; k++) {
            int e = k >> 10 & 31, m = k & 0x3ff;
            double value = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
            if (e < 31)
                expect_near("float16", k, wide[k], k & 0x8000 ? -value : value, 0);
        }
        free(x);
        free(y);
        free(want);
        free(wide);
        tess_stream_destroy(&s);
    }
}

/* Every pair of formats, any length, from bits of all kinds: the bits of the reference. */
static void conversions_are_bit_for_bit_the_same_on_any_level(void)
{
    const int64_t sizes[] = {0, 1, 15, 16, 17, 31, 33, 100, 65537};
    for (size_t i = 0; i < COUNT(sizes) * 9; i++) {
        tess_dtype from = dtypes[i % 9 / 3], to = dtypes[i % 3];
        int64_t n = sizes[i / 9];
        size_t from_bytes = (size_t)n * tess_dtype_size(from);
        unsigned char *x = new_array(n, tess_dtype_size(from));
        for (size_t k = 0; k < from_bytes; k++)
            x[k] = (unsigned char)tess_rng_u64(7, TESS_RNG_TEST, 1, k);
        void *want = blank_array(n, to == TESS_F16 ? TESS_BF16 : to);
        tess_stream *s = open_variant(0);
        EXPECT_OK(tess_stream_kernels(s)->convert(
            s, &(tess_convert_args){.x = x, .from = from, .y = want, .to = to, .n = n}));
        tess_stream_destroy(&s);
        for (size_t v = 1; v < COUNT(variants); v++) {
            if ((s = open_variant(v)) == NULL)
                continue;
            void *y = blank_array(n, to == TESS_F16 ? TESS_BF16 : to);
            EXPECT_OK(tess_stream_kernels(s)->convert(
                s, &(tess_convert_args){.x = x, .from = from, .y = y, .to = to, .n = n}));
            expect_bits(tess_dtype_name(to), v, y, want, n, to);
            free(y);
            tess_stream_destroy(&s);
        }
        free(want);
        free(x);
    }
}

static const test_case cases[] = {
    CASE(conversions_round_to_nearest_even),
    CASE(every_16_bit_value_survives_the_way_through_float),
    CASE(conversions_are_bit_for_bit_the_same_on_any_level),
};

TEST_MAIN(cases)
