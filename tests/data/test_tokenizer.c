/* Tokenizers: ids of recorded texts, special tokens, decoding, and files that are refused. */
#include <jansson.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "data/tokenizer/oniguruma.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode.h"
#include "support/test.h"

static const char *const styles[] = {"gpt2", "llama3", "qwen2", "llama2"};

static void read_fixture(const char *name, const char *ending, char **data, size_t *size)
{
    char relative[128];
    snprintf(relative, sizeof(relative), "data/fixtures/%s%s", name, ending);
    EXPECT_OK(tess_os_read(test_mem(), test_path(relative), 1 << 20, data, size));
}

static void load_fixture(const char *name, tess_tokenizer **tokenizer)
{
    char relative[128];
    snprintf(relative, sizeof(relative), "data/fixtures/%s.json", name);
    EXPECT_OK(tess_tokenizer_load(test_mem(), test_path(relative), tokenizer));
}

static void encode(const tess_tokenizer *tokenizer, const char *text, size_t size, bool special, tess_ids *ids)
{
    tess_encoder *encoder;
    EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
    EXPECT_OK(tess_encode(encoder, text, size, special, ids));
    tess_encoder_destroy(&encoder);
}

static void expect_ids(const char *what, const tess_ids *ids, const int32_t *want, size_t n)
{
    for (size_t i = 0; i < ids->size && i < n; i++) {
        if (ids->data[i] != want[i])
            test_fail(__FILE__, __LINE__, "%s: id %zu of %zu is %d, expected %d", what, i, n, ids->data[i], want[i]);
    }
    if (ids->size != n)
        test_fail(__FILE__, __LINE__, "%s: %zu ids, expected %zu", what, ids->size, n);
}

static void the_prefix_is_what_the_template_puts_before_a_text(void)
{
    static const int n_tokens[] = {0, 1, 0, 1}; /* by styles */
    for (int s = 0; s < 4; s++) {
        tess_tokenizer *tokenizer;
        tess_ids ids = {.mem = test_mem()};
        load_fixture(styles[s], &tokenizer);
        tess_prefix prefix = tess_tokenizer_prefix(tokenizer);
        EXPECT_INT(prefix.n, n_tokens[s]);
        encode(tokenizer, "a", 1, true, &ids);
        for (int i = 0; i < prefix.n; i++) {
            EXPECT_INT(prefix.id[i], ids.data[i]);
            EXPECT(tess_tokenizer_is_special(tokenizer, prefix.id[i]));
        }
        EXPECT(!tess_tokenizer_is_special(tokenizer, ids.data[prefix.n]));
        EXPECT(!tess_tokenizer_is_special(tokenizer, -1) &&
               !tess_tokenizer_is_special(tokenizer, tess_tokenizer_vocab_size(tokenizer)));
        tess_ids_free(&ids);
        tess_tokenizer_destroy(&tokenizer);
    }
}

static void torture_gives_the_ids_and_text_of_hf_tokenizers(void)
{
    for (int s = 0; s < 4; s++) {
        char *text, *listed, *decoded;
        size_t size, listed_size, decoded_size;
        tess_tokenizer *tokenizer;
        tess_ids want = {.mem = test_mem()}, ids = {.mem = test_mem()};
        read_fixture("torture", ".txt", &text, &size);
        read_fixture(styles[s], ".ids", &listed, &listed_size);
        read_fixture(styles[s], ".decoded", &decoded, &decoded_size);
        load_fixture(styles[s], &tokenizer);
        for (char *at = listed, *end; (void)strtol(at, &end, 10), end != at; at = end)
            EXPECT_OK(tess_ids_append(&want, (int32_t)strtol(at, NULL, 10)));
        EXPECT(want.size > 5000);
        encode(tokenizer, text, size, true, &ids);
        expect_ids(styles[s], &ids, want.data, want.size);
        tess_buffer back = {.mem = test_mem()};
        EXPECT_OK(tess_decode(tokenizer, ids.data, ids.size, false, &back));
        EXPECT_INT(back.size, decoded_size);
        EXPECT_SAME(back.data, decoded, decoded_size);
        tess_buffer_free(&back);
        tess_ids_free(&want);
        tess_ids_free(&ids);
        tess_tokenizer_destroy(&tokenizer);
        tess_mem_free(test_mem(), text);
        tess_mem_free(test_mem(), listed);
        tess_mem_free(test_mem(), decoded);
    }
}

