/* Chat templates against jinja2, by fixtures of tools/make_template_fixtures.py. */
#include <stdlib.h>

#include "base/text/json.h"
#include "data/conversation/conversation.h"
#include "data/conversation/prompts.h"
#include "base/os/os.h"
#include "support/test.h"

static json_t *fixtures(void)
{
    json_t *json;
    EXPECT_OK(tess_json_load(test_path("data/fixtures/templates.json"), 16 << 20, &json));
    return json;
}

static tess_chat_template *parse(const char *text)
{
    tess_chat_template *chat;
    EXPECT_OK(tess_chat_template_parse(test_mem(), text, strlen(text), &chat));
    return chat;
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

static tess_tokenizer *tokenizer_of(const char *name)
{
    tess_tokenizer *tokenizer;
    char path[64];
    snprintf(path, sizeof(path), "data/fixtures/%s.json", name);
    EXPECT_OK(tess_tokenizer_load(test_mem(), test_path(path), &tokenizer));
    return tokenizer;
}

static void encode(const tess_chat *how, const json_t *messages, size_t n_prompt, tess_ids *ids, tess_buffer *loss)
{
    tess_encoder *encoder;
    EXPECT_OK(tess_encoder_create(test_mem(), how->tokenizer, &encoder));
    EXPECT_OK(tess_conversation_encode(how, encoder, messages, n_prompt, NULL, ids, loss));
    EXPECT_INT(loss->size, ids->size);
    tess_encoder_destroy(&encoder);
}

static void expect_conversation(const tess_chat *how, const json_t *messages, const json_t *ids, const char *mask)
{
    tess_ids got = {.mem = test_mem()};
    tess_buffer loss = {.mem = test_mem()};
    encode(how, messages, 0, &got, &loss);
    EXPECT_INT(got.size, json_array_size(ids));
    EXPECT_INT(strlen(mask), json_array_size(ids));
    for (size_t k = 0; k < got.size; k++) {
        EXPECT_INT(got.data[k], json_integer_value(json_array_get(ids, k)));
        EXPECT_INT(loss.data[k], mask[k] - '0');
    }
    EXPECT(memchr(loss.data, 1, loss.size) != NULL && memchr(loss.data, 0, loss.size) != NULL);
    tess_ids_free(&got);
    tess_buffer_free(&loss);
}

/* gpt2.json with a family's special tokens behind its own. */
static tess_tokenizer *tokenizer_with(const json_t *specials)
{
    json_t *json;
    tess_tokenizer *tokenizer;
    EXPECT_OK(tess_json_load(test_path("data/fixtures/gpt2.json"), 1 << 24, &json));
    for (size_t i = 0; i < json_array_size(specials); i++) {
        json_t *special = json_array_get(specials, i);
        json_array_append_new(json_object_get(json, "added_tokens"),
                              json_pack("{s:O, s:O, s:b, s:b, s:b, s:b, s:b}", "id", json_array_get(special, 1),
                                        "content", json_array_get(special, 0), "single_word", 0, "lstrip", 0, "rstrip",
                                        0, "normalized", 0, "special", 1));
    }
    char *text = json_dumps(json, JSON_COMPACT);
    EXPECT_OK(tess_tokenizer_parse(test_mem(), text, strlen(text), "gpt2.json with specials", &tokenizer));
    free(text);
    json_decref(json);
    return tokenizer;
}

static void eleven_families_formats_have_the_ids_and_the_mask_of_transformers(void)
{
    json_t *all = fixtures();
    const json_t *families = json_object_get(all, "families");
    EXPECT_INT(json_array_size(families), 11);
    for (size_t i = 0; i < json_array_size(families); i++) {
        const json_t *family = json_array_get(families, i), *cases = json_object_get(family, "cases");
        tess_tokenizer *tokenizer = tokenizer_with(json_object_get(family, "specials"));
        tess_chat_template *chat = parse(json_string_value(json_object_get(family, "template")));
        const tess_chat how = {chat, tokenizer, NULL, 0};
        printf("%s\n", json_string_value(json_object_get(family, "family")));
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *one = json_array_get(cases, k);
            expect_conversation(&how, json_object_get(one, "messages"), json_object_get(one, "ids"),
                                json_string_value(json_object_get(one, "mask")));
        }
        tess_chat_template_destroy(&chat);
        tess_tokenizer_destroy(&tokenizer);
    }
    json_decref(all);
}

