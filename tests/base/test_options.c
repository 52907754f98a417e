/* Options: exact integers, sizes of texts, rows with a parser of their own, names of keys. */
#include "base/core/options.h"

#include <stdlib.h>

#include "base/text/text.h"
#include "support/test.h"

typedef struct config {
    int64_t n, bytes, large;
    double x;
    char text[8], after;
    char word[TESS_TEXT_SIZE];
    tess_text_list list;
    char path[16];
    int length; /* set by parse_length */
} config;

static tess_status parse_length(void *self, const char *text)
{
    ((config *)self)->length = (int)strlen(text);
    return text[0] != '!' ? TESS_OK : TESS_FAIL(TESS_E_INVALID, "length: '%s' begins with '!'", text);
}

#define AT(field_) .offset = offsetof(config, field_)
static const tess_option rows[] = {
    {"n", TESS_OPTION_INT, AT(n), .fallback = "3", .least = INT64_MIN, .most = INT64_MAX},
    {"x", TESS_OPTION_FLOAT, AT(x), .fallback = "0.5", .min = -1, .max = 1},
    {"text", TESS_OPTION_TEXT, AT(text), .fallback = "", .text_size = 8},
    {"word", TESS_OPTION_TEXT, AT(word)},
    {"length", TESS_OPTION_OWN, .parse = parse_length},
    {"bytes", TESS_OPTION_BYTES, AT(bytes), .least = 1, .most = (int64_t)8 << 40},
    {"list", TESS_OPTION_LIST, AT(list)},
    {"files", TESS_OPTION_LIST, AT(list), .is_path = true},
    {"path", TESS_OPTION_TEXT, AT(path), .text_size = 16, .is_path = true},
    {"large", TESS_OPTION_BYTES, AT(large), .unit = 1000000, .least = 1500000, .most = 9000000},
};
static const tess_option_section section = {.name = "test", .rows = rows, .n_rows = sizeof(rows) / sizeof(rows[0])};
static const tess_option_table table = {&section, 0};

static tess_status set(config *c, const char *key, const char *text)
{
    return tess_options_set(&table, 1, c, key, text, "here");
}

static void integers_of_64_bits_are_exact(void)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"9007199254740993", 9007199254740993},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"10_000", 10000},
                {"1e6", 1000000},
                {"2.0", 2},
                {"0x10", 16}};
    config c = {0};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        EXPECT_OK(set(&c, "n", good[i].text));
        EXPECT(c.n == good[i].value);
    }
    EXPECT_FAILS(set(&c, "n", "9223372036854775808"), TESS_E_INVALID, "here: n: 9223372036854775808 is outside");
    EXPECT_FAILS(set(&c, "n", "1e19"), TESS_E_INVALID, "1e19 is outside");
    EXPECT_FAILS(set(&c, "n", "1.5"), TESS_E_INVALID, "'1.5' is not an integer");
    EXPECT_FAILS(set(&c, "n", "1x"), TESS_E_INVALID, "'1x' is not a number");
    EXPECT_FAILS(set(&c, "n", ""), TESS_E_INVALID, "'' is not a number");
    EXPECT_FAILS(set(&c, "x", "2"), TESS_E_INVALID, "here: x: 2 is outside -1 .. 1");
    EXPECT_FAILS(set(&c, "x", "nan"), TESS_E_INVALID, "'nan' is not a number");
}

static void a_text_fills_its_own_size(void)
{
    config c = {.after = 'z'};
    EXPECT_OK(set(&c, "text", "1234567"));
    EXPECT_TEXT(c.text, "1234567");
    EXPECT_FAILS(set(&c, "text", "12345678"), TESS_E_INVALID, "here: text: a text of 8 characters; at most 7 fit");
    EXPECT_INT(c.after, 'z');
    EXPECT_OK(set(&c, "word", "12345678"));
}

static void a_row_may_have_its_own_parser_and_no_default(void)
{
    config c = {.length = 7, .word = "x"};
    EXPECT_OK(tess_options_defaults(&table, 1, &c));
    EXPECT(c.n == 3 && c.x == 0.5 && c.length == 7 && strcmp(c.word, "x") == 0);
    EXPECT_OK(set(&c, "length", "four"));
    EXPECT_INT(c.length, 4);
    EXPECT_FAILS(set(&c, "length", "!"), TESS_E_INVALID, "here: length: '!' begins with '!'");
}