static void each_step_alone_gives_the_ids_of_hf_tokenizers(void)
{
    json_error_t error;
    json_t *all = json_load_file(test_path("data/fixtures/cases.json"), 0, &error),
           *cases = json_object_get(all, "cases"), *c;
    EXPECT(json_array_size(cases) > 60);
    size_t i;
    json_array_foreach (cases, i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        json_t *json = json_object_get(c, "tokenizer"), *model = json_object_get(json, "model");
        json_object_set(model, "vocab", json_object_get(all, "vocab"));
        json_object_set(model, "merges", json_object_get(all, "merges"));
        char *dumped = json_dumps(json, 0);
        tess_tokenizer *tokenizer;
        EXPECT_OK(tess_tokenizer_parse(test_mem(), dumped, strlen(dumped), name, &tokenizer));
        free(dumped);
        tess_ids ids = {.mem = test_mem()}, want = {.mem = test_mem()};
        const json_t *text = json_object_get(c, "text"), *list = json_object_get(c, "ids");
        encode(tokenizer, json_string_value(text), json_string_length(text), true, &ids);
        for (size_t k = 0; k < json_array_size(list); k++)
            EXPECT_OK(tess_ids_append(&want, (int32_t)json_integer_value(json_array_get(list, k))));
        expect_ids(name, &ids, want.data, want.size);
        tess_buffer back = {.mem = test_mem()};
        EXPECT_OK(tess_decode(tokenizer, ids.data, ids.size, true, &back));
        EXPECT_TEXT(back.data, json_string_value(json_object_get(c, "decoded")));
        tess_buffer_free(&back);
        tess_ids_free(&ids);
        tess_ids_free(&want);
        tess_tokenizer_destroy(&tokenizer);
    }
    json_decref(all);
}

static void invalid_utf8_is_replaced_per_maximal_subpart(void)
{
    char *bad, *good;
    size_t bad_size, good_size;
    read_fixture("invalid", ".bin", &bad, &bad_size);
    read_fixture("invalid", ".txt", &good, &good_size);
    tess_buffer repaired = {.mem = test_mem()};
    EXPECT_OK(tess_utf8_repair(bad, bad_size, &repaired));
    EXPECT_INT(repaired.size, good_size);
    EXPECT_SAME(repaired.data, good, good_size);
    tess_tokenizer *tokenizer;
    load_fixture("gpt2", &tokenizer);
    tess_ids a = {.mem = test_mem()}, b = {.mem = test_mem()};
    encode(tokenizer, bad, bad_size, false, &a);
    encode(tokenizer, good, good_size, false, &b);
    expect_ids("invalid", &a, b.data, b.size);
    tess_ids_free(&a);
    tess_ids_free(&b);
    tess_tokenizer_destroy(&tokenizer);
    tess_buffer_free(&repaired);
    tess_mem_free(test_mem(), bad);
    tess_mem_free(test_mem(), good);
}

static void an_encoder_gives_the_same_ids_every_time(void)
{
    tess_tokenizer *tokenizer;
    tess_encoder *encoder;
    char *text;
    size_t size;
    load_fixture("qwen2", &tokenizer);
    read_fixture("torture", ".txt", &text, &size);
    EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
    tess_ids first = {.mem = test_mem()}, again = {.mem = test_mem()};
    EXPECT_OK(tess_encode(encoder, text, size, false, &first));
    EXPECT_OK(tess_encode(encoder, text, size, false, &again));
    expect_ids("again", &again, first.data, first.size);
    EXPECT_OK(tess_encode(encoder, "", 0, false, &again));
    EXPECT_INT(again.size, first.size);
    int64_t bytes = 0;
    for (size_t i = 0; i < first.size; i++)
        bytes += tess_tokenizer_bytes(tokenizer, first.data[i]);
    EXPECT(bytes > (int64_t)size - 400 && bytes <= (int64_t)size); /* less special tokens and what NFC joins */
    tess_ids_free(&first);
    tess_ids_free(&again);
    tess_encoder_destroy(&encoder);
    tess_tokenizer_destroy(&tokenizer);
    tess_mem_free(test_mem(), text);
}

/* Runs of every length around the switch from array to heap: ids of a run are those of the run before it, grown by
 * merges. */
