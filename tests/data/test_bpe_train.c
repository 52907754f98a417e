/* Training of a byte-level BPE, against a plain implementation and recorded vocabularies. */
#include <jansson.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "data/tokenizer/tokenizer.h"
#include "support/test.h"

static const char *const specials[] = {"<|endoftext|>", "<pad>"};

static json_t *member(json_t *json, const char *section, const char *key)
{
    return json_object_get(json_object_get(json, section), key);
}

static void merges_are_those_of_hf_tokenizers(void)
{
    char *text;
    size_t size;
    EXPECT_OK(tess_os_read(test_mem(), test_path("data/fixtures/corpus.txt"), 1 << 20, &text, &size));
    tess_buffer json = {.mem = test_mem()};
    EXPECT_OK(tess_bpe_train(test_mem(), text, size, 1000, specials, 2, &json));
    json_error_t error;
    json_t *got = json_loadb(json.data, json.size, JSON_REJECT_DUPLICATES, &error),
           *want = json_load_file(test_path("data/fixtures/trained.json"), 0, &error);
    EXPECT(got != NULL && want != NULL);
    json_t *merges = member(got, "model", "merges"), *wanted = member(want, "model", "merges");
    EXPECT_INT(json_array_size(merges), json_array_size(wanted));
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        if (!json_equal(json_array_get(merges, i), json_array_get(wanted, i)))
            test_fail(__FILE__, __LINE__, "merge %zu is another than the reference's", i);
    }
    EXPECT_INT(json_object_size(member(got, "model", "vocab")), 1000);
    EXPECT(json_equal(got, want)); /* every other member too: the file is the reference's, spaces aside */
    json_decref(got);
    json_decref(want);
    tess_buffer_free(&json);
    tess_mem_free(test_mem(), text);
}

static void a_trained_tokenizer_reads_back_what_it_wrote(void)
{
    const char text[] = "low low low lower lowest \xff\xfe new newer newest\n\n\twidest wide \"wide\" \\wide\\ 12345";
    tess_buffer json = {.mem = test_mem()}, back = {.mem = test_mem()};
    EXPECT_OK(tess_bpe_train(test_mem(), text, sizeof(text) - 1, 280, specials, 2, &json));
    tess_tokenizer *tokenizer;
    tess_encoder *encoder;
    EXPECT_OK(tess_tokenizer_parse(test_mem(), json.data, json.size, "trained", &tokenizer));
    EXPECT_INT(tess_tokenizer_vocab_size(tokenizer), 280);
    EXPECT_INT(tess_tokenizer_id(tokenizer, "<|endoftext|>"), 0);
    EXPECT_INT(tess_tokenizer_id(tokenizer, "<pad>"), 1);
    EXPECT_INT(tess_tokenizer_id(tokenizer, "!"), 2);
    EXPECT(tess_tokenizer_id(tokenizer, "\xc4\xa0low") > 0);
    EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
    tess_ids ids = {.mem = test_mem()};
    EXPECT_OK(tess_encode(encoder, "lowest<pad> \"wider\"\n", 20, false, &ids));
    EXPECT_OK(tess_decode(tokenizer, ids.data, ids.size, false, &back));
    EXPECT_TEXT(back.data, "lowest<pad> \"wider\"\n");
    tess_ids_free(&ids);
    tess_buffer_free(&back);
    tess_buffer_free(&json);
    tess_encoder_destroy(&encoder);
    tess_tokenizer_destroy(&tokenizer);
}

static void training_stops_when_nothing_is_left_to_merge(void)
{
    tess_buffer json = {.mem = test_mem()};
    tess_tokenizer *tokenizer;
    EXPECT_OK(tess_bpe_train(test_mem(), "aaaa", 4, 5000, NULL, 0, &json));
    EXPECT_OK(tess_tokenizer_parse(test_mem(), json.data, json.size, "trained", &tokenizer));
    EXPECT_INT(tess_tokenizer_vocab_size(tokenizer), 258); /* aa, aaaa */
    tess_tokenizer_destroy(&tokenizer);
    json.size = 0;
    EXPECT_OK(tess_bpe_train(test_mem(), "", 0, 256, NULL, 0, &json));
    EXPECT_OK(tess_tokenizer_parse(test_mem(), json.data, json.size, "trained", &tokenizer));
    EXPECT_INT(tess_tokenizer_vocab_size(tokenizer), 256);
    tess_tokenizer_destroy(&tokenizer);
    tess_buffer_free(&json);
}

static void impossible_vocabularies_are_refused(void)
{
    tess_buffer json = {.mem = test_mem()};
    const char *empty = "", *broken = "\xff";
    EXPECT_FAILS(tess_bpe_train(test_mem(), "ab", 2, 257, specials, 2, &json), TESS_E_INVALID, "258");
    EXPECT_FAILS(tess_bpe_train(test_mem(), "ab", 2, 1LL << 40, NULL, 0, &json), TESS_E_INVALID, "at most");
    EXPECT_FAILS(tess_bpe_train(test_mem(), "ab", 2, 300, &empty, 1, &json), TESS_E_INVALID, "special token 0");
    EXPECT_FAILS(tess_bpe_train(test_mem(), "ab", 2, 300, &broken, 1, &json), TESS_E_INVALID, "special token 0");
    tess_buffer_free(&json);
}

static const test_case cases[] = {
    CASE(merges_are_those_of_hf_tokenizers),
    CASE(a_trained_tokenizer_reads_back_what_it_wrote),
    CASE(training_stops_when_nothing_is_left_to_merge),
    CASE(impossible_vocabularies_are_refused),
};
TEST_MAIN(cases)
