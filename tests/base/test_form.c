/* Forms: texts with cells, filled from JSON. */
#include <math.h>
#include <stdlib.h>

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
    EXPECT_TEXT(filled("{a:m} {b:m} {c:m} {d:m}", "{'a': 9.9996, 'b': 99.996, 'c': 999.96, 'd': -0.5}"),
                "10.00 100.0 1000 -0.500");
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
    EXPECT_FAILS(tess_form_print(&out, (tess_form_part[]){{.text = "a {*b}c"}, {NULL}}, 80, NULL), TESS_E_INTERNAL,
                 "no {/} ends the loop");
    EXPECT_FAILS(tess_form_print(&out, (tess_form_part[]){{.text = "a{/}b"}, {NULL}}, 80, NULL), TESS_E_INTERNAL,
                 "closes nothing at '{/}b'");
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

static void loops_repeat_a_text(void)
{
    EXPECT_TEXT(filled("{*a}<{x}>{/}{*b}<{}>{/}.", "{'a': [{'x': 1}, {'x': 2}], 'b': []}"), "<1><2>.");
    EXPECT_TEXT(filled("{*a:, }{}{/} {*a: + }[{:!}{}|none]{/}", "{'a': [3, 0, 5]}"), "3, 0, 5 3 + none + 5");
    EXPECT_TEXT(filled("{*a:; }{[}{*:,}{}{/}{]}{/}", "{'a': [[1, 2], [], [3]]}"), "[1,2]; []; [3]");
    EXPECT_TEXT(filled("[{a:!}some|none] {*x.y}{}{/}", "{'a': [], 'x': {'y': ['z']}}"), "none z");
    EXPECT_TEXT(filled("{*a:3 }{}{/}|{*b:3 }{}{/}", "{'a': [1, 2, 3], 'b': [1, 2, 3, 4, 5]}"), "1 2 3|1 2 ... 5");
    EXPECT_TEXT(filled("{*a:2}row {}\n{/}end", "{'a': [1, 2, 3]}"), "row 1\n...\nrow 3\nend");
}

static void words_follow_the_number(void)
{
    EXPECT_TEXT(filled("{n:it is|they are} {m:|s}{k: is|s are}", "{'n': 1, 'm': 0, 'k': 1}"), "it is s is");
    EXPECT_TEXT(filled("{a:.3}|{b:.3}|{b:.3g}", "{'a': 'abcdef', 'b': 'inf'}"), "abc|inf|inf");
    EXPECT_TEXT(filled("{a:c}", "{'a': 12300000}"), "12.3 M");
}

static void columns_are_as_wide_as_their_widest_cell(void)
{
    EXPECT_TEXT(
        filled("name\t  size\n{*a}{n}\t  {s}\n{/}\na\tb\n", "{'a': [{'n': 'x', 's': 12}, {'n': 'long', 's': 3}]}"),
        "name  size\nx     12\nlong  3\n\nab\n");
    EXPECT_TEXT(filled("\vn\v  size\t  \n{*a}\v{n}\v  {s}\t  {h}\n{/}",
                       "{'a': [{'n': 100, 's': 1, 'h': 'h\\tt'}, {'n': 1, 's': 2000000, 'h': ''}]}"),
                "  n     size\n100        1  h t\n  1  2000000\n");
    EXPECT_TEXT(filled("a\tb\nno cells here\n\xc3\xa4\xc3\xa4\xc3\xa4\tc\n...\n\t\nx\ty", "{}"),
                "a  b\nno cells here\n\xc3\xa4\xc3\xa4\xc3\xa4"
                "c\n...\n\nx  y");
}

static void a_text_in_a_buffer_without_a_pool_is_cut(void)
{
    char text[8];
    tess_buffer out = {.data = text, .capacity = sizeof(text)};
    json_t *members = json_pack("{s:s, s:i}", "a", "abcdef", "n", 7);
    EXPECT_OK(tess_form_fill(&out, "{x}{a:-9}{n}", members));
    EXPECT_TEXT(text, "abcdef ");
    EXPECT_INT(out.size, 7);
    json_decref(members);
}

