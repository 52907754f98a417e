/* Tokenizers of the model families: ids and texts of Hugging Face tokenizers, texts that grow, and the tokens around
 * a text. tools/make_family_tokenizers.py writes the fixtures. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "data/tokenizer/tokenizer.h"
#include "support/test.h"

static const char *const families[] = {"cohere2",        "cohere2_aya",
                                       "deepseek_llm",   "deepseek_v2",
                                       "deepseek_v3",    "exaone4",
                                       "exaone_moe",     "gemma",
                                       "gemma3",         "glm4",
                                       "gpt_neox",       "gpt_oss",
                                       "granite",        "granite4",
                                       "llama2",         "llama3",
                                       "llama2_legacy",  "llama2_unprefixed",
                                       "ministral3",     "mistral_v1",
                                       "mistral_v3",     "olmo2",
                                       "olmo2_superbpe", "olmoe",
                                       "phi3",           "phi4",
                                       "qwen2_5",        "qwen3_moe",
                                       "smollm3",        "stablelm2",
                                       "starcoder2",     "starcoder2_class"};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

static json_t *load_json(const char *name)
{
    char relative[128];
    json_error_t error;
    snprintf(relative, sizeof(relative), "data/families/%s.json", name);
    json_t *json = json_load_file(test_path(relative), JSON_ALLOW_NUL, &error);
    EXPECT(json != NULL);
    return json;
}

/* Completes the fixture's tokenizer.json by its vocabulary, which families share: tokens of its own come first. */
static json_t *whole_tokenizer(const json_t *shared, const json_t *family)
{
    json_t *json = json_object_get(family, "tokenizer"), *model = json_object_get(json, "model"),
           *vocab = json_object();
    const json_t *vocabulary = json_object_get(json_object_get(shared, "vocabularies"),
                                               json_string_value(json_object_get(family, "vocabulary")));
    const json_t *const parts[] = {json_object_get(family, "first"), json_object_get(vocabulary, "tokens")}, *token;
    size_t i;
    for (int k = 0; k < 2; k++)
        json_array_foreach (parts[k], i, token)
            json_object_set_new(vocab, json_string_value(token), json_integer((json_int_t)json_object_size(vocab)));
    json_object_set_new(model, "vocab", vocab);
    json_object_set(model, "merges", json_object_get(vocabulary, "merges"));
    return json;
}

static void open_family(const json_t *shared, const char *name, json_t **family, tess_tokenizer **tokenizer)
{
    *family = load_json(name);
    char *text = json_dumps(whole_tokenizer(shared, *family), 0);
    EXPECT_OK(tess_tokenizer_parse(test_mem(), text, strlen(text), name, tokenizer));
    free(text);
}

static void add_ids(const json_t *list, tess_ids *ids)
{
    const json_t *id;
    size_t i;
    json_array_foreach (list, i, id)
        EXPECT_OK(tess_ids_append(ids, (int32_t)json_integer_value(id)));
}

static void expect_ids(const char *what, size_t text, const tess_ids *ids, const tess_ids *want)
{
    for (size_t i = 0; i < ids->size && i < want->size; i++) {
        if (ids->data[i] != want->data[i])
            test_fail(__FILE__, __LINE__, "%s, text %zu: id %zu of %zu is %d, expected %d", what, text, i, want->size,
                      ids->data[i], want->data[i]);
    }
    if (ids->size != want->size)
        test_fail(__FILE__, __LINE__, "%s, text %zu: %zu ids, expected %zu", what, text, ids->size, want->size);
}

static void expect_text(const char *what, size_t text, const tess_buffer *got, const json_t *want)
{
    size_t size = json_string_length(want);
    if (got->size != size || memcmp(got->data, json_string_value(want), size) != 0)
        test_fail(__FILE__, __LINE__, "%s, text %zu: decoded to '%s', expected '%s'", what, text, got->data,
                  json_string_value(want));
}

/* Decodes the ids, with special tokens and without. */
static void expect_decoded(const char *what, size_t k, const tess_tokenizer *tokenizer, const tess_ids *ids,
                           const json_t *text, const json_t *c)
{
    for (int skip = 0; skip < 2; skip++) {
        TESS_AUTO(tess_buffer_free) tess_buffer back = {.mem = test_mem()};
        const json_t *want = json_object_get(c, skip ? "skipped" : "kept");
        EXPECT_OK(tess_decode(tokenizer, ids->data, ids->size, skip, &back));
        expect_text(what, k, &back, want != NULL ? want : text);
    }
}

static void every_family_gives_the_ids_and_texts_of_hf_tokenizers(void)
{
    json_t *shared = load_json("shared"), *texts = json_object_get(shared, "texts");
    EXPECT(json_array_size(texts) >= 44);
    for (int f = 0; f < N_FAMILIES; f++) {
        json_t *family, *text;
        tess_tokenizer *tokenizer;
        tess_encoder *encoder;
        size_t k;
        open_family(shared, families[f], &family, &tokenizer);
        EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
        EXPECT_INT(json_array_size(json_object_get(family, "cases")), json_array_size(texts));
        json_array_foreach (texts, k, text) {
            const json_t *c = json_array_get(json_object_get(family, "cases"), k);
            tess_ids bare = {.mem = test_mem()}, ids = bare, want_bare = bare, want = bare;
            add_ids(json_object_get(c, "ids"), &want_bare);
            add_ids(json_object_get(family, "before"), &want);
            add_ids(json_object_get(c, "ids"), &want);
            EXPECT_OK(tess_encode(encoder, json_string_value(text), json_string_length(text), false, &bare));
            expect_ids(families[f], k, &bare, &want_bare);
            EXPECT_OK(tess_encode(encoder, json_string_value(text), json_string_length(text), true, &ids));
            expect_ids(families[f], k, &ids, &want);
            expect_decoded(families[f], k, tokenizer, &ids, text, c);
            tess_ids_free(&bare);
            tess_ids_free(&ids);
            tess_ids_free(&want_bare);
            tess_ids_free(&want);
        }
        tess_encoder_destroy(&encoder);
        tess_tokenizer_destroy(&tokenizer);
        json_decref(family);
    }
    json_decref(shared);
}