static void long_pieces_take_as_many_bytes_as_they_have(void)
{
    tess_tokenizer *tokenizer;
    load_fixture("gpt2", &tokenizer);
    enum { LONGEST = 1 << 20 };
    char *run = malloc(LONGEST);
    memset(run, 'a', LONGEST);
    for (size_t n = 1; n <= LONGEST; n = n < 70 ? n + 1 : n * 8) {
        tess_ids ids = {.mem = test_mem()};
        tess_buffer back = {.mem = test_mem()};
        encode(tokenizer, run, n, false, &ids);
        EXPECT_OK(tess_decode(tokenizer, ids.data, ids.size, false, &back));
        EXPECT_INT(back.size, n);
        EXPECT_SAME(back.data, run, n);
        tess_buffer_free(&back);
        tess_ids_free(&ids);
    }
    free(run);
    tess_tokenizer_destroy(&tokenizer);
}

static void write_json(const char *folder, const char *name, const json_t *json)
{
    char path[1024];
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, name));
    EXPECT_INT(json_dump_file(json, path, 0), 0);
}

/* Takes a fixture apart: vocab.json, merges.txt, and its added tokens in tokenizer_config.json. */
static void write_older_layout(const char *style, const char *class, const char *folder)
{
    char path[1024], id[32];
    json_error_t error;
    json_t *merge, *token, *decoder = json_object();
    size_t i;
    snprintf(path, sizeof(path), "data/fixtures/%s.json", style);
    json_t *all = json_load_file(test_path(path), 0, &error), *model = json_object_get(all, "model");
    write_json(folder, "vocab.json", json_object_get(model, "vocab"));
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, "merges.txt"));
    FILE *merges = fopen(path, "w");
    EXPECT(merges != NULL);
    fprintf(merges, "#version: 0.2\n");
    json_array_foreach (json_object_get(model, "merges"), i, merge)
        fprintf(merges, "%s%s%s\n", json_string_value(json_is_array(merge) ? json_array_get(merge, 0) : merge),
                json_is_array(merge) ? " " : "",
                json_is_array(merge) ? json_string_value(json_array_get(merge, 1)) : "");
    EXPECT_INT(fclose(merges), 0);
    json_array_foreach (json_object_get(all, "added_tokens"), i, token) {
        snprintf(id, sizeof(id), "%lld", (long long)json_integer_value(json_object_get(token, "id")));
        json_object_set(decoder, id, token);
    }
    json_t *config = json_pack("{s:s, s:o}", "tokenizer_class", class, "added_tokens_decoder", decoder);
    write_json(folder, "tokenizer_config.json", config);
    json_decref(config);
    json_decref(all);
}

static void vocab_and_merges_give_the_ids_of_hf_tokenizers(void)
{
    static const char *const kinds[][2] = {{"gpt2", "GPT2Tokenizer"}, {"qwen2", "Qwen2TokenizerFast"}};
    const char *folder = test_folder();
    for (int k = 0; k < 2; k++) {
        char *text, *listed;
        size_t size, listed_size;
        tess_tokenizer *tokenizer, *read;
        tess_ids want = {.mem = test_mem()}, ids = {.mem = test_mem()};
        tess_buffer json = {.mem = test_mem()};
        read_fixture("torture", ".txt", &text, &size);
        read_fixture(kinds[k][0], ".ids", &listed, &listed_size);
        for (char *at = listed, *end; (void)strtol(at, &end, 10), end != at; at = end)
            EXPECT_OK(tess_ids_append(&want, (int32_t)strtol(at, NULL, 10)));
        write_older_layout(kinds[k][0], kinds[k][1], folder);
        EXPECT(tess_tokenizer_is_at(folder));
        EXPECT_OK(tess_tokenizer_load(test_mem(), folder, &tokenizer));
        encode(tokenizer, text, size, true, &ids);
        expect_ids(kinds[k][1], &ids, want.data, want.size);
        /* and the tokenizer.json that they stand for */
        EXPECT_OK(tess_tokenizer_read(test_mem(), folder, &json));
        EXPECT_OK(tess_tokenizer_parse(test_mem(), json.data, json.size, "read", &read));
        ids.size = 0;
        encode(read, text, size, true, &ids);
        expect_ids("read", &ids, want.data, want.size);
        tess_tokenizer_destroy(&read);
        tess_tokenizer_destroy(&tokenizer);
        tess_buffer_free(&json);
        tess_ids_free(&want);
        tess_ids_free(&ids);
        tess_mem_free(test_mem(), text);
        tess_mem_free(test_mem(), listed);
    }
}

