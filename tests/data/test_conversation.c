/* Conversations as tokens, against transformers by fixtures of tools/make_template_fixtures.py. */
#include <stdio.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "data/conversation/conversation.h"
#include "data/conversation/prompts.h"
#include "data/conversation/training_template.h"
#include "data/loader/encode_block.h"
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
    bool whole;
    EXPECT_OK(tess_encoder_create(test_mem(), how->tokenizer, &encoder));
    EXPECT_OK(tess_conversation_encode(how, encoder, messages, n_prompt, NULL, ids, loss, &whole));
    EXPECT(whole);
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

/* gpt2.json with a family's special tokens after its own. */
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
        const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
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
        tess_tokenizer_set_named(tokenizer, json_incref(variables));
        const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
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

static void without_generation_blocks_a_turn_is_what_the_template_adds(void)
{
    static const char *const names[] = {"gpt2", "llama2"}; /* pieces of the text; and not */
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "user", "content",
                                 "the river", "role", "assistant", "content", "of stone", "role", "user", "content",
                                 "and", "role", "assistant", "content", "lights");
    for (int i = 0; i < 2; i++) {
        tess_tokenizer *tokenizer = tokenizer_of(names[i]);
        tess_chat_template *chat = parse(TURN);
        const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
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
    const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_conversation_write(&how, messages, NULL, false, &text, NULL));
    EXPECT_TEXT(text.data, "usera;assistant-3;");
    EXPECT(json_object_get(json_array_get(messages, 1), "content") != NULL); /* the caller's are as they were */
    tess_buffer_free(&text);
    tess_chat_template_destroy(&chat);
    tess_tokenizer_destroy(&tokenizer);
    json_decref(messages);
}

/* The prompt has three messages, one of them the assistant's. The template may have generation blocks. */
/* Allocations of jansson before the one that fails. */
static int allocations_left;

static void *fail_once(size_t size)
{
    return allocations_left-- != 0 ? malloc(size) : NULL;
}

/* A message must not lose members when memory runs out. */
static void a_conversation_is_written_whole_or_not_at_all(void)
{
    json_t *messages = json_pack("[{s:s, s:s, s:s}, {s:s, s:s, s:s}]", "role", "user", "content", "a", "name", "x",
                                 "role", "assistant", "content", "b", "reasoning", "c");
    tess_tokenizer *tokenizer = tokenizer_of("gpt2");
    tess_chat_template *chat = parse("{% for m in messages %}{{ m.role }}{{ m.content }}{{ m.name }}"
                                     "{{ m.reasoning_content }}{{ m.thinking }};{% endfor %}");
    const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
    int n = 0;
    json_set_alloc_funcs(fail_once, free);
    for (bool failed = true; failed; n++) {
        tess_buffer text = {.mem = test_mem()};
        allocations_left = n;
        tess_status status = tess_conversation_write(&how, messages, NULL, false, &text, NULL);
        EXPECT(status == TESS_OK || status == TESS_E_NOMEM);
        if (status == TESS_OK)
            EXPECT_TEXT(text.data, "userax;assistantbcc;");
        failed = allocations_left < 0;
        tess_buffer_free(&text);
    }
    json_set_alloc_funcs(malloc, free);
    EXPECT(n > 10);
    tess_chat_template_destroy(&chat);
    tess_tokenizer_destroy(&tokenizer);
    json_decref(messages);
}

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
        const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
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

/* Writes each document as "context[answer]": the tokens that are trained on in brackets. */
static void write_documents(const tess_tokenizer *tokenizer, const tess_token_block *block, tess_buffer *text)
{
    for (size_t d = 0, at = 0; d < block->n_documents; at += block->documents[d++].n_tokens)
        for (size_t i = at; i < at + block->documents[d].n_tokens; i++) {
            bool counts = block->loss.data[i] == 1, counted = i > at && block->loss.data[i - 1] == 1;
            if (counts && !counted)
                EXPECT_OK(tess_buffer_append(text, "[", 1));
            EXPECT_OK(tess_decode(tokenizer, &block->ids.data[i], 1, false, text));
            if (counts && i + 1 == at + block->documents[d].n_tokens)
                EXPECT_OK(tess_buffer_append(text, "]", 1));
        }
}

