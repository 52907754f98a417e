/* Chat templates against jinja2, by fixtures of tools/make_template_fixtures.py. */
#include <stdlib.h>

#include "base/text/json.h"
#include "data/template/chat_template.h"
#include "support/test.h"

static json_t *fixtures(void)
{
    json_t *json;
    EXPECT_OK(tess_json_load(test_path("data/fixtures/templates.json"), 16 << 20, &json));
    return json;
}

static tess_chat_input input_of(const json_t *all)
{
    const json_t *chat = json_object_get(all, "chat");
    return (tess_chat_input){.messages = json_object_get(chat, "messages"),
                             .extra = chat,
                             .add_generation_prompt = true,
                             .now_s = json_integer_value(json_object_get(all, "now"))};
}

static tess_status render(const char *text, const tess_chat_input *input, tess_buffer *out, tess_chat_spans *spans)
{
    tess_chat_template *chat;
    TESS_TRY(tess_chat_template_parse(test_mem(), text, strlen(text), &chat));
    tess_status status = tess_chat_template_render(chat, input, out, spans);
    tess_chat_template_destroy(&chat);
    return status;
}

static void check_spans(const tess_chat_spans *spans, const json_t *want)
{
    EXPECT_INT(spans->n, json_array_size(want));
    for (size_t i = 0; i < spans->n; i++) {
        EXPECT_INT(spans->item[i].begin, json_integer_value(json_array_get(json_array_get(want, i), 0)));
        EXPECT_INT(spans->item[i].end, json_integer_value(json_array_get(json_array_get(want, i), 1)));
    }
}

static void templates_give_the_output_of_jinja2(void)
{
    json_t *all = fixtures();
    const json_t *list = json_object_get(all, "templates");
    const tess_chat_input input = input_of(all);
    int n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(item, "template"));
        const json_t *want = json_object_get(item, "text");
        tess_buffer out = {.mem = test_mem()};
        tess_chat_spans spans = {.mem = test_mem()};
        if (want == NULL)
            continue;
        EXPECT_OK(render(text, &input, &out, &spans));
        if (out.size != json_string_length(want) || memcmp(out.data, json_string_value(want), out.size) != 0)
            printf("template %zu: %s\n", i, text);
        EXPECT_TEXT(out.data != NULL ? out.data : "", json_string_value(want));
        EXPECT_INT(out.size, json_string_length(want));
        check_spans(&spans, json_object_get(item, "spans"));
        tess_chat_spans_free(&spans);
        tess_buffer_free(&out);
        n++;
    }
    EXPECT(n > 40);
    json_decref(all);
}

static void what_jinja2_refuses_is_refused_with_its_line(void)
{
    json_t *all = fixtures();
    const json_t *list = json_object_get(all, "templates");
    const tess_chat_input input = input_of(all);
    int n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        tess_buffer out = {.mem = test_mem()};
        char text[256];
        if (json_object_get(item, "text") != NULL)
            continue;
        snprintf(text, sizeof(text), "one\n{{ 2 }}\n%s", json_string_value(json_object_get(item, "template")));
        tess_status status = render(text, &input, &out, NULL);
        if (status == TESS_OK)
            printf("template %zu: %s\n", i, text);
        EXPECT(status == TESS_E_INVALID || status == TESS_E_FORMAT || status == TESS_E_UNSUPPORTED);
        EXPECT_CONTAINS(tess_error_message(), "line 3");
        EXPECT_INT(out.size, 0);
        tess_buffer_free(&out);
        n++;
    }
    EXPECT(n > 20);
    json_decref(all);
}

