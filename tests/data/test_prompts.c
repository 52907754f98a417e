/* Files of prompts: records, conversations, preference pairs, and what is refused. */
#include "data/conversation/prompts.h"

#include <stdlib.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "support/test.h"

static tess_tokenizer *the_tokenizer(void)
{
    tess_tokenizer *tokenizer;
    EXPECT_OK(tess_tokenizer_load(test_mem(), test_path("data/fixtures/gpt2.json"), &tokenizer));
    return tokenizer;
}

static const char *write_file(const char *name, const char *text)
{
    static char paths[32][512];
    static int n;
    char *path = paths[n++];
    EXPECT_OK(tess_os_join(path, sizeof(paths[0]), test_folder(), name));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    return path;
}

static void expect_ids(const tess_tokenizer *tokenizer, const int32_t *ids, int64_t n, const char *want)
{
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_decode(tokenizer, ids, (size_t)n, false, &text));
    EXPECT_TEXT(text.data, want);
    tess_buffer_free(&text);
}

static tess_prompts_options options_for(const tess_tokenizer *tokenizer, const char *const *file)
{
    return (tess_prompts_options){
        .files = file, .n_files = 1, .tokenizer = tokenizer, .bos = {{1}, 1}, .eos_id = 2}; /* "!" and "\"" */
}

static void a_line_is_a_prompt_with_its_label_and_metadata(void)
{
    static const char text[] = "{\"prompt\": \"the river\", \"answer\": \"blue\", \"metadata\": {\"n\": [1, 2]}}\r\n"
                               "\n  \n"
                               "{\"prompt\": \"seven\", \"label\": 42, \"answer\": \"no\"}\n"
                               "{\"prompt\": \"\", \"ground_truth\": {\"a\": 1.5}, \"metadata\": null}\n"
                               "{\"prompt\": \"caf\\u00e9\", \"label\": \"\"}\n"
                               "{\"prompt\": \"last\"}";
    static const char *const want[][3] = {{"the river", "blue", "!the river"},
                                          {"seven", "42", "!seven"},
                                          {"", "{\"a\":1.5}", "!"},
                                          {"caf\xc3\xa9", "", "!caf\xc3\xa9"},
                                          {"last", NULL, "!last"}};
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *file = write_file("prompts.jsonl", text);
    tess_prompts_options options = options_for(tokenizer, &file);
    tess_prompts *prompts;
    EXPECT_OK(tess_prompts_open(test_mem(), &options, &prompts));
    EXPECT_INT(tess_prompts_count(prompts), 5);
    EXPECT_INT(tess_prompts_dropped(prompts), 0);
    for (int i = 0; i < 5; i++) {
        const tess_prompt_record *record = tess_prompts_at(prompts, i);
        EXPECT_INT(record->size, strlen(want[i][0]));
        EXPECT_TEXT(record->text, want[i][0]);
        expect_ids(tokenizer, record->ids, record->n, want[i][2]);
        EXPECT_INT(record->label != NULL, want[i][1] != NULL);
        if (record->label != NULL) {
            EXPECT_TEXT(record->label, want[i][1]);
            EXPECT_INT(record->label_size, strlen(want[i][1]));
        }
        EXPECT(record->chosen == NULL && record->rejected == NULL);
        EXPECT_INT(record->metadata != NULL, i == 0);
    }
    const json_t *numbers = json_object_get(tess_prompts_at(prompts, 0)->metadata, "n");
    EXPECT_INT(json_integer_value(json_array_get(numbers, 1)), 2);
    tess_prompts_close(&prompts);
    tess_tokenizer_destroy(&tokenizer);
}

static void a_pair_has_a_better_and_a_worse_completion_with_their_eos(void)
{
    static const char text[] = "{\"prompt\": \"the river\", \"chosen\": \" of stone\", \"rejected\": \"\"}\n"
                               "{\"prompt\": \"a\", \"chosen\": \" house\", \"rejected\": \" and seven lights\"}\n";
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *file = write_file("pairs.jsonl", text);
    tess_prompts_options options = options_for(tokenizer, &file);
    options.pairs = true;
    tess_prompts *prompts;
    EXPECT_OK(tess_prompts_open(test_mem(), &options, &prompts));
    const tess_prompt_record *first = tess_prompts_at(prompts, 0), *second = tess_prompts_at(prompts, 1);
    expect_ids(tokenizer, first->chosen, first->n_chosen, " of stone\"");
    expect_ids(tokenizer, first->rejected, first->n_rejected, "\"");
    expect_ids(tokenizer, second->chosen, second->n_chosen, " house\"");
    expect_ids(tokenizer, second->rejected, second->n_rejected, " and seven lights\"");
    options.max_tokens = second->n + second->n_rejected; /* the first one's are as many or fewer */
    EXPECT(first->n + first->n_chosen <= options.max_tokens);
    tess_prompts_close(&prompts);
    EXPECT_OK(tess_prompts_open(test_mem(), &options, &prompts));
    EXPECT_INT(tess_prompts_dropped(prompts), 0);
    tess_prompts_close(&prompts);
    options.max_tokens--;
    EXPECT_OK(tess_prompts_open(test_mem(), &options, &prompts));
    EXPECT_INT(tess_prompts_dropped(prompts), 1);
    EXPECT_TEXT(tess_prompts_at(prompts, 0)->text, "the river");
    tess_prompts_close(&prompts);
    tess_tokenizer_destroy(&tokenizer);
}