static void expect_first(const char *folder, const char *name, const char *json, const char *text, bool special,
                         int32_t want)
{
    char path[1024];
    tess_tokenizer *tokenizer;
    tess_ids ids = {.mem = test_mem()};
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, name));
    EXPECT_OK(tess_os_write_atomic(path, json, strlen(json)));
    EXPECT_OK(tess_tokenizer_load(test_mem(), folder, &tokenizer));
    encode(tokenizer, text, strlen(text), special, &ids);
    EXPECT_INT(ids.data[0], want);
    tess_ids_free(&ids);
    tess_tokenizer_destroy(&tokenizer);
}

static void special_tokens_of_the_older_layout_are_found_where_they_are_stated(void)
{
    const char *folder = test_folder();
    char path[1024];
    tess_tokenizer *tokenizer;
    write_older_layout("gpt2", "GPT2Tokenizer", folder);
    expect_first(folder, "tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}", "<|endoftext|>", false,
                 0);
    expect_first(folder, "tokenizer_config.json",
                 "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_bos_token\": true, \"bos_token\": \"<bos>\"}", "st",
                 true, 800); /* a token that no file has comes after the vocabulary */
    expect_first(folder, "special_tokens_map.json", "{\"additional_special_tokens\": [{\"content\": \"<tool>\"}]}",
                 "<tool>", false, 801);
    expect_first(folder, "added_tokens.json", "{\"<right\": 950, \"<left\": 900}", "<left", false,
                 800); /* ids state the order alone */
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, "tokenizer_config.json"));
    EXPECT_OK(tess_os_write_atomic(path, "{}", 2));
    EXPECT_FAILS(tess_tokenizer_load(test_mem(), folder, &tokenizer), TESS_E_UNSUPPORTED, "not stated");
    expect_first(folder, "config.json", "{\"model_type\": \"qwen3\"}", "<tool>", false, 802);
    expect_first(folder, "config.json", "{\"model_type\": \"qwen3_moe\"}", "<tool>", false, 802);
    const char *other = "{\"tokenizer_class\": \"RobertaTokenizer\"}";
    EXPECT_OK(tess_os_write_atomic(path, other, strlen(other)));
    EXPECT_FAILS(tess_tokenizer_load(test_mem(), folder, &tokenizer), TESS_E_UNSUPPORTED,
                 "tokenizer_class is RobertaTokenizer");
    EXPECT_FAILS(tess_tokenizer_load(test_mem(), folder, &tokenizer), TESS_E_UNSUPPORTED, "save_pretrained");
}

static void ids_and_texts_are_found(void)
{
    tess_tokenizer *tokenizer;
    load_fixture("llama3", &tokenizer);
    int32_t eot = tess_tokenizer_id(tokenizer, "<|endoftext|>");
    EXPECT(eot >= 800 && eot < tess_tokenizer_vocab_size(tokenizer));
    EXPECT_INT(tess_tokenizer_id(tokenizer, "no such token"), -1);
    EXPECT_INT(tess_tokenizer_bytes(tokenizer, eot), 0);
    EXPECT_INT(tess_tokenizer_bytes(tokenizer, tess_tokenizer_id(tokenizer, "\xc4\xa0")), 1); /* U+0120, a space */
    EXPECT_INT(tess_tokenizer_bytes(tokenizer, -5), 0);
    tess_buffer text = {.mem = test_mem()};
    const int32_t ids[] = {eot, 0, eot}, wrong[] = {0, 1 << 20};
    EXPECT_OK(tess_decode(tokenizer, ids, 3, true, &text));
    EXPECT_TEXT(text.data, "!");
    text.size = 0;
    EXPECT(tess_tokenizer_has(tokenizer, 0) && !tess_tokenizer_has(tokenizer, 1 << 20) &&
           !tess_tokenizer_has(tokenizer, -1));
    EXPECT_OK(tess_decode(tokenizer, wrong, 2, true, &text)); /* a model may draw what its tokenizer does not have */
    EXPECT_TEXT(text.data, "!\xef\xbf\xbd");
    text.size = 0;
    EXPECT_OK(tess_decode(tokenizer, ids, 0, true, &text));
    EXPECT_TEXT(text.data, "");
    tess_buffer_free(&text);
    tess_tokenizer_destroy(&tokenizer);
}

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

/* HF tokenizers numbers added tokens itself. Of tokens with the same content the last one's flags count, and it is
 * special if one of them is. */
