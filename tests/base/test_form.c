/* Forms: texts with cells, filled from JSON. */
#include <math.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "support/test.h"

/* The text with its cells filled from `members`, which have ' for ". Static buffer. */
static const char *filled(const char *text, const char *members)
{
    static char out[1024];
    char json[512];
    json_t *object;
    tess_buffer buffer = {.mem = test_mem()};
    snprintf(json, sizeof(json), "%s", members);
    for (char *quote = json; (quote = strchr(quote, '\'')) != NULL;)
        *quote = '"';
    EXPECT_OK(tess_json_parse(json, strlen(json), "members", true, &object));
    const tess_form_part once[] = {{.text = text}, {NULL}};
    EXPECT_OK(tess_form_print(&buffer, once, 80, object));
    snprintf(out, sizeof(out), "%s", buffer.data != NULL ? buffer.data : "");
    json_decref(object);
    tess_buffer_free(&buffer);
    return out;
}

static void cells_print_as_their_format_says(void)
{
    EXPECT_TEXT(filled("{a}|{a:5}|{a:-5}|", "{'a': 42}"), "42|   42|42   |");
    EXPECT_TEXT(filled("{a} {a:.3g} {a:.1f} {a:9.2e} {a:.1%} {a:%}", "{'a': 0.12345}"),
                "0.12345 0.123 0.1  1.23e-01 12.3% 12%");
    EXPECT_TEXT(filled("{a:B}, {a:9.3g}", "{'a': 1536}"), "1.50 KiB,  1.54e+03");
    EXPECT_TEXT(filled("{a}", "{'a': 9007199254740993}"), "9007199254740993");
    EXPECT_TEXT(filled("{n} rank{n:s}, {m} host{m:s}", "{'n': 1, 'm': 0}"), "1 rank, 0 hosts");
    EXPECT_TEXT(filled("{a:?yes|no} {b:?on|off} {c:?here} {d:?here}.", "{'a': true, 'b': false, 'c': 1}"),
                "yes off here .");
    EXPECT_TEXT(filled("{a} {b}", "{'a': true, 'b': false}"), "yes no");
    EXPECT_TEXT(filled("{a.b.c} {a.x} {d.1} {d.2}", "{'a': {'b': {'c': 7}}, 'd': [1, 2]}"), "7 - 2 -");
    EXPECT_TEXT(filled("{a:.1+} {b:8.2+}", "{'a': 3, 'b': -0.5}"), "+3.0    -0.50");
    EXPECT_TEXT(filled("no cell", "{}"), "no cell");
    EXPECT_TEXT(filled("", "{}"), "");
}

static void numbers_that_json_lacks_are_told_to_people(void)
{
    static const tess_form_part once[] = {{.text = "{a:6.3f}|{b:-6.3g}|{c:g}|{d:4g}|{e:5}|[{b:!}shown]\n"}, {NULL}};
    for (int as_json = 0; as_json < 2; as_json++) {
        tess_buffer out = {.mem = test_mem()};
        json_t *object =
            json_pack("{s:o, s:o, s:o, s:n}", "a", tess_form_number((double)NAN, as_json != 0), "b",
                      tess_form_number(-INFINITY, as_json != 0), "c", tess_form_number(0.5, as_json != 0), "d");
        EXPECT_OK(tess_form_put(object, once, as_json != 0, JSON_COMPACT, &out));
        EXPECT_TEXT(out.data, as_json != 0 ? "{\"a\":null,\"b\":null,\"c\":0.5,\"d\":null}\n"
                                           : "   nan|-inf  |0.5|   -|    -|shown\n");
        tess_buffer_free(&out);
    }
}

static void the_largest_number_fits(void)
{
    const char *text = filled("{a:.9f}", "{'a': -1.7976931348623157e308}");
    EXPECT_INT((int64_t)strlen(text), 1 + 309 + 1 + 9);
}

static void widths_count_characters(void)
{
    EXPECT_TEXT(filled("{a:6}|{a:-6}|{a:2}|", "{'a': '\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80'}"),
                "   \xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80|\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80   |"
                "\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80|");
}

static void brackets_leave_out_what_has_no_value(void)
{
    static const char text[] = "a[, b {b}][, c {c}[ of {d}]][{e:!}, e]";
    EXPECT_TEXT(filled(text, "{}"), "a");
    EXPECT_TEXT(filled(text, "{'b': 0, 'c': '', 'd': 3, 'e': false}"), "a");
    EXPECT_TEXT(filled(text, "{'b': null, 'c': 2, 'e': [1]}"), "a, c 2, e");
    EXPECT_TEXT(filled("[{b}|none of {c}], [{c} of {b}|none]", "{'b': 0, 'c': 2}"), "none of 2, 2 of 0");
    EXPECT_TEXT(filled("[{a}|[{b}|[{c}|{d:?x|y}]]]", "{'b': '', 'c': false, 'd': 1}"), "x");
    EXPECT_TEXT(filled("a|b", "{}"), "a|b");
    EXPECT_TEXT(filled("[{a:!}the first {b} says it]", "{'a': 1, 'b': 0}"), "the first 0 says it");
    EXPECT_TEXT(filled(text, "{'b': -1, 'c': 'x', 'd': 3, 'e': 0}"), "a, b -1, c x of 3");
}