static uint64_t hash_of(const tess_prompts_options *options)
{
    tess_prompts *prompts;
    EXPECT_OK(tess_prompts_open(test_mem(), options, &prompts));
    uint64_t hash = tess_prompts_hash(prompts);
    tess_prompts_close(&prompts);
    return hash;
}

static void the_hash_follows_everything_that_the_records_hold(void)
{
    static const char *const other[] = {
        "{\"prompt\": \"a\", \"label\": \"x\"}\n{\"prompt\": \"c\"}\n",
        "{\"prompt\": \"b\"}\n{\"prompt\": \"a\", \"label\": \"x\"}\n",
        "{\"prompt\": \"a\", \"label\": \"y\"}\n{\"prompt\": \"b\"}\n",
        "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n",
        "{\"prompt\": \"a\", \"label\": \"\"}\n{\"prompt\": \"b\"}\n",
        "{\"prompt\": \"a\", \"label\": \"x\", \"metadata\": 1}\n{\"prompt\": \"b\"}\n",
        "{\"prompt\": \"a\", \"label\": \"x\"}\n{\"prompt\": \"b\"}\n{\"prompt\": \"b\"}\n",
    };
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *file = write_file("one.jsonl", "{\"prompt\": \"a\", \"label\": \"x\"}\n{\"prompt\": \"b\"}\n");
    const char *apart[] = {write_file("first.jsonl", "\n{\"label\": \"x\", \"prompt\": \"a\", \"seen\": 1}"),
                           write_file("second.jsonl", "{\"prompt\": \"b\"}\n")};
    tess_prompts_options options = options_for(tokenizer, &file), two = options;
    uint64_t hash = hash_of(&options);
    two.files = apart;
    two.n_files = 2;
    EXPECT(hash_of(&two) == hash); /* the same records */
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        const char *changed = write_file("other.jsonl", other[i]);
        tess_prompts_options others = options_for(tokenizer, &changed);
        EXPECT(hash_of(&others) != hash);
    }
    options.bos.n = 0;
    EXPECT(hash_of(&options) != hash);
    tess_tokenizer_destroy(&tokenizer);
}

static void the_common_beginning_of_a_pair_is_its_prompt(void)
{
#define SAY(role, text) "{\"role\": \"" role "\", \"content\": \"" text "\"}"
#define PAIR(before, turns) \
    "{" before "\"chosen\": [" turns SAY("assistant", "b") "], \"rejected\": [" turns SAY("assistant", "c") "]}\n"
    static const char *const pairs[] = {
        PAIR("\"prompt\": [" SAY("user", "a") "], ", ""),
        PAIR("", SAY("user", "a") ", "),
        PAIR("\"prompt\": \"a\", ", SAY("user", "a") ", "),
        PAIR("\"prompt\": \"a\", ", ""),
    };
    static const char template[] =
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: "
        "{% endif %}";
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_chat chat = {.tokenizer = tokenizer};
    tess_chat_template *parsed;
    tess_prompts *prompts;
    EXPECT_OK(tess_chat_template_parse(test_mem(), template, sizeof(template) - 1, &parsed));
    chat.chat = parsed;
    const char *file = write_file("pairs.jsonl", pairs[0]);
    tess_prompts_options options = options_for(tokenizer, &file);
    options.pairs = true;
    options.chat = &chat;
    uint64_t hash = hash_of(&options);
    for (int i = 1; i < 4; i++) {
        file = write_file("others.jsonl", pairs[i]);
        EXPECT(hash_of(&options) == hash);
    }
    file = write_file("apart.jsonl", PAIR("", ""));
    EXPECT_FAILS(tess_prompts_open(test_mem(), &options, &prompts), TESS_E_FORMAT, "it has no 'prompt'");
    tess_chat_template_destroy(&parsed);
    tess_tokenizer_destroy(&tokenizer);
}

/* A million elements take a second. If each is taken off the beginning of a list, they take minutes. */
static void the_common_beginning_of_a_pair_may_be_long(void)
{
    enum { MANY = 1000000 };
    static const char template[] = "{{ messages[-1].content }}";
    char *turns = malloc(2 * MANY + 1), *line = NULL;
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_chat_template *parsed;
    tess_prompts *prompts;
    EXPECT_OK(tess_chat_template_parse(test_mem(), template, sizeof(template) - 1, &parsed));
    for (size_t i = 0; i < MANY; i++)
        memcpy(turns + 2 * i, "0,", 3);
    EXPECT(asprintf(&line, "{\"chosen\": [%s1], \"rejected\": [%s2]}", turns, turns) > 0);
    const char *file = write_file("long.jsonl", line);
    const tess_chat chat = {.chat = parsed, .tokenizer = tokenizer};
    tess_prompts_options options = options_for(tokenizer, &file);
    options.pairs = true;
    options.chat = &chat;
    EXPECT_FAILS(tess_prompts_open(test_mem(), &options, &prompts), TESS_E_FORMAT, "message 1 is not an object");
    tess_chat_template_destroy(&parsed);
    tess_tokenizer_destroy(&tokenizer);
    free(turns);
    free(line);
}

