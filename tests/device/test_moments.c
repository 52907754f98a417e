/* How moments of optimizers are stored: every table against the definition, and the definition against a search. */
#include "device/moments.h"
#include "elementwise_test.h"

static const int sizes[] = {1, 7, 15, 16, 17, 31, 100, 128, 129, 255, 256};

/* ---- 8 bits ---- */
static int nearest_of(const tess_code_map *map, float x)
{
    int best = 0;
    for (int c = 1; c < 256; c++)
        if (fabs((double)map->value[c] - (double)x) < fabs((double)map->value[best] - (double)x))
            best = c;
    return best;
}

static void expect_code(const tess_code_map *map, float x)
{
    int got = tess_code_of(map, x), want = nearest_of(map, x);
    if (!map->is_signed && want == 0 && x > 0)
        want = 1;
    /* A middle is rounded to float32: next to it both neighbours are as near as floats can say. */
    bool close = fabs(fabs((double)map->value[got] - (double)x) - fabs((double)map->value[want] - (double)x)) <
                 1e-7 * fabs((double)x);
    if (got != want && !close)
        test_fail(__FILE__, __LINE__, "%.9g has code %d, the nearest is %d", (double)x, got, want);
}

static void a_number_has_the_nearest_code(void)
{
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        tess_code_map map;
        tess_code_map_fill(is_signed, &map);
        for (int c = 0; c < 256; c++) {
            EXPECT_INT(tess_code_of(&map, map.value[c]), c);
            if (c == 255 || map.middle[c] < (is_signed ? -1 : 0))
                continue;
            bool above_0 = !is_signed && c == 0;
            EXPECT_INT(tess_code_of(&map, map.middle[c]), above_0 ? 1 : c);
            EXPECT_INT(tess_code_of(&map, nextafterf(map.middle[c], 2)), c + 1);
            EXPECT_INT(tess_code_of(&map, nextafterf(map.middle[c], -2)), above_0 ? 1 : c);
        }
        /* Every cell's bounds, from what is subnormal to 1. */
        for (uint32_t bits = 0; bits <= 0x3f800000u; bits += 0x8000u) {
            expect_code(&map, tess_bits_float(bits));
            expect_code(&map, tess_bits_float(bits > 0 ? bits - 1 : 0));
            if (is_signed)
                expect_code(&map, -tess_bits_float(bits));
        }
    }
}

typedef struct coded {
    uint8_t codes[256];
    float most, values[256];
} coded;

/* NULL: the machine cannot run it, or it is a GPU's, which leaves moments to the host. */
static tess_stream *open_host(size_t v)
{
    return strcmp(variants[v].level, "cuda") != 0 ? open_variant(v) : NULL;
}

static coded code_on(tess_stream *s, const tess_code_map *map, const float *x, int n)
{
    coded c = {.most = -1};
    tess_stream_kernels(s)->encode_8bit(map, x, n, c.codes, &c.most);
    tess_stream_kernels(s)->decode_8bit(map, c.codes, c.most, n, c.values);
    return c;
}

static void fill_block(int kind, int n, bool is_signed, float *x)
{
    for (int i = 0; i < n; i++) {
        double normal = tess_rng_normal(7, TESS_RNG_TEST, (uint64_t)kind, (uint64_t)i);
        x[i] = (float)(kind == 0 ? 0 : kind == 1 ? normal : normal * exp2(-(i * 37 % 140)));
        x[i] = is_signed ? x[i] : fabsf(x[i]);
    }
}

static void all_tables_code_alike(void)
{
    tess_stream *ref = open_variant(0);
    for (size_t v = 1; v < COUNT(variants); v++) {
        tess_stream *s = open_host(v);
        for (size_t i = 0; s != NULL && i < COUNT(sizes) * 6; i++) {
            int n = sizes[i / 6], kind = (int)(i % 3);
            bool is_signed = i % 6 < 3;
            tess_code_map map;
            float *x = new_array(n, sizeof(*x));
            tess_code_map_fill(is_signed, &map);
            fill_block(kind, n, is_signed, x);
            coded want = code_on(ref, &map, x, n), got = code_on(s, &map, x, n);
            EXPECT_INT(memcmp(&got.most, &want.most, sizeof(got.most)), 0);
            EXPECT_INT(memcmp(got.codes, want.codes, sizeof(got.codes)), 0);
            EXPECT_INT(memcmp(got.values, want.values, sizeof(got.values)), 0);
            free(x);
        }
        tess_stream_destroy(&s);
    }
    tess_stream_destroy(&ref);
}

/* ---- bfloat16 ---- */
static void random_rounding_is_that_of_philox_on_any_table(void)
{
    static const uint64_t firsts[] = {0, 3, 8, (UINT64_C(1) << 35) - 60, (UINT64_C(1) << 40) + 5};
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_host(v);
        for (size_t i = 0; s != NULL && i < COUNT(sizes) * COUNT(firsts); i++) {
            int n = sizes[i / COUNT(firsts)];
            const tess_moment_random random = {.seed = 12345678901u, .stream = 99, .first = firsts[i % COUNT(firsts)]};
            float *x = random_array(3, n, 0, 1, TESS_F32);
            uint16_t *y = new_array(n, sizeof(*y));
            x[n / 2] = n % 2 ? INFINITY : NAN;
            tess_stream_kernels(s)->round_randomly(&random, x, n, y);
            for (int k = 0; k < n; k++) {
                uint64_t number = random.first + (uint64_t)k;
                uint32_t words[4];
                tess_philox(random.seed, TESS_RNG_ROUND, random.stream, number / 8, words);
                uint32_t bits = words[number % 8 / 2] >> (number % 2 ? 16 : 0) & 0xffffu;
                uint32_t sum = tess_float_bits(x[k]) + bits;
                EXPECT_INT(y[k], isfinite(x[k]) ? sum >> 16 : tess_float_to_bf16(x[k]));
            }
            free(x);
            free(y);
        }
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    CASE(a_number_has_the_nearest_code),
    {"8_bit_codes_are_the_same_on_any_table", all_tables_code_alike, 0, 0},
    CASE(random_rounding_is_that_of_philox_on_any_table),
};

TEST_MAIN(cases)
