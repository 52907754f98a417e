/* Stop texts: found in tokens as they come, as in the text that they make together. */
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "data/tokenizer/stop_texts.h"
#include "support/test.h"

static const char *const styles[] = {"gpt2", "llama3", "qwen2", "llama2"};

static void load(const char *name, tess_tokenizer **tokenizer)
{
    char relative[128];
    snprintf(relative, sizeof(relative), "data/fixtures/%s.json", name);
    EXPECT_OK(tess_tokenizer_load(test_mem(), test_path(relative), tokenizer));
}

static void add_text(const tess_tokenizer *tokenizer, const char *text, tess_ids *ids)
{
    EXPECT_OK(tess_encode_text(tokenizer, text, strlen(text), false, ids));
}

/* The number of tokens up to the one that completes the stop text in what follows token `first`; 0: none does. Tokens
 * are decoded as a whole. */
static size_t tokens_to(const tess_tokenizer *tokenizer, const char *stop, const tess_ids *ids, size_t first)
{
    tess_buffer before = {.mem = test_mem()};
    EXPECT_OK(tess_decode(tokenizer, ids->data, first, false, &before));
    size_t found = 0;
    for (size_t n = first + 1; n <= ids->size && found == 0; n++) {
        tess_buffer text = {.mem = test_mem()};
        EXPECT_OK(tess_decode(tokenizer, ids->data, n, false, &text));
        if (text.size > before.size &&
            memmem(text.data + before.size, text.size - before.size, stop, strlen(stop)) != NULL)
            found = n;
        tess_buffer_free(&text);
    }
    tess_buffer_free(&before);
    return found;
}

static size_t tokens_to_end(const tess_tokenizer *tokenizer, const char *stop, const tess_ids *ids, size_t first)
{
    const char *const stops[] = {"never written", stop, NULL};
    for (size_t n = first + 1; n <= ids->size; n++) {
        bool ends;
        EXPECT_OK(tess_stop_texts_end(tokenizer, stops, ids->data, n, first, test_mem(), &ends));
        if (ends)
            return n;
    }
    return 0;
}

static void an_answer_ends_with_the_token_that_completes_a_stop_text(void)
{
    static const char *const words[] = {"the ", "brolling", "\n\n", "END", " of", " café", "clust", "er 12", ". ", "É"};
    static const char *const stops[] = {"e",   " ",   " of", "olli", "\n", "\n\nE",   "ND",  "é",
                                        "ust", "r 1", "er",  ".",    "É",  " of caf", "ther"};
    for (size_t s = 0; s < 4; s++) {
        tess_tokenizer *tokenizer;
        int n_found = 0;
        load(styles[s], &tokenizer);
        for (size_t shift = 0; shift < 10; shift++) {
            tess_ids ids = {.mem = test_mem()};
            add_text(tokenizer, "the prompt of É", &ids);
            const size_t first = ids.size;
            for (size_t i = 0; i < 10; i++)
                add_text(tokenizer, words[(i * 3 + shift) % 10], &ids);
            for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
                const size_t want = tokens_to(tokenizer, stops[i], &ids, first);
                const size_t got = tokens_to_end(tokenizer, stops[i], &ids, first);
                n_found += want > 0;
                if (got != want)
                    test_fail(__FILE__, __LINE__, "%s, shift %zu: '%s' ends after %zu tokens, expected %zu", styles[s],
                              shift, stops[i], got, want);
            }
            tess_ids_free(&ids);
        }
        EXPECT(n_found > 50);
        tess_tokenizer_destroy(&tokenizer);
    }
}

static void what_was_written_before_the_turn_ends_nothing(void)
{
    const char *const stops[] = {"brolling", NULL}, *const none[] = {NULL};
    tess_tokenizer *tokenizer;
    tess_ids ids = {.mem = test_mem()};
    bool ends;
    load("gpt2", &tokenizer);
    add_text(tokenizer, "the brol", &ids);
    const size_t first = ids.size;
    add_text(tokenizer, "ling", &ids);
    EXPECT_OK(tess_stop_texts_end(tokenizer, stops, ids.data, ids.size, first, test_mem(), &ends));
    EXPECT(!ends);
    EXPECT_OK(tess_stop_texts_end(tokenizer, stops, ids.data, ids.size, 1, test_mem(), &ends));
    EXPECT(ends);
    EXPECT_OK(tess_stop_texts_end(tokenizer, none, ids.data, ids.size, 1, test_mem(), &ends));
    EXPECT(!ends);
    tess_ids_free(&ids);
    tess_tokenizer_destroy(&tokenizer);
}