static void added_tokens_are_numbered_as_hf_tokenizers_does(void)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":10,\"content\":\"<x>\",\"lstrip\":true},"
        "{\"id\":7,\"content\":\"<y>\"},{\"id\":7,\"content\":\"\"},{\"id\":9,\"content\":\"b\"},"
        "{\"id\":4000000000,\"content\":\"<x>\",\"rstrip\":true,\"special\":true},"
        "{\"id\":3,\"content\":\"<z>\"},{\"id\":3,\"content\":\"<x>\",\"rstrip\":true}],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\" \":2},\"merges\":[]}}";
    static const int32_t want[] = {0, 2, 3, 1, 4, 5};
    tess_tokenizer *tokenizer;
    tess_ids ids = {.mem = test_mem()};
    EXPECT_OK(tess_tokenizer_parse(test_mem(), json, strlen(json), "t.json", &tokenizer));
    encode(tokenizer, "a <x> b<y><z>", 13, false, &ids);
    expect_ids("renumbered", &ids, want, 6);
    EXPECT(tess_tokenizer_is_special(tokenizer, 3) && !tess_tokenizer_is_special(tokenizer, 4));
    EXPECT_INT(tess_tokenizer_vocab_size(tokenizer), 6);
    tess_ids_free(&ids);
    tess_tokenizer_destroy(&tokenizer);
}

static void what_cannot_be_read_is_named(void)
{
    static const struct {
        const char *json;
        tess_status status;
        const char *needle;
    } files[] = {
        {"", TESS_E_FORMAT, "t.json"},
        {"[]", TESS_E_FORMAT, "object"},
        {"{}", TESS_E_FORMAT, "model"},
        {"{\"version\":\"2.0\"," MODEL "}", TESS_E_UNSUPPORTED, "version"},
        {"{\"model\":{\"type\":\"WordPiece\"}}", TESS_E_UNSUPPORTED, "WordPiece"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", TESS_E_FORMAT, "vocab"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", TESS_E_FORMAT, "'a'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4194304},\"merges\":[]}}", TESS_E_FORMAT, "'a'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", TESS_E_FORMAT, "two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", TESS_E_FORMAT, "merges[0]: 'b'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}", TESS_E_FORMAT, "merges[0]"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", TESS_E_FORMAT, "merges[0]"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", TESS_E_UNSUPPORTED,
         "dropout"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}}", TESS_E_FORMAT,
         "unk_token"},
        {"{\"normalizer\":{\"type\":\"Lowercase\"}," MODEL "}", TESS_E_UNSUPPORTED, "'Lowercase'"},
        {"{\"normalizer\":{}," MODEL "}", TESS_E_FORMAT, "normalizer"},
        {"{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," MODEL "}", TESS_E_UNSUPPORTED, "'UnicodeScripts'"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"}}," MODEL "}", TESS_E_FORMAT,
         "the regex '(' is invalid at byte 1: missing closing parenthesis"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a[b]]\"}}," MODEL "}", TESS_E_UNSUPPORTED,
         "nested"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[:alpha:]]\"}}," MODEL "}",
         TESS_E_UNSUPPORTED, "nested"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{Alpha}\"}}," MODEL "}",
         TESS_E_UNSUPPORTED, "\\p{Alpha}"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(?i)b|c\"}}," MODEL "}", TESS_E_UNSUPPORTED,
         "(?i:...)"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{}}," MODEL "}", TESS_E_FORMAT, "pattern"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}"
         "," MODEL "}",
         TESS_E_UNSUPPORTED, "'Digits' after ByteLevel"},
        {"{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}]}," MODEL
         "}",
         TESS_E_UNSUPPORTED, "'ByteFallback' after Fuse"},
        {"{\"decoder\":{\"type\":\"CTC\"}," MODEL "}", TESS_E_UNSUPPORTED, "'CTC'"},
        {"{\"post_processor\":{\"type\":\"Nope\"}," MODEL "}", TESS_E_UNSUPPORTED, "'Nope'"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}," MODEL
         "}",
         TESS_E_FORMAT, "'x'"},
        {"{\"added_tokens\":[{\"id\":-1,\"content\":\"c\"}]," MODEL "}", TESS_E_FORMAT, "added_tokens[0]"},
        {"{\"added_tokens\":[{\"content\":\"c\"}]," MODEL "}", TESS_E_FORMAT, "'id'"},
        {"{\"added_tokens\":3," MODEL "}", TESS_E_FORMAT, "list"},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        tess_tokenizer *tokenizer;
        test_expect_status(__FILE__, __LINE__, files[i].json,
                           tess_tokenizer_parse(test_mem(), files[i].json, strlen(files[i].json), "t.json", &tokenizer),
                           files[i].status, files[i].needle);
        EXPECT(tokenizer == NULL);
    }
    tess_tokenizer *tokenizer;
    EXPECT_FAILS(tess_tokenizer_load(test_mem(), "no/such/tokenizer.json", &tokenizer), TESS_E_NOT_FOUND, "no/such");
    const char *folder = test_folder();
    char path[1024];
    EXPECT_FAILS(tess_tokenizer_load(test_mem(), folder, &tokenizer), TESS_E_NOT_FOUND, "tokenizer.json");
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, "tokenizer.model"));
    EXPECT_OK(tess_os_write_atomic(path, "x", 1));
    EXPECT_FAILS(tess_tokenizer_load(test_mem(), folder, &tokenizer), TESS_E_UNSUPPORTED, "tokenizer.model: without");
    EXPECT(!tess_tokenizer_is_at(folder));
}