static void conversations_have_the_ids_and_the_mask_of_transformers(void)
{
    json_t *all = fixtures(), *variables = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "<|im_end|>");
    const json_t *list = json_object_get(all, "tokens");
    EXPECT(json_array_size(list) >= 18);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i), *want = json_object_get(item, "ids");
        const json_t *mask = json_object_get(item, "mask");
        tess_tokenizer *tokenizer = tokenizer_of(json_string_value(json_object_get(item, "tokenizer")));
        tess_chat_template *chat = parse(json_string_value(json_object_get(item, "template")));
        const tess_chat how = {chat, tokenizer, variables, 0};
        tess_ids ids = {.mem = test_mem()};
        tess_buffer loss = {.mem = test_mem()};
        int n_marked = 0;
        encode(&how, json_object_get(item, "messages"), 0, &ids, &loss);
        EXPECT_INT(ids.size, json_array_size(want));
        for (size_t k = 0; k < ids.size; k++) {
            EXPECT_INT(ids.data[k], json_integer_value(json_array_get(want, k)));
            EXPECT_INT(loss.data[k], json_integer_value(json_array_get(mask, k)));
            n_marked += loss.data[k];
        }
        EXPECT(n_marked > 0 && n_marked < (int)ids.size);
        tess_ids_free(&ids);
        tess_buffer_free(&loss);
        tess_chat_template_destroy(&chat);
        tess_tokenizer_destroy(&tokenizer);
    }
    json_decref(variables);
    json_decref(all);
}

#define TURN                                                                                            \
    "{% for m in messages %}<{{ m.role }}>\n{{ m.content }}.\n{% endfor %}{% if add_generation_prompt " \
    "%}<assistant>\n{% endif %}"

/* The marked tokens as text; with "|" between stretches of them. */
static void marked(const tess_tokenizer *tokenizer, const tess_ids *ids, const tess_buffer *loss, tess_buffer *text)
{
    for (size_t i = 0; i < ids->size; i++) {
        if (loss->data[i] == 1)
            EXPECT_OK(tess_decode(tokenizer, &ids->data[i], 1, false, text));
        else if (text->size > 0 && text->data[text->size - 1] != '|')
            EXPECT_OK(tess_buffer_append(text, "|", 1));
    }
}

static void without_generation_blocks_a_turn_is_what_the_template_adds(void)
{
    static const char *const names[] = {"gpt2", "llama2"}; /* pieces of the text; and not */
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "user", "content",
                                 "the river", "role", "assistant", "content", "of stone", "role", "user", "content",
                                 "and", "role", "assistant", "content", "lights");
    for (int i = 0; i < 2; i++) {
        tess_tokenizer *tokenizer = tokenizer_of(names[i]);
        tess_chat_template *chat = parse(TURN);
        const tess_chat how = {chat, tokenizer, NULL, 0};
        tess_ids ids = {.mem = test_mem()};
        tess_buffer loss = {.mem = test_mem()}, text = {.mem = test_mem()};
        encode(&how, messages, 0, &ids, &loss);
        marked(tokenizer, &ids, &loss, &text);
        EXPECT_CONTAINS(text.data, i == 0 ? "of stone.\n|lights.\n" : "stone");
        EXPECT(strstr(text.data, "river") == NULL && strstr(text.data, "and") == NULL);
        tess_buffer_free(&text);
        tess_buffer_free(&loss);
        tess_ids_free(&ids);
        tess_chat_template_destroy(&chat);
        tess_tokenizer_destroy(&tokenizer);
    }
    json_decref(messages);
}