/* Its name is text: chat templates end a turn with one. */
static void a_special_token_is_found_by_its_name(void)
{
    const char *const stops[] = {"</s>", NULL};
    const int32_t ids[] = {5, 6, 2};
    tess_tokenizer *tokenizer;
    bool ends;
    load("llama2", &tokenizer);
    EXPECT_OK(tess_stop_texts_end(tokenizer, stops, ids, 2, 1, test_mem(), &ends));
    EXPECT(!ends);
    EXPECT_OK(tess_stop_texts_end(tokenizer, stops, ids, 3, 1, test_mem(), &ends));
    EXPECT(ends);
    tess_tokenizer_destroy(&tokenizer);
}

/* Appends the tokens of bytes that spell the text. */
static void add_bytes(const tess_tokenizer *tokenizer, const char *text, tess_ids *ids)
{
    char name[8];
    for (; *text != '\0'; text++) {
        snprintf(name, sizeof(name), "<0x%02X>", (unsigned)(unsigned char)*text);
        EXPECT_OK(tess_ids_append(ids, tess_tokenizer_id(tokenizer, name)));
    }
}

static void a_run_of_byte_tokens_ends_with_a_stop_text(void)
{
    tess_tokenizer *tokenizer;
    load("llama2", &tokenizer);
    for (size_t n_prompt = 0; n_prompt < 3; n_prompt++) { /* also of a prompt that ends in byte tokens */
        tess_ids ids = {.mem = test_mem()};
        add_text(tokenizer, "the", &ids);
        const size_t n = n_prompt < 2 ? n_prompt * ids.size : ids.size + 5;
        add_bytes(tokenizer, "\n\xf0\x9f\xab\xa0", &ids); /* the line end of a prompt of n tokens does not count */
        add_bytes(tokenizer, "\xf0\x9f\xab\xa0\xf0\x9f\xab\xa0\xf0\x9f\xab\xa0\xf0\x9f\xab\xa0\n", &ids);
        const size_t all = ids.size;
        EXPECT_INT(tokens_to_end(tokenizer, "\n", &ids, n), n_prompt < 2 ? all - 21 : all);
        EXPECT_INT(tokens_to_end(tokenizer, "\xab\xa0\n", &ids, n), all);
        tess_ids_free(&ids);
    }
    tess_tokenizer_destroy(&tokenizer);
}

static void a_text_and_its_prompt_part_at_a_character(void)
{
    static const struct {
        const char *before, *text;
        size_t n;
    } rows[] = {{"a\xef\xbc\x9a", "a\xef\xbf\xbd\xef\xbf\xbd", 1},
                {"a\xef\xbc\x9a", "a\xef\xbc\x9a", 4},
                {"a\xc3\xa9", "a", 1},
                {"", "b", 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tess_buffer before = {.mem = test_mem()}, text = before;
        EXPECT_OK(tess_buffer_append(&before, rows[i].before, strlen(rows[i].before)));
        EXPECT_OK(tess_buffer_append(&text, rows[i].text, strlen(rows[i].text)));
        EXPECT_INT(tess_text_common(&before, &text), rows[i].n);
        tess_buffer_free(&before);
        tess_buffer_free(&text);
    }
}

static const test_case cases[] = {
    CASE(an_answer_ends_with_the_token_that_completes_a_stop_text),
    CASE(what_was_written_before_the_turn_ends_nothing),
    CASE(a_special_token_is_found_by_its_name),
    CASE(a_run_of_byte_tokens_ends_with_a_stop_text),
    CASE(a_text_and_its_prompt_part_at_a_character),
};
TEST_MAIN(cases)