/* "ab" becomes "X" in the whole text: an "a" at the end may be half of it. */
static void a_text_is_not_settled_where_the_decoder_may_still_replace_it(void)
{
    const char *json = "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\","
                       "\"pattern\":{\"String\":\"ab\"},\"content\":\"X\"}]},\"model\":{\"type\":\"BPE\","
                       "\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}";
    static const int32_t ids[] = {2, 0, 0, 1, 0, 2, 1, 0, 1};
    static const char *const settled[] = {"", "c", "c", "ca", "caX", "caX", "caXac", "caXacb", "caXacb", "caXacbX"};
    tess_tokenizer *tokenizer;
    EXPECT_OK(tess_tokenizer_parse(test_mem(), json, strlen(json), "t.json", &tokenizer));
    for (size_t n = 0; n < 10; n++) {
        tess_buffer text = {.mem = test_mem()};
        EXPECT_OK(tess_decode_settled(tokenizer, ids, n, false, &text));
        EXPECT_TEXT(text.data, settled[n]);
        tess_buffer_free(&text);
    }
    tess_tokenizer_destroy(&tokenizer);
}

static void a_normalizer_leaves_an_empty_text_empty(void)
{
    const char *json =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"b\"},"
        "\"content\":\"\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x*\"},\"content\":\"a\"}]}," MODEL "}";
    tess_tokenizer *tokenizer;
    tess_ids ids = {.mem = test_mem()};
    EXPECT_OK(tess_tokenizer_parse(test_mem(), json, strlen(json), "t.json", &tokenizer));
    EXPECT_OK(tess_encode_text(tokenizer, "b", 1, false, &ids));
    EXPECT_INT(ids.size, 0);
    tess_ids_free(&ids);
    tess_tokenizer_destroy(&tokenizer);
}

static void expect_encoded(const char *json, const char *text, const int32_t *want, size_t n)
{
    tess_tokenizer *tokenizer;
    tess_ids ids = {.mem = test_mem()};
    EXPECT_OK(tess_tokenizer_parse(test_mem(), json, strlen(json), "t.json", &tokenizer));
    EXPECT_OK(tess_encode_text(tokenizer, text, strlen(text), false, &ids));
    expect_ids(text, &ids, want, n);
    tess_ids_free(&ids);
    tess_tokenizer_destroy(&tokenizer);
}

/* The regex crate's: U+200D is in a word, U+00B2 is not. */
static void whitespace_has_the_words_of_rust(void)
{
    static const int32_t want[] = {0, 1, 4};
    expect_encoded(
        "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u00b2\":1,"
        "\"\\u200d\":2,\"a\\u00b2\":3,\"a\\u200d\":4},\"merges\":[\"a \\u00b2\",\"a \\u200d\"]}}",
        "a\xc2\xb2 a\xe2\x80\x8d", want, 3);
}