/* If a template leaves out earlier answers, what the model sees depends on the turn that it answers. */
static void a_template_that_changes_earlier_turns_gives_a_document_for_each_turn(void)
{
    static const char line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"the river\"}, {\"role\": "
                               "\"assistant\", \"content\": \"of stone\"}, {\"role\": \"user\", \"content\": \"and\"}, "
                               "{\"role\": \"assistant\", \"content\": \"lights\"}]}";
    tess_tokenizer *tokenizer = tokenizer_of("gpt2");
    tess_chat_template *chat = parse("{% for m in messages %}<{{ m.role }}>\n{{ m.content if loop.last or m.role == "
                                     "'user' }}.\n{% endfor %}{% if add_generation_prompt %}<assistant>\n{% endif %}");
    const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
    const tess_text_rules rules = {tess_document_keys_of(NULL, NULL, NULL), &how};
    const tess_buffer lines = {.data = (char *)line, .size = sizeof(line) - 1};
    tess_token_block block = tess_token_block_of(test_mem());
    tess_buffer text = {.mem = test_mem()};
    tess_encoder *encoder;
    size_t bad_at;
    EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
    EXPECT_OK(tess_encode_block(&rules, encoder, TESS_TEXT_LINES, &lines, &block, &bad_at));
    EXPECT_INT(block.n_documents, 2);
    EXPECT(block.by_turns);
    write_documents(tokenizer, &block, &text);
    EXPECT_TEXT(text.data, "<user>\nthe river.\n<assistant>\n[of stone.\n]"
                           "<user>\nthe river.\n<assistant>\n.\n<user>\nand.\n<assistant>\n[lights.\n]");
    tess_buffer_free(&text);
    tess_token_block_free(&block);
    tess_encoder_destroy(&encoder);
    tess_chat_template_destroy(&chat);
    tess_tokenizer_destroy(&tokenizer);
}

/* The text up to an answer may be longer than all of the conversation's. */
static void a_template_may_write_less_once_others_follow(void)
{
    enum { LONG = 32 << 20 };
    char *question = malloc(LONG + 1);
    memset(question, 'a', LONG);
    question[LONG] = '\0';
    json_t *messages =
        json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "user", "content", question, "role",
                  "assistant", "content", "b", "role", "user", "content", "c", "role", "assistant", "content", "d");
    tess_tokenizer *tokenizer = tokenizer_of("gpt2");
    tess_chat_template *chat = parse("{% for m in messages %}{{ m.content if loop.length <= 2 else 'x' }}{% endfor %}");
    tess_encoder *encoder;
    const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
    tess_ids ids = {.mem = test_mem()};
    tess_buffer loss = {.mem = test_mem()};
    bool whole;
    EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
    EXPECT_OK(tess_conversation_encode(&how, encoder, messages, 0, NULL, &ids, &loss, &whole));
    EXPECT(!whole);
    EXPECT_INT(ids.size, 0);
    json_decref(messages);
    free(question);
    tess_encoder_destroy(&encoder);
    tess_chat_template_destroy(&chat);
    tess_tokenizer_destroy(&tokenizer);
}

static void an_answer_that_does_not_follow_its_prompt_is_refused(void)
{
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "a", "role", "assistant",
                                 "content", "b"),
           *odd = json_pack("[i]", 1);
    tess_tokenizer *tokenizer = tokenizer_of("gpt2");
    tess_chat_template *chat =
        parse("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ 'bot:' if add_generation_prompt }}");
    tess_encoder *encoder;
    tess_chat how = {.chat = chat, .tokenizer = tokenizer};
    tess_ids ids = {.mem = test_mem()};
    tess_buffer loss = {.mem = test_mem()};
    bool whole;
    EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
    EXPECT_FAILS(
        tess_conversation_encode(&how, encoder, messages, 0, NULL, &ids, &loss, &whole), TESS_E_UNSUPPORTED,
        "does not preserve prefixes: what it writes up to message 2, of the assistant, does not begin with the prompt");
    EXPECT_FAILS(tess_conversation_encode(&how, encoder, odd, 0, NULL, &ids, &loss, &whole), TESS_E_FORMAT,
                 "message 1 is not");
    how.chat = NULL;
    EXPECT_FAILS(tess_conversation_encode(&how, encoder, messages, 0, NULL, &ids, &loss, &whole), TESS_E_UNSUPPORTED,
                 "there is no chat template");
    snprintf(how.problem, sizeof(how.problem), "line 3: no");
    EXPECT_FAILS(tess_conversation_encode(&how, encoder, messages, 0, NULL, &ids, &loss, &whole), TESS_E_UNSUPPORTED,
                 "the chat template cannot be used: line 3: no");
    json_decref(odd);
    json_decref(messages);
    tess_encoder_destroy(&encoder);
    tess_chat_template_destroy(&chat);
    tess_tokenizer_destroy(&tokenizer);
}