/* {"content": null} is an assistant's that only calls a tool. */
static void a_template_does_not_see_members_that_are_null(void)
{
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:n, s:i}]", "role", "user", "content", "a", "role", "assistant",
                                 "content", "calls", 3);
    tess_tokenizer *tokenizer = tokenizer_of("gpt2");
    tess_chat_template *chat = parse("{% for m in messages %}{{ m.role }}{{ m.content if m.content is defined else '-' "
                                     "}}{{ m.calls }};{% endfor %}");
    const tess_chat how = {chat, tokenizer, NULL, 0};
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_conversation_write(&how, messages, NULL, false, &text, NULL));
    EXPECT_TEXT(text.data, "usera;assistant-3;");
    EXPECT(json_object_get(json_array_get(messages, 1), "content") != NULL); /* the caller's are as they were */
    tess_buffer_free(&text);
    tess_chat_template_destroy(&chat);
    tess_tokenizer_destroy(&tokenizer);
    json_decref(messages);
}

/* Of a prompt of three messages, one of them the assistant's, with or without generation blocks. */
static void a_completion_is_all_behind_its_prompt(void)
{
    static const char *const templates[] = {
        TURN, "{% for m in messages %}<{{ m.role }}>\n{% generation %}{{ m.content }}{% endgeneration %}.\n{% endfor %}"
              "{% if add_generation_prompt %}<assistant>\n{% endif %}"};
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "user", "content",
                                 "the river", "role", "assistant", "content", "of stone", "role", "user", "content",
                                 "and", "role", "assistant", "content", "lights");
    for (int i = 0; i < 2; i++) {
        tess_tokenizer *tokenizer = tokenizer_of("gpt2");
        tess_chat_template *chat = parse(templates[i]);
        const tess_chat how = {chat, tokenizer, NULL, 0};
        tess_ids ids = {.mem = test_mem()};
        tess_buffer loss = {.mem = test_mem()}, text = {.mem = test_mem()};
        size_t size;
        encode(&how, messages, 3, &ids, &loss);
        marked(tokenizer, &ids, &loss, &text);
        EXPECT_TEXT(text.data, "lights.\n");
        EXPECT(strcmp(tess_chat_template_source(chat, &size), templates[i]) == 0 && size == strlen(templates[i]));
        tess_buffer_free(&text);
        tess_buffer_free(&loss);
        tess_ids_free(&ids);
        tess_chat_template_destroy(&chat);
        tess_tokenizer_destroy(&tokenizer);
    }
    json_decref(messages);
}

static void a_template_that_does_not_preserve_prefixes_is_refused(void)
{
    static const struct {
        const char *text, *needle;
    } templates[] = {
        {"{% for m in messages %}{{ m.role }}:{{ m.content if loop.last or m.role == 'user' }};{% endfor %}{{ "
         "'assistant:' if "
         "add_generation_prompt }}",
         "writes message 2, of the assistant, otherwise once others follow"},
        {"{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ 'bot:' if add_generation_prompt }}",
         "otherwise than after its prompt to answer"}};
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "a", "role",
                                 "assistant", "content", "b", "role", "user", "content", "c");
    tess_tokenizer *tokenizer = tokenizer_of("gpt2");
    for (int i = 0; i < 2; i++) {
        tess_chat_template *chat = parse(templates[i].text);
        tess_encoder *encoder;
        const tess_chat how = {chat, tokenizer, NULL, 0};
        tess_ids ids = {.mem = test_mem()};
        tess_buffer loss = {.mem = test_mem()};
        EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
        EXPECT_FAILS(tess_conversation_encode(&how, encoder, messages, 0, NULL, &ids, &loss), TESS_E_UNSUPPORTED,
                     "does not preserve prefixes");
        EXPECT_CONTAINS(tess_error_message(), templates[i].needle);
        json_t *odd = json_pack("[i]", 1);
        EXPECT_FAILS(tess_conversation_encode(&how, encoder, odd, 0, NULL, &ids, &loss), TESS_E_FORMAT,
                     "message 1 is not");
        json_decref(odd);
        tess_encoder_destroy(&encoder);
        tess_chat_template_destroy(&chat);
    }
    tess_tokenizer_destroy(&tokenizer);
    json_decref(messages);
}