static void a_regex_that_explodes_is_an_error(void)
{
    const char *json = "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|a)*(a|a)*(a|a)*b\"},"
                       "\"behavior\":\"Isolated\",\"invert\":false}," MODEL "}";
    tess_tokenizer *tokenizer;
    EXPECT_OK(tess_tokenizer_parse(test_mem(), json, strlen(json), "t.json", &tokenizer));
    tess_encoder *encoder;
    EXPECT_OK(tess_encoder_create(test_mem(), tokenizer, &encoder));
    char text[64];
    memset(text, 'a', sizeof(text));
    memcpy(text + sizeof(text) - 2, "cb", 2);
    tess_ids ids = {.mem = test_mem()};
    EXPECT_FAILS(tess_encode(encoder, text, sizeof(text), false, &ids), TESS_E_INVALID, "gives up");
    tess_ids_free(&ids);
    tess_encoder_destroy(&encoder);
    tess_tokenizer_destroy(&tokenizer);
}

/* Characters that the pattern matches, of all that UTF-8 can encode. */
static int64_t count_matches(const char *pattern)
{
    size_t size = 0, capacity = 4 * 0x110000, begin = 0, end = 0;
    char *all = malloc(capacity);
    for (uint32_t c = 0; c < 0x110000; c++)
        if (c < 0xd800 || c >= 0xe000)
            size += (size_t)tess_utf8_encode(c, (uint8_t *)all + size);
    tess_regex *regex;
    tess_regex_scratch *scratch;
    EXPECT_OK(tess_oniguruma_create(test_mem(), pattern, strlen(pattern), "pattern", &regex));
    EXPECT_OK(tess_oniguruma_scratch_create(test_mem(), &scratch));
    int64_t n = 0;
    bool found = true;
    while (end < size && found) {
        EXPECT_OK(tess_regex_find(regex, scratch, all, size, end, &found, &begin, &end));
        n += found;
    }
    tess_regex_scratch_destroy(&scratch);
    tess_regex_destroy(&regex);
    free(all);
    return n;
}

/* The numbers are those of tokenizers 0.23.3, whose tables are of Unicode 16: a Split of all characters by each. */
static void classes_hold_the_characters_that_hf_tokenizers_see(void)
{
    EXPECT_INT(count_matches("\\p{L}"), 141028);
    EXPECT_INT(count_matches("\\p{N}"), 1911);
    EXPECT_INT(count_matches("\\pN"), 0); /* the letters pN */
    EXPECT_INT(count_matches("\\v"), 1);
    EXPECT_INT(count_matches("[\\S]"), 0x110000 - 2048 - 25);
    EXPECT_INT(count_matches("[^\\S]"), 25);
    EXPECT_INT(count_matches("\\p{Latin}"), 1487);
    EXPECT_INT(count_matches("\\p{Cyrillic}"), 508);
    EXPECT_INT(count_matches("\\p{Arabic}"), 1373);
    EXPECT_INT(count_matches("\\p{Devanagari}"), 164);
    EXPECT_INT(count_matches("\\p{Hiragana}"), 381);
    EXPECT_INT(count_matches("\\p{Katakana}"), 321);
    EXPECT_INT(count_matches("[\\p{M}]"), 2501);
    EXPECT_INT(count_matches("\\p{P}"), 855);
    EXPECT_INT(count_matches("\\p{S}"), 8514);
    EXPECT_INT(count_matches("\\p{Lu}"), 1858);
    EXPECT_INT(count_matches("\\p{Ll}"), 2258);
    EXPECT_INT(count_matches("\\p{Lm}"), 404);
    EXPECT_INT(count_matches("\\p{Nd}"), 760);
    EXPECT_INT(count_matches("\\w"), 144671);
    EXPECT_INT(count_matches("\\s"), 25);
    EXPECT_INT(count_matches("[\\d]"), 760);
    EXPECT_INT(count_matches("\\p{Han}"), 99030);
    EXPECT_INT(count_matches("\\P{L}"), 0x110000 - 2048 - 141028);
    EXPECT_INT(count_matches("\\p{^L}"), 0x110000 - 2048 - 141028);
    EXPECT_INT(count_matches("[^\\p{L}\\p{N}]"), 0x110000 - 2048 - 141028 - 1911);
}