/* The family's own template is at hand, too, as it is for a model. */
static void training_templates_have_the_ids_and_the_mask_of_transformers(void)
{
    static const char *const names[] = {"Qwen3", "DeepSeek-R1"};
    json_t *all = fixtures();
    const json_t *families = json_object_get(all, "trained");
    EXPECT_INT(json_array_size(families), 2);
    for (size_t i = 0; i < json_array_size(families); i++) {
        const json_t *family = json_array_get(families, i), *cases = json_object_get(family, "cases");
        tess_tokenizer *tokenizer = tokenizer_with(json_object_get(family, "specials"));
        tess_chat_template *own = parse(json_string_value(json_object_get(family, "own"))), *training;
        tess_chat how = {.chat = own, .tokenizer = tokenizer};
        const char *name;
        int32_t end;
        tess_encoder *encoder;
        tess_tokenizer_set_named(tokenizer, json_pack("{s:O}", "bos_token", json_object_get(family, "bos_token")));
        EXPECT_OK(tess_training_template_find(test_mem(), &how, &training, &name));
        EXPECT(training != NULL);
        EXPECT_TEXT(name, names[i]);
        how.training = training;
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *one = json_array_get(cases, k);
            expect_conversation(&how, json_object_get(one, "messages"), json_object_get(one, "ids"),
                                json_string_value(json_object_get(one, "mask")));
        }
        /* A completion follows the family's own prompt where it can: without thoughts of earlier turns. */
        tess_ids ids = {.mem = test_mem()};
        tess_buffer loss = {.mem = test_mem()}, text = {.mem = test_mem()}, answer = {.mem = test_mem()};
        encode(&how, json_object_get(json_array_get(cases, 0), "messages"), 3, &ids, &loss);
        EXPECT_OK(tess_decode(tokenizer, ids.data, ids.size, false, &text));
        marked(tokenizer, &ids, &loss, &answer);
        EXPECT_TEXT(answer.data, i == 0 ? "<think>\n\n</think>\n\n lights\n<|im_end|>\n"
                                        : "</think>\n\n lights\n<\uff5cend\u2581of\u2581sentence\uff5c>");
        EXPECT_INT(strstr(text.data, "</think>\n\nseven") != NULL, i == 1);
        tess_ids_free(&ids);
        tess_buffer_free(&loss);
        tess_buffer_free(&text);
        tess_buffer_free(&answer);
        /* The token that ends an answer is found although a thought comes before it. */
        EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
        EXPECT_OK(tess_conversation_end(&how, encoder, test_mem(), &end));
        EXPECT_INT(end, json_integer_value(json_array_get(json_array_get(json_object_get(family, "specials"), 1), 1)));
        tess_encoder_destroy(&encoder);
        tess_chat_template_destroy(&training);
        tess_chat_template_destroy(&own);
        tess_tokenizer_destroy(&tokenizer);
    }
    json_decref(all);
}