/* ---- Other writers ---- */
static json_t *job(void)
{
    return json_pack("{s:i, s:s, s:b, s:n, s:{s:f}, s:[{s:s, s:i, s:s, s:[i, i], s:[{s:i, s:f}]}, {s:s, s:s}]}",
                     "version", 1, "state", "a \"b\"\n\\<&", "ok", 1, "nothing", "waits", "mean s", 0.5, "ranks",
                     "host", "h0", "rank", 3, "state", "runs", "ids", 1, 2, "parts", "rank", 9, "x", 1.5, "host", "h1",
                     "why", "lost");
}

static void metrics_are_what_prometheus_reads(void)
{
    tess_buffer out = {.mem = test_mem()};
    EXPECT_OK(tess_form_put(job(), form, TESS_FORM_METRICS, 0, &out));
    EXPECT_TEXT(out.data, "# TYPE tessera_version gauge\ntessera_version 1\n"
                          "# TYPE tessera_state gauge\ntessera_state{state=\"a \\\"b\\\"\\n\\\\<&\"} 1\n"
                          "# TYPE tessera_ok gauge\ntessera_ok 1\n"
                          "# TYPE tessera_waits_mean_s gauge\ntessera_waits_mean_s 0.5\n"
                          "# TYPE tessera_ranks_host gauge\ntessera_ranks_host{rank=\"3\",host=\"h0\"} 1\n"
                          "# TYPE tessera_ranks_state gauge\ntessera_ranks_state{rank=\"3\",state=\"runs\"} 1\n"
                          "# TYPE tessera_ranks_parts_x gauge\ntessera_ranks_parts_x{rank=\"3\",parts_rank=\"9\"} 1.5\n"
                          "# TYPE tessera_ranks_why gauge\ntessera_ranks_why{host=\"h1\",why=\"lost\"} 1\n");
    tess_buffer_free(&out);
}

static void metrics_have_names_that_prometheus_takes(void)
{
    tess_buffer out = {.mem = test_mem()};
    EXPECT_OK(tess_form_put(json_pack("{s:{s:i, s:i, s:s, s:s, s:s}, s:[{s:s, s:s, s:{s:s}}]}", "m", "a b", 1, "a_b", 2,
                                      "", "e", "0", "z", "__x", "u", "l", "name", "n", "index", "i", "o", "name", "m"),
                            form, TESS_FORM_METRICS, 0, &out));
    EXPECT_TEXT(out.data, "# TYPE tessera_m_a_b gauge\ntessera_m_a_b 1\n"
                          "# TYPE tessera_m_ gauge\ntessera_m_{key_=\"e\"} 1\n"
                          "# TYPE tessera_m_0 gauge\ntessera_m_0{key_0=\"z\"} 1\n"
                          "# TYPE tessera_m___x gauge\ntessera_m___x{key___x=\"u\"} 1\n"
                          "# TYPE tessera_l_index gauge\ntessera_l_index{name=\"n\",index=\"i\"} 1\n"
                          "# TYPE tessera_l_o_name gauge\ntessera_l_o_name{name=\"n\",name_=\"m\"} 1\n");
    tess_buffer_free(&out);
}