/* The matches are those that tokenizers 0.23.3 finds first. */
static void a_regex_finds_what_oniguruma_finds(void)
{
    static const struct {
        const char *pattern, *text, *match;
    } rows[] = {
        {"(?im:A.)", "a\n", "a\n"},
        {"(?mi:A.)", "a\n", "a\n"},
        {"(?m)a.", "a\n", "a\n"},
        {"(?m:a(?-m:.))", "a\nab", "ab"},
        {"[\\s\\S]+", "a\n\xe1\xa0\x8e b", "a\n\xe1\xa0\x8e b"},
        {"\\V", "vV", "V"},
        {"[\\v]+", "\n\x0b\x0b\x0c", "\x0b\x0b"},
        {"\\PL", "aPL", "PL"},
        {"\\x41{2}+", "AAAAA4111", "AAAA"},
        {"\\101{2}+", "AAAAA", "AAAA"},
        {"\\x{e9}{2}+", "\xc3\xa9\xc3\xa9\xc3\xa9", "\xc3\xa9\xc3\xa9"},
        {"\\cA{2}+", "A\x01\x01\x01", "\x01\x01"},
        {"(?<n>a)\\k<n>{2}+", "aaaaaa", "aaaaa"},
        {"x{{2}+", "xx{{{{x", "x{{{{"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tess_regex *regex;
        tess_regex_scratch *scratch;
        bool found;
        size_t begin = 0, end = 0, size = strlen(rows[i].match);
        EXPECT_OK(tess_oniguruma_create(test_mem(), rows[i].pattern, strlen(rows[i].pattern), "pattern", &regex));
        EXPECT_OK(tess_oniguruma_scratch_create(test_mem(), &scratch));
        EXPECT_OK(tess_regex_find(regex, scratch, rows[i].text, strlen(rows[i].text), 0, &found, &begin, &end));
        if (!found || end - begin != size || memcmp(rows[i].text + begin, rows[i].match, size) != 0)
            test_fail(__FILE__, __LINE__, "%s finds '%.*s', expected '%s'", rows[i].pattern, (int)(end - begin),
                      rows[i].text + begin, rows[i].match);
        tess_regex_scratch_destroy(&scratch);
        tess_regex_destroy(&regex);
    }
    static const char *const refused[] = {"[^\\W\\d_]+",   "[\\D]",         "[^\\P{L}]",      "[\\p{^Han}]",
                                          "(?i:a\\p{Lu})", "(?i)[\\p{Ll}]", "(?i:(b)\\p{Lt})"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        tess_regex *regex = NULL;
        EXPECT_FAILS(tess_oniguruma_create(test_mem(), refused[i], strlen(refused[i]), "pattern", &regex),
                     TESS_E_UNSUPPORTED, "in a regex is not supported");
    }
}

/* EXAONE-MoE's words: a repetition in a repetition, which keeps state for each letter. */
static void a_word_may_be_as_long_as_a_mebibyte(void)
{
    const char *pattern = "[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\s+";
    size_t size = 1 << 20, begin = 0, end = 0;
    char *text = malloc(size);
    tess_regex *regex;
    tess_regex_scratch *scratch;
    bool found;
    memset(text, 'a', size);
    EXPECT_OK(tess_oniguruma_create(test_mem(), pattern, strlen(pattern), "pattern", &regex));
    EXPECT_OK(tess_oniguruma_scratch_create(test_mem(), &scratch));
    EXPECT_OK(tess_regex_find(regex, scratch, text, size, 0, &found, &begin, &end));
    EXPECT_INT(end - begin, size);
    tess_regex_scratch_destroy(&scratch);
    tess_regex_destroy(&regex);
    free(text);
}

static const test_case cases[] = {
    CASE(the_prefix_is_what_the_template_puts_before_a_text),
    CASE(torture_gives_the_ids_and_text_of_hf_tokenizers),
    CASE(each_step_alone_gives_the_ids_of_hf_tokenizers),
    CASE(invalid_utf8_is_replaced_per_maximal_subpart),
    CASE(an_encoder_gives_the_same_ids_every_time),
    CASE(long_pieces_take_as_many_bytes_as_they_have),
    CASE(vocab_and_merges_give_the_ids_of_hf_tokenizers),
    CASE(special_tokens_of_the_older_layout_are_found_where_they_are_stated),
    CASE(ids_and_texts_are_found),
    CASE(added_tokens_are_numbered_as_hf_tokenizers_does),
    CASE(what_cannot_be_read_is_named),
    CASE(classes_hold_the_characters_that_hf_tokenizers_see),
    CASE(a_text_is_not_settled_where_the_decoder_may_still_replace_it),
    CASE(a_normalizer_leaves_an_empty_text_empty),
    CASE(whitespace_has_the_words_of_rust),
    CASE(a_regex_finds_what_oniguruma_finds),
    CASE(a_word_may_be_as_long_as_a_mebibyte),
    CASE(a_regex_that_explodes_is_an_error),
};
TEST_MAIN(cases)