static void prompts_of_messages_are_written_up_to_the_answer(void)
{
    static const char lines[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"the river\"}], \"label\": \"x\"}\n"
                                "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"chosen\": [{\"role\": "
                                "\"assistant\", \"content\": \"house\"}], "
                                "\"rejected\": [{\"role\": \"assistant\", \"content\": \"stone\"}]}\n";
    tess_tokenizer *tokenizer = tokenizer_of("gpt2");
    tess_chat_template *chat = parse(TURN);
    const tess_chat how = {chat, tokenizer, NULL, 0};
    char path[512];
    const char *file = path;
    tess_prompts *prompts;
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "chats.jsonl"));
    EXPECT_OK(tess_os_write_atomic(path, lines, sizeof(lines) - 1));
    tess_prompts_options options = {.files = &file, .n_files = 1, .tokenizer = tokenizer, .bos = {{1}, 1}, .eos_id = 2};
    EXPECT_FAILS(tess_prompts_open(test_mem(), &options, &prompts), TESS_E_UNSUPPORTED, "there is no chat template");
    options.chat = &how;
    EXPECT_OK(tess_prompts_open(test_mem(), &options, &prompts));
    EXPECT_INT(tess_prompts_count(prompts), 2);
    const tess_prompt_record *first = tess_prompts_at(prompts, 0);
    tess_buffer text = {.mem = test_mem()};
    EXPECT_TEXT(first->text, "<user>\nthe river.\n<assistant>\n");
    EXPECT_OK(tess_decode(tokenizer, first->ids, (size_t)first->n, false, &text));
    EXPECT_TEXT(text.data, first->text); /* no bos */
    tess_prompts_close(&prompts);
    EXPECT_OK(tess_os_write_atomic(path, strchr(lines, '\n') + 1, strlen(strchr(lines, '\n') + 1)));
    options.pairs = true;
    EXPECT_OK(tess_prompts_open(test_mem(), &options, &prompts));
    first = tess_prompts_at(prompts, 0);
    text.size = 0;
    EXPECT_OK(tess_decode(tokenizer, first->chosen, (size_t)first->n_chosen, false, &text));
    EXPECT_TEXT(text.data, "house.\n");
    text.size = 0;
    EXPECT_OK(tess_decode(tokenizer, first->rejected, (size_t)first->n_rejected, false, &text));
    EXPECT_TEXT(text.data, "stone.\n");
    tess_buffer_free(&text);
    tess_prompts_close(&prompts);
    tess_chat_template_destroy(&chat);
    tess_tokenizer_destroy(&tokenizer);
}

static const test_case cases[] = {
    {"templates_give_the_output_of_jinja2", templates_give_the_output_of_jinja2, 0, 0},
    {"what_jinja2_refuses_is_refused_with_its_line", what_jinja2_refuses_is_refused_with_its_line, 0, 0},
    {"what_is_not_supported_is_named", what_is_not_supported_is_named, 0, 0},
    {"a_template_without_end_is_stopped", a_template_without_end_is_stopped, 0, 0},
    {"conversations_have_the_ids_and_the_mask_of_transformers", conversations_have_the_ids_and_the_mask_of_transformers,
     0, 0},
    {"eleven_families_formats_have_the_ids_and_the_mask_of_transformers",
     eleven_families_formats_have_the_ids_and_the_mask_of_transformers, 0, 0},
    {"without_generation_blocks_a_turn_is_what_the_template_adds",
     without_generation_blocks_a_turn_is_what_the_template_adds, 0, 0},
    {"a_template_does_not_see_members_that_are_null", a_template_does_not_see_members_that_are_null, 0, 0},
    {"a_completion_is_all_behind_its_prompt", a_completion_is_all_behind_its_prompt, 0, 0},
    {"a_template_that_does_not_preserve_prefixes_is_refused", a_template_that_does_not_preserve_prefixes_is_refused, 0,
     0},
    {"prompts_of_messages_are_written_up_to_the_answer", prompts_of_messages_are_written_up_to_the_answer, 0, 0},
};
TEST_MAIN(cases)