static void a_form_that_is_written_wrongly_is_refused(void)
{
    tess_buffer out = {.mem = test_mem()};
    EXPECT_FAILS(tess_form_print(&out, (tess_form_part[]){{.text = "a {b"}, {NULL}}, 80, NULL), TESS_E_INTERNAL,
                 "no } ends the cell '{b'");
    EXPECT_FAILS(tess_form_print(&out, (tess_form_part[]){{.text = "a [b"}, {NULL}}, 80, NULL), TESS_E_INTERNAL,
                 "no ]");
    EXPECT_FAILS(tess_form_print(&out, (tess_form_part[]){{.text = "a ]b"}, {NULL}}, 80, NULL), TESS_E_INTERNAL,
                 "closes nothing at ']b'");
    tess_buffer_free(&out);
}

/* ---- Whole reports ---- */
static const tess_form_part form[] = {
    {.text = "{n} tensor{n:s}\n name       size share\n"},
    {.list = "run.tensors", .text = " {name:-4} {size:10B} {share:5.1%}[{new:!} new]\n[    wrong: {problem}\n]"},
    {.list = "notes", .text = "note: {}\n"},
    {NULL}};

static const char *printed(json_t *report)
{
    static char text[2048];
    tess_buffer out = {.mem = test_mem()};
    EXPECT_OK(tess_form_put(report, form, false, 0, &out));
    snprintf(text, sizeof(text), "%s", out.data);
    tess_buffer_free(&out);
    return text;
}

static void a_text_is_repeated_for_each_item(void)
{
    EXPECT_TEXT(
        printed(json_pack("{s:i, s:{s:[{s:s, s:i, s:f, s:b}, {s:s, s:i, s:o, s:s}]}, s:[s, s]}", "n", 2, "run",
                          "tensors", "name", "\xc3\xa4", "size", 12, "share", 0.5, "new", 1, "name", "a long name",
                          "size", 3 << 20, "share", json_null(), "problem", "cut off", "notes", "first", "second")),
        "2 tensors\n"
        " name       size share\n"
        " \xc3\xa4          12 B 50.0% new\n"
        " a long name   3.00 MiB     -\n"
        "    wrong: cut off\n"
        "note: first\n"
        "note: second\n");
}

static void an_empty_list_prints_nothing(void)
{
    static const char head[] = "0 tensors\n name       size share\n";
    EXPECT_TEXT(printed(json_pack("{s:i, s:{s:[]}}", "n", 0, "run", "tensors")), head);
    EXPECT_TEXT(printed(json_pack("{s:i}", "n", 0)), head);
}

static void programs_get_the_report_itself(void)
{
    tess_buffer out = {.mem = test_mem()};
    EXPECT_OK(tess_form_put(json_pack("{s:i, s:n}", "n", 1, "share"), form, true, JSON_COMPACT, &out));
    EXPECT_TEXT(out.data, "{\"n\":1,\"share\":null}\n");
    EXPECT_FAILS(tess_form_put(NULL, form, false, 0, &out), TESS_E_NOMEM, "no memory");
    EXPECT_FAILS(tess_form_put(NULL, form, true, 0, &out), TESS_E_NOMEM, "no memory");
    tess_buffer_free(&out);
}

static void words_are_wrapped_at_the_given_column(void)
{
    static const tess_form_part once[] = {{.text = "note: {a:3w}.\n"}, {NULL}};
    char long_word[101] = "";
    tess_buffer out = {.mem = test_mem()};
    memset(long_word, 'x', 100);
    json_t *report = json_pack("{s:s+++}", "a", "\xc3\xa4\xc3\xa4\xc3\xa4 two  three\nfour ", long_word, " five", "");
    EXPECT_OK(tess_form_print(&out, once, 19, report));
    EXPECT_CONTAINS(out.data, "note: \xc3\xa4\xc3\xa4\xc3\xa4 two three\n   four\n   xxx");
    EXPECT_CONTAINS(out.data, "x\n   five.\n");
    json_decref(report);
    tess_buffer_free(&out);
}

static const test_case cases[] = {
    CASE(cells_print_as_their_format_says),
    CASE(numbers_that_json_lacks_are_told_to_people),
    CASE(the_largest_number_fits),
    CASE(widths_count_characters),
    CASE(brackets_leave_out_what_has_no_value),
    CASE(a_form_that_is_written_wrongly_is_refused),
    CASE(a_text_is_repeated_for_each_item),
    CASE(an_empty_list_prints_nothing),
    CASE(programs_get_the_report_itself),
    CASE(words_are_wrapped_at_the_given_column),
};
TEST_MAIN(cases)