static void what_is_not_supported_is_named(void)
{
    static const char *const cases[][2] = {
        {"{% include 'x' %}", "{% include %}"},
        {"{% extends 'x' %}", "{% extends %}"},
        {"{{ f(*x) }}", "* and **"},
        {"{% for x in [] recursive %}{% endfor %}", "recursive"},
        {"{{ [1] | batch(2) }}", "filter 'batch'"},
        {"{{ 1 is escaped }}", "test 'escaped'"},
        {"{{ range }}", "cannot be written"},
        {"{{ '{:02d}'.format(1) }}", "{:02d}"},
        {"{% break %}", "inside a loop"},
        {"{% for x in [1] %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}", "inside a loop"},
        {"{{ raise_exception('no: ' ~ 5) }}", "the template refuses it: no: 5"},
        {"{% set x %}{% generation %}a{% endgeneration %}{% endset %}b", "generation block is not written"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const tess_chat_input input = {0};
        tess_buffer out = {.mem = test_mem()};
        tess_chat_spans spans = {.mem = test_mem()};
        EXPECT(render(cases[i][0], &input, &out, &spans) != TESS_OK);
        EXPECT_CONTAINS(tess_error_message(), cases[i][1]);
        tess_chat_spans_free(&spans);
        tess_buffer_free(&out);
    }
    tess_chat_template *chat;
    EXPECT_FAILS(tess_chat_template_parse(test_mem(), "a\xff", 2, &chat), TESS_E_FORMAT, "UTF-8");
    EXPECT(chat == NULL);
}

static void a_template_without_end_is_stopped(void)
{
    static const char *const cases[][2] = {
        {"{% for i in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}", "it takes"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"},
        {"{{ 'a' * 100000000 * 100000000 }}", "memory"},
        {"{% set ns = namespace(x='abcdefgh') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", ""},
        {"{% for i in range(9999) %}{% for k in range(9999) %}{{ 'abcdefghabcdefghabcdefghabcdefghabcdefgh' }}{% "
         "endfor %}{% endfor %}",
         ""},
        {"{{ 9223372036854775807 + 1 }}", "64 bits"},
        {"{{ 2 ** 100000000000 }}", ""},
        {"{% set a = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set a.x = [a.x, a.x] %}{% set a.y = [a.y, "
         "a.y] "
         "%}{% endfor %}{{ a.x == a.y }}",
         "too many steps"},
        {"{% set a = namespace(x=[1], y=[1]) %}{% for i in range(9999) %}{% set a.x = [a.x] %}{% set a.y = [a.y] %}{% "
         "endfor "
         "%}{{ a.x == a.y }}",
         "too many steps"},
        {"{% set s = 'a' * 9000000 %}{{ s.rfind('a' * 4000000 + 'b') }}", "too many steps"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const tess_chat_input input = {0};
        tess_buffer out = {.mem = test_mem()};
        EXPECT_INT(render(cases[i][0], &input, &out, NULL), TESS_E_INVALID);
        EXPECT_CONTAINS(tess_error_message(), cases[i][1]);
        EXPECT_INT(out.size, 0);
        tess_buffer_free(&out);
    }
    static const char *const nested[] = {"{{ (",       "{{ [",  "{{ {1: ", "{{ not ", "{{ -",
                                         "{% if 1 %}", "{{ x[", "{{ f(",   "{{ 1 + ", "{{ x.y"};
    for (size_t i = 0; i < sizeof(nested) / sizeof(nested[0]); i++) {
        tess_buffer text = {.mem = test_mem()};
        tess_chat_template *chat;
        EXPECT_OK(tess_buffer_append(&text, nested[i], strlen(nested[i])));
        for (int k = 0; k < 5000; k++) {
            const char *more = nested[i][1] == '%' ? nested[i] : strchr(nested[i], 'y') ? ".y" : nested[i] + 3;
            EXPECT_OK(tess_buffer_append(&text, more, strlen(more)));
        }
        EXPECT(tess_chat_template_parse(test_mem(), text.data, text.size, &chat) != TESS_OK);
        tess_buffer_free(&text);
    }
}

static const test_case cases[] = {
    CASE(templates_give_the_output_of_jinja2),
    CASE(what_jinja2_refuses_is_refused_with_its_line),
    CASE(what_is_not_supported_is_named),
    CASE(a_template_without_end_is_stopped),
};
TEST_MAIN(cases)
