/* Axes of pictures, and the hash of a policy. */
#include "support/test.h"

#include <math.h>

#include "page/page_axis.h"
#include "page/page_hash.h"
#include "page/page_series.h"

/* The labels of an axis, separated by spaces. */
static const char *labels(double from, double to, bool is_log, bool whole)
{
    static char text[256];
    double ticks[PAGE_TICKS];
    const page_axis axis = {from, to, is_log};
    const int n = page_axis_ticks(&axis, 5, whole, ticks);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        char tick[PAGE_TICK_TEXT];
        const double step = is_log ? 0 : n > 1 ? ticks[1] - ticks[0] : 0;
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? "|" : "",
                 page_tick_text(ticks[i], step, tick));
    }
    return text;
}

static void ticks_are_round(void)
{
    static const struct {
        double from, to;
        bool is_log, whole;
        const char *want;
    } rows[] = {
        {0, 10, false, false, "0|2|4|6|8|10"},
        {1, 450, false, true, "100|200|300|400"},
        {1, 3, false, true, "1|2|3"},
        {0, 0.0003, false, false, "0|1e-4|2e-4|3e-4"},
        {0, 921600, false, true, "0|200 k|400 k|600 k|800 k"},
        {5.0001, 5.0005, false, false, "5.0001|5.0002|5.0003|5.0004|5.0005"},
        {1e-6, 1e2, true, false, "1e-6|1e-4|0.01|1|100"},
        {1.9, 2.1, true, false, "1.9|1.95|2|2.05|2.1"},
        {-1, 1, false, false, "-1.0|-0.5|0|0.5|1.0"},
        {1e299, 1e300, false, false, "2e299|4e299|6e299|8e299|1e300"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = labels(rows[i].from, rows[i].to, rows[i].is_log, rows[i].whole);
        if (strcmp(got, rows[i].want) != 0)
            test_fail(__FILE__, __LINE__, "row %zu: %s, expected %s", i, got, rows[i].want);
    }
}

static void axes_have_a_range(void)
{
    static const struct {
        double low, high;
        bool is_log;
    } rows[] = {{0, 0, false}, {5, 5, false},         {-3, -3, false},        {1, 1e9, true},
                {2, 2, true},  {1e-300, 1e300, true}, {-1e300, 1e300, false}, {NAN, NAN, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const page_axis axis = page_axis_around(rows[i].low, rows[i].high, rows[i].is_log);
        EXPECT(axis.from < axis.to && isfinite(axis.from) && isfinite(axis.to));
        if (isnan(rows[i].low))
            continue;
        const double low = page_axis_place(&axis, rows[i].low), high = page_axis_place(&axis, rows[i].high);
        EXPECT(low >= 0 && low <= 1 && high >= low && high <= 1);
    }
}

static void curves_keep_lows_highs_and_means(void)
{
    double low, high;
    int64_t first, last;
    page_curves curves = {.mem = test_mem()};
    for (int64_t step = 1; step <= 10007; step++)
        EXPECT_OK(page_curves_add(&curves, "x", step, step == 7001 ? -5 : step == 7003 ? 50 : 1));
    const page_series *s = page_curves_find(&curves, "x");
    EXPECT(s->n <= PAGE_BUCKETS && s->n > PAGE_BUCKETS / 4);
    EXPECT(page_series_range(s, &low, &high, &first, &last));
    EXPECT(low == -5 && high == 50 && s->last == 1 && s->newest == 10007);
    EXPECT_INT(first, 1);
    EXPECT(fabs(page_series_mean(s, INT64_MIN, INT64_MAX) - (10005 + 45) / 10007.0) < 1e-12);
    page_curves_free(&curves);
}

static void keys_beyond_the_limit_are_counted(void)
{
    page_curves curves = {.mem = test_mem()};
    for (int i = 0; i < PAGE_SERIES + 7; i++) {
        char key[32];
        snprintf(key, sizeof(key), "key %d", i);
        EXPECT_OK(page_curves_add(&curves, key, 1, i));
    }
    EXPECT_INT(curves.n, PAGE_SERIES);
    EXPECT_INT(curves.n_left_out, 7);
    page_curves_free(&curves);
}

/* The examples of FIPS 180-4, and the lengths at which the padding takes another block. */
static void hashes_are_those_of_sha256(void)
{
    static const struct {
        size_t n;
        const char *text, *want;
    } rows[] = {
        {0, "", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
        {3, "abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
        {56, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE="},
    };
    char text[PAGE_HASH_TEXT];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        EXPECT_TEXT(page_hash(rows[i].text, rows[i].n, text), rows[i].want);
}

static const test_case cases[] = {
    CASE(ticks_are_round),
    CASE(axes_have_a_range),
    CASE(curves_keep_lows_highs_and_means),
    CASE(keys_beyond_the_limit_are_counted),
    CASE(hashes_are_those_of_sha256),
};
TEST_MAIN(cases)