static bool is_byte(const tess_tokenizer *tokenizer, int32_t id)
{
    char name[8];
    for (int byte = 0; byte < 256; byte++) {
        snprintf(name, sizeof(name), "<0x%02X>", (unsigned)byte);
        if (tess_tokenizer_id(tokenizer, name) == id)
            return true;
    }
    return false;
}

static bool ends_in(const tess_buffer *text, const char *end)
{
    size_t n = strlen(end);
    return text->size >= n && memcmp(text->data + text->size - n, end, n) == 0;
}

/* Every settled text must be the beginning of the whole. Only bytes at the end, which may be incomplete, are held
 * back. */
static void expect_growing(const char *what, const tess_tokenizer *tokenizer, const int32_t *ids, size_t n)
{
    for (int skip = 0; skip < 2; skip++) {
        TESS_AUTO(tess_buffer_free) tess_buffer whole = {.mem = test_mem()};
        EXPECT_OK(tess_decode(tokenizer, ids, n, skip, &whole));
        for (size_t i = 0; i <= n; i++) {
            TESS_AUTO(tess_buffer_free) tess_buffer part = {.mem = test_mem()};
            EXPECT_OK(tess_decode_settled(tokenizer, ids, i, skip, &part));
            if (part.size > whole.size || (part.size > 0 && memcmp(part.data, whole.data, part.size) != 0))
                test_fail(__FILE__, __LINE__, "%s: the text of %zu of %zu ids is '%s', which does not begin '%s'", what,
                          i, n, part.data, whole.data);
            bool all =
                i == n && n > 0 && !is_byte(tokenizer, ids[n - 1]) && !tess_tokenizer_is_special(tokenizer, ids[n - 1]);
            if (all && !ends_in(&whole, "\xef\xbf\xbd") && part.size != whole.size)
                test_fail(__FILE__, __LINE__, "%s: of '%s' only '%s' is settled", what, whole.data, part.data);
        }
    }
}

static void a_growing_text_never_takes_back_what_was_settled(void)
{
    json_t *shared = load_json("shared");
    uint64_t state = 1;
    for (int f = 0; f < N_FAMILIES; f++) {
        json_t *family, *c;
        tess_tokenizer *tokenizer;
        size_t k;
        open_family(shared, families[f], &family, &tokenizer);
        json_array_foreach (json_object_get(family, "cases"), k, c) {
            tess_ids ids = {.mem = test_mem()};
            add_ids(json_object_get(c, "ids"), &ids);
            expect_growing(families[f], tokenizer, ids.data, ids.size < 60 ? ids.size : 60);
            tess_ids_free(&ids);
        }
        for (int round = 0; round < 60; round++) { /* any ids, as an untrained model draws them; many single bytes */
            int32_t ids[24];
            for (int i = 0; i < 24; i++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                ids[i] = (int32_t)((state >> 33) % (uint64_t)(round % 2 ? tess_tokenizer_vocab_size(tokenizer) : 260));
            }
            expect_growing(families[f], tokenizer, ids, 24);
        }
        tess_tokenizer_destroy(&tokenizer);
        json_decref(family);
    }
    json_decref(shared);
}

/* transformers ignores add_bos_token of tokenizer_config.json next to a tokenizer.json. */
static void tokenizer_json_alone_says_which_tokens_are_around_a_text(void)
{
    static const struct {
        const char *post, *config;
        size_t n;
    } rows[] = {{"{\"type\":\"BertProcessing\",\"cls\":[\"<s>\",1],\"sep\":[\"<s>\",1]}",
                 "{\"bos_token\":\"<s>\",\"add_bos_token\":false}", 3},
                {"null", "{\"bos_token\":\"<s>\",\"add_bos_token\":true}", 1}};
    const char *folder = test_folder();
    for (int i = 0; i < 2; i++) {
        char path[1024], json[512];
        tess_tokenizer *tokenizer;
        tess_ids ids = {.mem = test_mem()};
        snprintf(json, sizeof(json),
                 "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],\"post_processor\":%s,"
                 "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
                 rows[i].post);
        EXPECT_OK(tess_os_join(path, sizeof(path), folder, "tokenizer_config.json"));
        EXPECT_OK(tess_os_write_atomic(path, rows[i].config, strlen(rows[i].config)));
        EXPECT_OK(tess_os_join(path, sizeof(path), folder, "tokenizer.json"));
        EXPECT_OK(tess_os_write_atomic(path, json, strlen(json)));
        EXPECT_OK(tess_tokenizer_load(test_mem(), folder, &tokenizer));
        EXPECT_OK(tess_encode_text(tokenizer, "a", 1, true, &ids));
        EXPECT_INT(ids.size, rows[i].n);
        tess_ids_free(&ids);
        tess_tokenizer_destroy(&tokenizer);
    }
}

static const test_case cases[] = {
    CASE(every_family_gives_the_ids_and_texts_of_hf_tokenizers),
    CASE(a_growing_text_never_takes_back_what_was_settled),
    CASE(tokenizer_json_alone_says_which_tokens_are_around_a_text),
};
TEST_MAIN(cases)