/* A template that is not recognised, has marks, or writes this conversation in its own way is used as it is. */
static void a_training_template_stands_in_only_for_what_it_writes_alike(void)
{
    static const char plain[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
    json_t *all = fixtures();
    const json_t *family = json_array_get(json_object_get(all, "trained"), 0);
    const char *own = json_string_value(json_object_get(family, "own"));
    tess_tokenizer *tokenizer = tokenizer_with(json_object_get(family, "specials"));
    char *marked_text, *tools_text;
    EXPECT(asprintf(&marked_text, "{%% generation %%}{%% endgeneration %%}%s", own) > 0);
    EXPECT(asprintf(&tools_text, "%s{%% for t in tools or [] %%}{{ t }}{%% endfor %%}", own) > 0);
    const char *const texts[] = {plain, marked_text, tools_text};
    for (int i = 0; i < 3; i++) {
        tess_chat_template *chat = parse(texts[i]), *training;
        tess_chat how = {.chat = chat, .tokenizer = tokenizer};
        const char *name;
        bool fits;
        EXPECT_OK(tess_training_template_find(test_mem(), &how, &training, &name));
        EXPECT(i < 2 ? training == NULL : training != NULL);
        how.training = training;
        const json_t *messages = json_object_get(json_array_get(json_object_get(family, "cases"), 0), "messages");
        json_t *tools = json_pack("[s]", "a tool");
        EXPECT_OK(tess_training_template_fits(test_mem(), &how, messages, NULL, &fits));
        EXPECT_INT(fits, i == 2);
        EXPECT_OK(tess_training_template_fits(test_mem(), &how, messages, tools, &fits));
        EXPECT(!fits);
        json_decref(tools);
        tess_chat_template_destroy(&training);
        tess_chat_template_destroy(&chat);
    }
    free(marked_text);
    free(tools_text);
    tess_tokenizer_destroy(&tokenizer);
    json_decref(all);
}

/* n messages in turn. Some answers have a member that the template does not show. */
static json_t *long_conversation(int n)
{
    json_t *messages = json_array();
    for (int i = 0; i < n; i++) {
        char content[32];
        snprintf(content, sizeof(content), "the river %d", i * 7919 % 1000);
        json_t *message = json_pack("{s:s, s:s}", "role", i % 2 == 0 ? "user" : "assistant", "content", content);
        if (i % 8000 == 1)
            json_object_set_new(message, "call", json_string("not shown"));
        json_array_append_new(messages, message);
    }
    return messages;
}

/* Templates without generation blocks, and the same with them. In the first two a loop over the messages writes each
 * turn. The third begins some turns otherwise. In the last no loop is over the messages. */
static void a_long_conversation_has_the_turns_of_generation_blocks(void)
{
    static const struct {
        const char *tokenizer;
        int n;
        const char *plain, *marked;
    } rows[] = {
        {"gpt2", 20000, TURN,
         "{% for m in messages %}<{{ m.role }}>\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}.\n"
         "{% endgeneration %}{% else %}{{ m.content }}.\n{% endif %}{% endfor %}"},
        {"llama2", 4000,
         "{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else ' ' + m.content + "
         "'</s>' "
         "}}{% endfor %}",
         "{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}"
         "{% generation %}{{ ' ' + m.content + '</s>' }}{% endgeneration %}{% endif %}{% endfor %}"},
        {"gpt2", 400,
         "{% for m in messages %}{{ '!' if loop.index0 % 70 == 1 }}<{{ m.role }}>\n{{ m.content }}.\n{% endfor %}{{ "
         "('!' if messages | length % 70 == 1) ~ '<assistant>\n' if add_generation_prompt }}",
         "{% for m in messages %}{{ '!' if loop.index0 % 70 == 1 }}<{{ m.role }}>\n{% if m.role == 'assistant' %}"
         "{% generation %}{{ m.content }}.\n{% endgeneration %}{% else %}{{ m.content }}.\n{% endif %}{% endfor %}"},
        {"gpt2", 400,
         "{% for i in range(messages | length) %}<{{ messages[i].role }}>\n{{ messages[i].content }}.\n{% endfor %}{{ "
         "'<assistant>\n' if add_generation_prompt }}",
         "{% for m in messages %}<{{ m.role }}>\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}.\n"
         "{% endgeneration %}{% else %}{{ m.content }}.\n{% endif %}{% endfor %}"}};
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        json_t *messages = long_conversation(rows[r].n);
        tess_tokenizer *tokenizer = tokenizer_of(rows[r].tokenizer);
        tess_ids ids[2] = {{.mem = test_mem()}, {.mem = test_mem()}};
        tess_buffer loss[2] = {{.mem = test_mem()}, {.mem = test_mem()}};
        for (int i = 0; i < 2; i++) {
            tess_chat_template *chat = parse(i == 0 ? rows[r].plain : rows[r].marked);
            const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
            encode(&how, messages, 0, &ids[i], &loss[i]);
            tess_chat_template_destroy(&chat);
        }
        EXPECT_INT(ids[0].size, ids[1].size);
        EXPECT(memcmp(ids[0].data, ids[1].data, ids[0].size * sizeof(int32_t)) == 0);
        for (size_t i = 0; i < ids[0].size; i++)
            if (loss[0].data[i] != loss[1].data[i])
                test_fail(__FILE__, __LINE__, "row %zu: token %zu of %zu", r, i, ids[0].size);
        for (int i = 0; i < 2; i++) {
            tess_ids_free(&ids[i]);
            tess_buffer_free(&loss[i]);
        }
        tess_tokenizer_destroy(&tokenizer);
        json_decref(messages);
    }
}

static void prompts_of_messages_are_written_up_to_the_answer(void)
{
    static const char lines[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"the river\"}], \"label\": \"x\"}\n"
                                "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"chosen\": [{\"role\": "
                                "\"assistant\", \"content\": \"house\"}], "
                                "\"rejected\": [{\"role\": \"assistant\", \"content\": \"stone\"}]}\n";
    tess_tokenizer *tokenizer = tokenizer_of("gpt2");
    tess_chat_template *chat = parse(TURN);
    const tess_chat how = {.chat = chat, .tokenizer = tokenizer};
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
    CASE(eleven_families_formats_have_the_ids_and_the_mask_of_transformers),
    CASE(conversations_have_the_ids_and_the_mask_of_transformers),
    CASE(without_generation_blocks_a_turn_is_what_the_template_adds),
    CASE(a_template_does_not_see_members_that_are_null),
    CASE(a_conversation_is_written_whole_or_not_at_all),
    CASE(a_completion_is_all_behind_its_prompt),
    CASE(a_template_that_changes_earlier_turns_gives_a_document_for_each_turn),
    CASE(a_template_may_write_less_once_others_follow),
    CASE(an_answer_that_does_not_follow_its_prompt_is_refused),
    CASE(training_templates_have_the_ids_and_the_mask_of_transformers),
    CASE(a_training_template_stands_in_only_for_what_it_writes_alike),
    CASE(a_long_conversation_has_the_turns_of_generation_blocks),
    CASE(prompts_of_messages_are_written_up_to_the_answer),
};
TEST_MAIN(cases)