static void keys_need_no_section(void)
{
    config c = {0};
    EXPECT_FAILS(set(&c, "lenght", "1"), TESS_E_INVALID, "here: unknown key 'lenght': did you mean 'length'?");
    EXPECT_FAILS(set(&c, "test.word", "1"), TESS_E_INVALID, "unknown key 'test.word': did you mean 'word'?");
    EXPECT_FAILS(set(&c, "qqqqqqqq", "1"), TESS_E_INVALID,
                 "unknown key 'qqqqqqqq': there are n, x, text, word, length, bytes, list, files, path");
}

static void bytes_have_units(void)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"2GiB", (int64_t)2 << 30}, {"1.5 MiB", 3 << 19}, {"8TiB", (int64_t)8 << 40},
                {"1_000KiB", 1024000},      {"512B", 512},        {"512", 512},
                {"1e9", 1000000000}};
    static const char *const bad[] = {"2GB", "GiB", "2 GiB GiB", "-2GiB", "", "0x10KiB", "1.5.5KiB", "inf", "2GiB "};
    config c = {0};
    char text[32];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        EXPECT_OK(set(&c, "bytes", good[i].text));
        EXPECT_INT(c.bytes, good[i].value);
    }
    EXPECT_OK(tess_options_format(&rows[5], &c, text, sizeof(text)));
    EXPECT_TEXT(text, "1000000000");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(set(&c, "bytes", bad[i]) == TESS_E_INVALID);
    EXPECT_FAILS(set(&c, "bytes", "2GB"), TESS_E_INVALID, "here: bytes: '2GB' is no number of bytes, KiB, MiB, GiB or");
    EXPECT_FAILS(set(&c, "bytes", "0.3KiB"), TESS_E_INVALID, "'0.3KiB' is no whole number of bytes");
    EXPECT_FAILS(set(&c, "bytes", "9TiB"), TESS_E_INVALID, "9TiB is outside 1 .. 8796093022208 bytes");
    EXPECT_FAILS(set(&c, "bytes", "0"), TESS_E_INVALID, "0 is outside");
    EXPECT_INT(c.bytes, 1000000000);
}

/* The value is bytes, however it is written. */
static void plain_numbers_count_the_unit_of_the_row(void)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"2", 2000000},    {"1.5", 1500000},      {"1.5000001", 1500000},
                {"2MiB", 2 << 20}, {"2000001B", 2000001}, {"9e0", 9000000}};
    static const char *const bad[] = {"1", "10", "1e0", "1e1", "1MiB", "9MiB", "2000000", "2MB", ""};
    config c = {0};
    char text[32];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        EXPECT_OK(set(&c, "large", good[i].text));
        EXPECT_INT(c.large, good[i].value);
        EXPECT_OK(tess_options_format(&rows[sizeof(rows) / sizeof(rows[0]) - 1], &c, text, sizeof(text)));
        c.large = 0;
        EXPECT_OK(set(&c, "large", text));
        EXPECT_INT(c.large, good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(set(&c, "large", bad[i]) == TESS_E_INVALID);
}

static void defaults_are_known_however_they_are_written(void)
{
    config c = {.n = 3, .x = 0.5, .bytes = 7};
    const tess_option half = {"x", TESS_OPTION_FLOAT, AT(x), .fallback = "5e-1", .min = -1, .max = 1};
    const tess_option large = {"large",    TESS_OPTION_BYTES, AT(large), .fallback = "16MiB",
                               .least = 0, .most = INT64_MAX};
    EXPECT(tess_options_is_default(&rows[0], &c) && tess_options_is_default(&rows[2], &c));
    EXPECT(tess_options_is_default(&rows[1], &c) && tess_options_is_default(&half, &c));
    c.large = 16 << 20;
    EXPECT(tess_options_is_default(&large, &c));
    c.large++;
    EXPECT(!tess_options_is_default(&large, &c));
    EXPECT_OK(set(&c, "n", "4"));
    EXPECT_OK(set(&c, "x", "0.25"));
    EXPECT_OK(set(&c, "text", "a"));
    for (int i = 0; i < 6; i++) /* the last three have none */
        EXPECT(!tess_options_is_default(&rows[i], &c));
    EXPECT(!tess_options_is_default(&half, &c));
}

/* Items of a list, one a line. */
static const char *items_of(const config *c)
{
    static char text[1024];
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < c->list.n; i++)
        at = tess_text_add(text, sizeof(text), at, "%s%s", i > 0 ? "\n" : "", c->list.item[i]);
    return text;
}