static void items_with_one_identity_have_an_index(void)
{
    tess_buffer out = {.mem = test_mem()};
    EXPECT_OK(tess_form_put(json_pack("{s:[{s:i, s:[{s:i, s:i}, {s:i, s:i}, {s:i, s:I}]}, {s:i, s:[{s:i, s:i}]}]}", "r",
                                      "rank", 0, "p", "rank", -1, "x", 1, "rank", -1, "x", 2, "rank", 7, "x",
                                      (json_int_t)1234567890123456789, "rank", 1, "p", "rank", -1, "x", 4),
                            form, TESS_FORM_METRICS, 0, &out));
    EXPECT_TEXT(out.data, "# TYPE tessera_r_p_x gauge\n"
                          "tessera_r_p_x{rank=\"0\",p_rank=\"-1\",p_index=\"0\"} 1\n"
                          "tessera_r_p_x{rank=\"0\",p_rank=\"-1\",p_index=\"1\"} 2\n"
                          "tessera_r_p_x{rank=\"0\",p_rank=\"7\",p_index=\"2\"} 1234567890123456789\n"
                          "tessera_r_p_x{rank=\"1\",p_rank=\"-1\"} 4\n");
    tess_buffer_free(&out);
}

static void long_names_are_whole_in_metrics(void)
{
    enum { N = 3000 };
    static char name[2 * N + 1], line[3 * N];
    tess_buffer out = {.mem = test_mem()};
    for (int i = 0; i < N; i++)
        memcpy(name + 2 * i, "\xc3\xa4", 3);
    EXPECT_OK(
        tess_form_put(json_pack("{s:[{s:s, s:i}]}", "l", "name", name, "x", 5), form, TESS_FORM_METRICS, 0, &out));
    snprintf(line, sizeof(line), "# TYPE tessera_l_x gauge\ntessera_l_x{name=\"%s\"} 5\n", name);
    EXPECT_INT(strcmp(out.data, line), 0);
    tess_buffer_free(&out);
}

static int n_blocks; /* number of blocks that can still be allocated */

static void *allocate(size_t size)
{
    return n_blocks-- > 0 ? malloc(size) : NULL;
}

static void metrics_fail_without_memory(void)
{
    tess_buffer out = {.mem = test_mem()};
    json_t *report = job();
    tess_status status = TESS_E_NOMEM;
    int n = 0;
    json_set_alloc_funcs(allocate, free);
    for (; status != TESS_OK && n < 1000; n++) {
        n_blocks = n;
        status = tess_form_put(json_incref(report), form, TESS_FORM_METRICS, 0, &out);
        EXPECT_INT(status == TESS_OK || status == TESS_E_NOMEM, 1);
    }
    json_set_alloc_funcs(malloc, free);
    EXPECT_INT(status, TESS_OK);
    EXPECT_INT(n > 30, 1);
    EXPECT_CONTAINS(out.data, "tessera_ranks_why{host=\"h1\",why=\"lost\"} 1\n");
    json_decref(report);
    tess_buffer_free(&out);
}

static void a_page_has_tables(void)
{
    tess_buffer out = {.mem = test_mem()};
    EXPECT_OK(tess_form_put(job(), form, TESS_FORM_HTML, 0, &out));
    EXPECT_CONTAINS(out.data, "<!DOCTYPE html>");
    EXPECT_CONTAINS(out.data, "\n<tr><th>state<td>a \"b\"\n\\&lt;&amp;\n<tr><th>ok<td>yes\n<tr><th>nothing<td>-\n");
    EXPECT_CONTAINS(out.data,
                    "<table><th>host<th>rank<th>state<th>ids<th>parts<th>why\n<tr><td>h0<td>3<td>runs<td>1, 2<td>");
    EXPECT_CONTAINS(out.data, "\n<tr><td>h1<td>-<td>-<td>-<td>-<td>lost\n</table>\n");
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
    CASE(loops_repeat_a_text),
    CASE(words_follow_the_number),
    CASE(columns_are_as_wide_as_their_widest_cell),
    CASE(a_text_in_a_buffer_without_a_pool_is_cut),
    CASE(metrics_are_what_prometheus_reads),
    CASE(metrics_have_names_that_prometheus_takes),
    CASE(items_with_one_identity_have_an_index),
    CASE(long_names_are_whole_in_metrics),
    CASE(metrics_fail_without_memory),
    CASE(a_page_has_tables),
};
TEST_MAIN(cases)