static void prompts_that_are_too_long_are_dropped_and_counted(void)
{
    tess_tokenizer *tokenizer = the_tokenizer();
    const char *file = write_file(
        "long.jsonl",
        "{\"prompt\": \"a house of stone and lights\", \"metadata\": 1}\n{\"prompt\": \"a\", \"label\": \"x\"}\n"
        "{\"prompt\": \"the river and the river and the river\"}\n{\"prompt\": \"b\", \"metadata\": 2}\n");
    tess_prompts_options options = options_for(tokenizer, &file);
    options.max_prompt_tokens = 3;
    tess_prompts *prompts;
    EXPECT_OK(tess_prompts_open(test_mem(), &options, &prompts));
    EXPECT_INT(tess_prompts_count(prompts), 2);
    EXPECT_INT(tess_prompts_dropped(prompts), 2);
    EXPECT_TEXT(tess_prompts_at(prompts, 0)->text, "a");
    EXPECT_TEXT(tess_prompts_at(prompts, 0)->label, "x");
    EXPECT_INT(json_integer_value(tess_prompts_at(prompts, 1)->metadata), 2);
    expect_ids(tokenizer, tess_prompts_at(prompts, 1)->ids, 2, "!b");
    tess_prompts_close(&prompts);
    options.max_prompt_tokens = 1;
    EXPECT_FAILS(tess_prompts_open(test_mem(), &options, &prompts), TESS_E_INVALID,
                 "each of the 4 prompts is longer than the 1 tokens");
    EXPECT(prompts == NULL);
    tess_tokenizer_destroy(&tokenizer);
}

static void bad_lines_are_named_with_their_file(void)
{
    static const struct {
        const char *text;
        bool pairs;
        tess_status status;
        const char *needles[2];
    } files[] = {
        {"{\"prompt\": \"a\"}\n{\"promt\": \"b\"}\n", false, TESS_E_FORMAT, {"bad.jsonl: line 2", "no 'prompt'"}},
        {"\n\n{\"prompt\": 5}\n", false, TESS_E_FORMAT, {"bad.jsonl: line 3", "'prompt' is an integer"}},
        {"{\"prompt\": \"a\"\n", false, TESS_E_FORMAT, {"bad.jsonl: line 1", "not valid JSON"}},
        {"[1]\n", false, TESS_E_FORMAT, {"bad.jsonl: line 1", "expected an object"}},
        {"{\"prompt\": \"\"}\n", false, TESS_E_FORMAT, {"bad.jsonl: line 1", "'prompt' is empty"}},
        {"{\"prompt\": \"a\", \"chosen\": \"b\"}\n", true, TESS_E_FORMAT, {"bad.jsonl: line 1", "no 'rejected'"}},
        {"{\"prompt\": \"a\", \"chosen\": \"\", \"rejected\": \"b\"}\n",
         true,
         TESS_E_FORMAT,
         {"'chosen' is empty", "no eos"}},
        {" \n\n", false, TESS_E_INVALID, {"bad.jsonl", "no prompt"}},
        {"", false, TESS_E_INVALID, {"bad.jsonl", "no prompt"}},
    };
    tess_tokenizer *tokenizer = the_tokenizer();
    tess_prompts *prompts;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const char *file = write_file("bad.jsonl", files[i].text);
        tess_prompts_options options = options_for(tokenizer, &file);
        options.bos.n = 0;
        options.eos_id = -1;
        options.pairs = files[i].pairs;
        EXPECT_FAILS(tess_prompts_open(test_mem(), &options, &prompts), files[i].status, files[i].needles[0]);
        EXPECT_CONTAINS(tess_error_message(), files[i].needles[1]);
        EXPECT(prompts == NULL);
    }
    const char *gone = "gone.jsonl";
    tess_prompts_options options = options_for(tokenizer, &gone);
    EXPECT_FAILS(tess_prompts_open(test_mem(), &options, &prompts), TESS_E_NOT_FOUND, "gone.jsonl");
    options.n_files = 0;
    EXPECT_FAILS(tess_prompts_open(test_mem(), &options, &prompts), TESS_E_INVALID, "no files");
    tess_tokenizer_destroy(&tokenizer);
}

static const test_case cases[] = {
    CASE(a_line_is_a_prompt_with_its_label_and_metadata),
    CASE(a_pair_has_a_better_and_a_worse_completion_with_their_eos),
    CASE(the_hash_follows_everything_that_the_records_hold),
    CASE(the_common_beginning_of_a_pair_is_its_prompt),
    CASE(the_common_beginning_of_a_pair_may_be_long, 0, 60),
    CASE(prompts_that_are_too_long_are_dropped_and_counted),
    CASE(bad_lines_are_named_with_their_file),
};
TEST_MAIN(cases)