static void items_of_a_list_may_hold_commas_and_quotes(void)
{
    static const struct {
        const char *text, *items;
    } good[] = {{"a.txt, b.txt", "a.txt\nb.txt"},
                {"[a.txt,,b.txt, ]", "a.txt\nb.txt"},
                {"\"a,b.txt\",c.txt", "a,b.txt\nc.txt"},
                {"['a,b.txt' , \"it's\"]", "a,b.txt\nit's"},
                {"\" a \\\" \\\\ \\n \"", " a \" \\ \\n "},
                {"it's,5\" wide", "it's\n5\" wide"},
                {"'[0-9]',\"\"", "[0-9]"}};
    static const char *const bad[] = {"\"a,b.txt", "a,'b", "\"a\"b", "\"a\\\"", "'a' b,c", "\""};
    config c = {0}, again = {0};
    char text[1024];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        EXPECT_OK(set(&c, "list", good[i].text));
        EXPECT_TEXT(items_of(&c), good[i].items);
        EXPECT_OK(tess_options_format(&rows[6], &c, text, sizeof(text)));
        EXPECT_OK(set(&again, "list", text));
        EXPECT_TEXT(items_of(&again), good[i].items);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(set(&c, "list", bad[i]) == TESS_E_INVALID);
    EXPECT_FAILS(set(&c, "list", "x,\"a"), TESS_E_INVALID, "here: list: the quote before a is not closed");
    EXPECT_FAILS(set(&c, "list", "\"a\"b,c"), TESS_E_INVALID, "'b,c' follows a closing quote");
    EXPECT_TEXT(items_of(&c), "[0-9]"); /* a text that is refused changes nothing */
    tess_options_free(&table, 1, &c);
    EXPECT_INT(c.list.n, 0);
    tess_options_free(&table, 1, &again);
}

static void a_list_has_at_most_32_items(void)
{
    config c = {0};
    char text[2 * TESS_LIST_SIZE + 2] = "";
    for (int i = 0; i < TESS_LIST_SIZE; i++)
        memcpy(text + 2 * i, "x,", 3);
    EXPECT_OK(set(&c, "list", text));
    EXPECT_INT(c.list.n, TESS_LIST_SIZE);
    EXPECT_TEXT(c.list.item[TESS_LIST_SIZE - 1], "x");
    text[2 * TESS_LIST_SIZE] = 'x';
    EXPECT_FAILS(set(&c, "list", text), TESS_E_INVALID, "here: list: more than 32 items: shorten the list (");
    tess_options_free(&table, 1, &c);
}

static void a_path_begins_in_the_home_folder(void)
{
    config c = {0};
    EXPECT_INT(setenv("HOME", "/home/a,b", 1), 0);
    EXPECT_OK(set(&c, "files", "~/x, '~',x/~,~x/y"));
    EXPECT_TEXT(items_of(&c), "/home/a,b/x\n/home/a,b\nx/~\n~x/y");
    EXPECT_OK(set(&c, "path", "~/12345"));
    EXPECT_TEXT(c.path, "/home/a,b/12345");
    EXPECT_FAILS(set(&c, "path", "~/123456"), TESS_E_INVALID, "here: path: path too long: /home/a,b/123456");
    EXPECT_OK(set(&c, "list", "~/x"));
    EXPECT_OK(set(&c, "word", "~/x"));
    EXPECT_TEXT(items_of(&c), "~/x");
    EXPECT_TEXT(c.word, "~/x");
    EXPECT_INT(unsetenv("HOME"), 0);
    EXPECT_FAILS(set(&c, "path", "~"), TESS_E_INVALID, "here: path: ~: HOME is not set");
    tess_options_free(&table, 1, &c);
}

static const test_case cases[] = {
    CASE(items_of_a_list_may_hold_commas_and_quotes),
    CASE(a_list_has_at_most_32_items),
    CASE(a_path_begins_in_the_home_folder),
    CASE(defaults_are_known_however_they_are_written),
    CASE(integers_of_64_bits_are_exact),
    CASE(a_text_fills_its_own_size),
    CASE(a_row_may_have_its_own_parser_and_no_default),
    CASE(plain_numbers_count_the_unit_of_the_row),
    CASE(bytes_have_units),
    CASE(keys_need_no_section),
};
TEST_MAIN(cases)
